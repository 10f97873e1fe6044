"""The timeline of a model: lanes over one axis of dates, each a small SVG, and its events.

The axis has a place for each date of a partition, or else for each time of a record, and an empty
one where dates are missing. A promotion is at the first date that was scored or evaluated after it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from probclass_airflow.ui.partition_dates import moment_of, partition_date, rows_date
from probclass_airflow.ui.rows import (
    CHAMPION,
    EvaluationRow,
    PartitionRow,
    Stop,
    evaluation_rows,
    partition_rows,
    stops,
    words_of,
)
from probclass_core.report.html import finite, number, percent

if TYPE_CHECKING:
    from probclass_core.store.promotions import Promotion
    from probclass_core.store.results import ModelRecords

WIDTH, LEFT, RIGHT = 1064.0, 70.0, 20.0
"""Width of the lanes, and of the spaces at their sides for the texts of the axes."""
_MOST_SLOTS = 400
"""Most dates of a page."""
_NUMBER = re.compile(r"\d[\d.,]*")
_GLYPHS = {"promoted": "▲", "rolled_back": "▼", "refused": "✕"}


@dataclass(frozen=True)
class Mark:
    """A rectangle, or a glyph, with a tooltip.

    Attributes:
        x: its left edge.
        y: its upper edge.
        width: its width.
        height: its height.
        css: its classes in the stylesheet.
        title: the tooltip.
        version: content id of the version that it leads to, or empty.
        text: text in its middle, or empty.
        opacity: how strong its color is, from 0 to 1.
    """

    x: float
    y: float
    width: float
    height: float
    css: str
    title: str
    version: str = ""
    text: str = ""
    opacity: float = 1.0


@dataclass(frozen=True)
class Lane:
    """One plot of the timeline.

    Attributes:
        title: what it shows.
        key: what its marks mean.
        height: its height.
        marks: rectangles and glyphs.
        ticks: heights and texts on the vertical axis.
        lines: classes and points of polylines.
    """

    title: str
    key: str
    height: float
    marks: list[Mark]
    ticks: list[tuple[float, str]] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Event:
    """A line of the list of events; of those with equal keys in a row, one is listed.

    Attributes:
        time: when it was recorded, ISO 8601.
        kind: action of the ledger or of a check.
        what: what happened.
        where: to which version, or in which partitions.
        sentence: the reason.
        key: what near-identical events have in common.
    """

    time: str
    kind: str
    what: str
    where: str
    sentence: str
    key: Any


@dataclass(frozen=True)
class Timeline:
    """All lanes, the ticks of the axis, and the events.

    Attributes:
        lanes: the lanes, top to bottom.
        ticks: positions and texts of the horizontal axis.
        page: number of the page, from 1 for the newest dates.
        pages: number of pages.
        events: promotions, rollbacks, refusals, warnings, partitions not scored, newest first.
    """

    lanes: list[Lane]
    ticks: list[tuple[float, str]]
    page: int
    pages: int
    events: list[Event]


@dataclass
class _Slot:
    """What is known of one date."""

    when: datetime
    name: str
    scored: dict[str, PartitionRow] = field(default_factory=dict)
    evaluations: list[EvaluationRow] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    champion: str | None = None
    created: list[str] = field(default_factory=list)
    x: float = 0.0

    @property
    def served(self) -> str | None:
        """The version that served."""
        versions = [row.record.version for row in self.scored.values()]
        return versions[-1] if versions else self.champion

    @property
    def evaluation(self) -> EvaluationRow | None:
        """The newest evaluation of the version that served, or else of any."""
        own = [one for one in self.evaluations if one.record.version == self.served]
        return next(reversed(own or self.evaluations), None)


def timeline(records: ModelRecords, page: int = 1) -> Timeline | None:
    """The timeline of a model, or None if it was neither scored nor evaluated.

    Args:
        records: the records of the model.
        page: which 400 dates, from 1 for the newest.
    """
    scored = partition_rows(records.scorings)
    slots = _slots(records, scored)
    if not slots:
        return None
    pages = -(-len(slots) // _MOST_SLOTS)
    page = min(page, pages)
    shown = slots[::-1][_MOST_SLOTS * (page - 1) : _MOST_SLOTS * page][::-1]
    width = _place(shown)
    every = -(-len(shown) // 10)
    return Timeline(
        lanes=[_versions(shown, width), *_measures(shown), *_checks(shown, width)],
        ticks=[(slot.x, text) for slot, text in zip(shown, _dates(shown), strict=True)][::every],
        page=page,
        pages=pages,
        events=_events(records, scored),
    )


# Dates


def _slots(records: ModelRecords, scored: Sequence[PartitionRow]) -> list[_Slot]:
    """What is known of each date, oldest first."""
    evaluated, stopped = evaluation_rows(records), stops(records.scorings)
    rows: list[tuple[datetime | None, str, PartitionRow | EvaluationRow | Stop]] = [
        *((partition_date(row.values.get("partition")), row.name, row) for row in scored),
        *((rows_date(row.record.on), row.on, row) for row in evaluated),
        *((partition_date(row.partition), row.name, row) for row in stopped),
    ]
    has_dates = 2 * sum(when is not None for when, _, _ in rows) > len(rows)
    slots: dict[datetime, _Slot] = {}
    for when, name, row in rows:
        created = row.record.created
        at = when if has_dates else moment_of(created)
        if at is None:
            continue
        slot = slots.setdefault(at, _Slot(at, name))
        slot.created.append(created)
        if isinstance(row, PartitionRow):
            slot.scored.pop(name, None)
            slot.scored[name] = row
        elif isinstance(row, EvaluationRow):
            slot.evaluations.append(row)
        else:
            slot.stops.append(row)
    found = [slots[when] for when in sorted(slots)]
    _promote(records, found)
    return found


def _promote(records: ModelRecords, slots: Sequence[_Slot]) -> None:
    """Give the slots the promotions of the champion, and who it was."""
    created = sorted((time, at) for at, slot in enumerate(slots) for time in slot.created)
    for entry in records.promotions:
        if entry.alias == CHAMPION and created:
            place = min(bisect_left(created, (entry.time,)), len(created) - 1)
            slots[created[place][1]].promotions.append(entry)
    champion = None
    for slot in slots:
        for entry in slot.promotions:
            champion = champion if entry.action == "refused" else entry.id
        slot.champion = champion


def _place(slots: Sequence[_Slot]) -> float:
    """Give each slot the position of its middle; returns the width of a slot."""
    steps = [(later.when - earlier.when).total_seconds() for earlier, later in pairwise(slots)]
    usual = median(steps) if steps else None
    places = [0.5]
    for step in steps:
        places.append(places[-1] + (2 if usual and step > 1.5 * usual else 1))
    width = (WIDTH - LEFT - RIGHT) / (places[-1] + 0.5)
    for slot, place in zip(slots, places, strict=True):
        slot.x = round(LEFT + width * place, 1)
    return width


def _dates(slots: Sequence[_Slot]) -> list[str]:
    """The dates as short as their precision allows."""
    whens = [slot.when for slot in slots]
    if any(when.hour or when.minute for when in whens):
        return [f"{when:%m-%d %H:%M}" for when in whens]
    has_days = any(when.day > 1 for when in whens)
    return [f"{when:%Y-%m-%d}" if has_days else f"{when:%Y-%m}" for when in whens]


# Lanes


def _versions(slots: Sequence[_Slot], width: float) -> Lane:
    """Which version served at each date, with promotions, refusals, warnings and failures."""
    marks = []
    runs = [[*run] for _, run in groupby(slots, lambda slot: slot.served)]
    for at, run in enumerate(run for run in runs if run[0].served is not None):
        version = str(run[0].served)
        wide = run[-1].x - run[0].x + width
        names = dict.fromkeys((run[0].name, run[-1].name))
        title = f"{version[:12]}, {' to '.join(names)}"
        text = version[:8] if wide > 62 else ""
        x = run[0].x - width / 2
        marks.append(Mark(x, 16, wide, 26, f"band band{at % 2}", title, version, text))
    small = max(2.0, min(width, 6.0))
    for slot in slots:
        x = slot.x - small / 2
        for entry in slot.promotions:
            title = f"{words_of(entry)} {entry.id[:12]}: {entry.reason or 'no reason given'}"
            glyph = _GLYPHS.get(entry.action, "•")
            marks.append(Mark(slot.x, 0, 0, 14, f"event {entry.action}", title, text=glyph))
        for row in slot.scored.values():
            if row.warnings:
                is_bad = any(warned.action != "warn" for warned in row.warnings)
                sentences = " ".join(warned.sentence for warned in row.warnings[:3])
                css = "warned bad" if is_bad else "warned"
                marks.append(Mark(x, 45, small, 6, css, f"{row.name}: {sentences}"))
        for stop in slot.stops:
            title = f"{stop.name} was not scored: {stop.reason}"
            marks.append(Mark(x, 45, small, 6, "warned bad", title))
    key = "▲ promoted, ▼ rolled back, ✕ refused; below: warnings, and in red partitions not scored"
    return Lane("Version that served", key, 52, marks)


def _measures(slots: Sequence[_Slot]) -> Iterator[Lane]:
    """What was measured at each date: of evaluations once labels came, and of the density."""
    of_density = any(one.is_of_density for slot in slots for one in slot.evaluations)
    key = "dashed: the prior alone; red: worse than the prior"
    if of_density:
        title = "Mean log density of rows that the version was not trained on, nats"
        yield from _metric(slots, "log_density", title, number, "")
    else:
        yield from _metric(slots, "log_loss", "Log loss, nats", number, key)
        yield from _metric(slots, "accuracy", "Accuracy", percent, key)
    key = "dashed: 1 %, as in training; red: more than 5 %"
    points: list[_Point] = []
    for slot in slots:
        shares = [row.rare for row in slot.scored.values() if row.rare is not None]
        if shares:
            share = max(shares)
            text = f"{percent(share)} of the rows are rare"
            points.append((slot, share, 0.01, share > 0.05, text))
    yield from _curve("Rare rows", key, 56, points, percent)


_Point = tuple[_Slot, float, float | None, bool, str]
"""A slot, a value, the value to compare it with, whether it is a problem, and its tooltip."""


def _metric(
    slots: Sequence[_Slot], name: str, title: str, form: Callable[[Any], str], key: str
) -> Iterator[Lane]:
    points: list[_Point] = []
    for slot in slots:
        one = slot.evaluation
        if one is None or (value := one.number(name)) is None:
            continue
        prior = one.number(f"baseline_{name}")
        text = form(value) + ("" if prior is None else f", prior alone {form(prior)}")
        text += f", {one.record.version[:12]}"
        points.append((slot, value, prior, name in one.worse, text))
    yield from _curve(title, key, 104, points, form)


def _curve(
    title: str, key: str, height: float, points: Sequence[_Point], form: Callable[[Any], str]
) -> Iterator[Lane]:
    """A lane of values, nearly all of which its axis shows; an outlier is at its edge."""
    priors = [(slot.x, prior) for slot, _, prior, _, _ in points if prior is not None]
    values = [value for _, value, _, _, _ in points]
    known = sorted(v for v in [*values, *(prior for _, prior in priors)] if math.isfinite(v))
    if not known:
        return
    low = min(0.0, known[0])
    usual = known[math.ceil(0.95 * len(known)) - 1]
    high = min(known[-1], usual + 0.25 * (usual - low)) if known[-1] > low else low + 1.0
    if max(values) > high:
        title += f", up to {form(max(values))}, drawn at the edge"

    def y(value: float) -> float:
        part = (min(max(value, low), high) - low) / (high - low)
        return round(5 + (height - 10) * (1.0 - part), 1)

    size = 6.0 if len(points) < 200 else 3.0
    marks = [
        Mark(
            slot.x - size / 2,
            y(value) - size / 2,
            size,
            size,
            "dot bad" if is_bad else "dot",
            f"{slot.name}: {text}",
            slot.served or "",
        )
        for slot, value, _, is_bad, text in points
    ]
    lines = [("prior", priors), ("actual", [(slot.x, value) for slot, value, *_ in points])]
    yield Lane(
        title,
        key,
        height,
        marks,
        ticks=[(y(value), form(value)) for value in (low, (low + high) / 2, high)],
        lines=[(css, " ".join(f"{x},{y(v)}" for x, v in line)) for css, line in lines],
    )


_CHECKS = {
    "drift": ("drift", "bits"),
    "nulls": ("nulls", "of the rows"),
    "unseen": ("unseen", "of the rows"),
    "outside": ("range", "of the rows outside"),
}
"""Checks of a column, with their names and units."""


def _worst_column(rows: Iterable[PartitionRow], check: str) -> tuple[float, str] | None:
    """The largest value of a check, of nulls beyond those of training, and its column."""
    found = []
    for name, column in (item for row in rows for item in row.columns.items()):
        value = finite(column.get(check))
        if value is not None:
            usual = finite(column.get("training_nulls")) if check == "nulls" else None
            found.append((min(max(0.0, value - (usual or 0.0)), 1.0), str(name)))
    return max(found, default=None)


def _checks(slots: Sequence[_Slot], width: float) -> Iterator[Lane]:
    """A row of squares for each check, the stronger the more unusual a column is."""
    marks: list[Mark] = []
    ticks: list[tuple[float, str]] = []
    row = 15.0
    for check, (label, unit) in _CHECKS.items():
        y = row * len(ticks)
        before = len(marks)
        for slot in slots:
            worst = _worst_column(slot.scored.values(), check)
            if worst is not None:
                value, column = worst
                shown = f"{value:.3f} bits" if unit == "bits" else f"{percent(value)} {unit}"
                title = f"{slot.name}: {label} {shown}, largest in {column}"
                x, opacity = slot.x - width / 2, round(max(0.05, math.sqrt(value)), 2)
                wide = max(width - 0.6, 1.4)
                marks.append(Mark(x, y, wide, row - 2, "shade", title, opacity=opacity))
        if len(marks) > before:
            ticks.append((y + row / 2, label))
    if marks:
        key = "a stronger color is more unusual"
        yield Lane("Columns that differ most from training", key, row * len(ticks), marks, ticks)


# Events


def _events(records: ModelRecords, scored: Sequence[PartitionRow]) -> list[Event]:
    """Promotions, warnings, and partitions that were not scored, newest first."""
    ledger = [
        Event(
            entry.time,
            entry.action,
            words_of(entry),
            entry.id[:12],
            entry.reason or "",
            _NUMBER.sub("", entry.reason or "") if entry.action == "refused" else entry.id,
        )
        for entry in records.promotions
        if entry.alias == CHAMPION
    ]
    warned = [
        [
            Event(
                *(row.record.created, one.action, "Warning in", row.name, one.sentence),
                key=(one.action, one.title),
            )
            for one in row.warnings
        ]
        for row in scored
    ]
    failed = [
        Event(stop.record.created, "fail", "Not scored:", stop.name, stop.reason, stop.name)
        for stop in stops(records.scorings)
    ]
    found = [*_merged([event] for event in ledger), *_merged(warned), *failed]
    return sorted(found, key=lambda event: event.time, reverse=True)


def _merged(steps: Iterable[Sequence[Event]]) -> list[Event]:
    """The events of several steps; one that comes in several in a row is listed once."""
    found: list[Event] = []
    open_: dict[Any, tuple[int, str]] = {}
    for step in steps:
        still: dict[Any, tuple[int, str]] = {}
        for event in step:
            at, first = open_.get(event.key, (len(found), event.where))
            where = event.where if first == event.where else f"{first} to {event.where}"
            found[at : at + 1] = [replace(event, where=where)]
            still[event.key] = at, first
        open_ = still
    return found
