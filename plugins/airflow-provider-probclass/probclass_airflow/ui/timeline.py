"""The timeline of a model as lanes of an SVG over one axis of dates.

The axis has the dates of the partitions, or else the times of the records. A promotion is placed at
the first partition that was scored or evaluated after it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from probclass_airflow.ui.formatting import as_text, finite, number, percent
from probclass_airflow.ui.partition_dates import moment_of, partition_date, rows_date
from probclass_airflow.ui.rows import (
    CHAMPION,
    EvaluationRow,
    PartitionRow,
    Stop,
    evaluation_row,
    partition_rows,
    stops,
)

if TYPE_CHECKING:
    from probclass_core.store.model_records import ModelRecords
    from probclass_core.store.promotions import Promotion

WIDTH, LEFT, RIGHT = 1064.0, 70.0, 10.0
_MOST_SLOTS = 400
"""Most dates that are shown unless the address asks for more."""
_GAP = 34.0
"""Space above each lane for its title."""

Axis = Literal["partitions", "clock"]


@dataclass(frozen=True)
class Mark:
    """A rectangle or a dot with a tooltip: its place, its size, its classes in the stylesheet."""

    x: float
    y: float
    width: float
    height: float
    css: str
    title: str
    version: str = ""
    text: str = ""


@dataclass(frozen=True)
class Lane:
    """One plot of the timeline.

    Attributes:
        title: what it shows.
        top: its upper edge.
        height: its height.
        ticks: heights and texts on the vertical axis.
        lines: classes and points of polylines.
        bars: rectangles.
        dots: dots; their width is their diameter.
        legend: classes and texts.
    """

    title: str
    top: float
    height: float
    ticks: list[tuple[float, str]] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)
    bars: list[Mark] = field(default_factory=list)
    dots: list[Mark] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Timeline:
    """All lanes, the ticks of the axis, and the dates that are left out.

    Attributes:
        axis: what the horizontal axis shows.
        lanes: the lanes, top to bottom.
        height: height of the whole.
        ticks: positions and texts of the horizontal axis.
        first: first date that is shown, ISO 8601.
        last: last date that is shown.
        hidden: number of earlier or later dates.
        events: promotions, rollbacks, refusals and warnings, newest first.
    """

    axis: Axis
    lanes: list[Lane]
    height: float
    ticks: list[tuple[float, str]]
    first: str
    last: str
    hidden: int
    events: list[tuple[str, str, str, str]]


@dataclass
class _Slot:
    """What is known of one date."""

    when: datetime
    name: str
    scored: PartitionRow | None = None
    evaluations: list[EvaluationRow] = field(default_factory=list)
    stop: Stop | None = None

    @property
    def version(self) -> str | None:
        """The version that served."""
        return None if self.scored is None else self.scored.record.version

    def evaluation(self, champion: str | None) -> EvaluationRow | None:
        """The evaluation of the version that served, or was the champion, or else the newest."""
        served = self.version or champion
        own = [one for one in self.evaluations if one.record.version == served]
        return next(reversed(own or self.evaluations), None)


def timeline(
    records: ModelRecords,
    axis: Axis | None = None,
    first: date | None = None,
    last: date | None = None,
) -> Timeline | None:
    """The timeline of a model, or None if it was neither scored nor evaluated.

    Args:
        records: the records of the model.
        axis: the horizontal axis; by default the partitions, if they have dates.
        first: first date to show; by default the last 400 dates are shown.
        last: last date to show.
    """
    scored = partition_rows(records.scorings)
    evaluated = [evaluation_row(record) for record in records.evaluations]
    if axis is None:
        dated = [partition_date(row.values.get("partition")) for row in scored]
        dated += [rows_date(row.record.on) for row in evaluated]
        known = [when for when in dated if when is not None]
        axis = "partitions" if 2 * len(known) > len(dated) else "clock"
    slots = _slots(scored, evaluated, stops(records.scorings), axis)
    if not slots:
        return None
    starts = [slot.when.date() for slot in slots]
    shown = [
        slot
        for slot, day in zip(slots, starts, strict=True)
        if (first is None or day >= first) and (last is None or day <= last)
    ]
    if first is None:
        shown = shown[-_MOST_SLOTS:]
    if not shown:
        shown = slots[-_MOST_SLOTS:]
    scale = _Scale([slot.when for slot in shown])
    placed = _placed(records, scored, evaluated, axis)
    lanes = _lanes(shown, scale, placed, records)
    height = lanes[-1].top + lanes[-1].height + 30
    return Timeline(
        axis=axis,
        lanes=lanes,
        height=height,
        ticks=scale.ticks(),
        first=shown[0].when.date().isoformat(),
        last=shown[-1].when.date().isoformat(),
        hidden=len(slots) - len(shown),
        events=_events(records, scored),
    )


# Dates


def _created(text: str) -> datetime:
    return moment_of(text) or datetime.fromtimestamp(0, UTC)


def _slots(
    scored: Sequence[PartitionRow],
    evaluated: Sequence[EvaluationRow],
    stopped: Sequence[Stop],
    axis: Axis,
) -> list[_Slot]:
    slots: dict[datetime, _Slot] = {}

    def slot(when: datetime | None, name: str) -> _Slot | None:
        return None if when is None else slots.setdefault(when, _Slot(when, name))

    for row in scored:
        created = _created(row.record.created)
        at = partition_date(row.values.get("partition")) if axis == "partitions" else created
        if (found := slot(at, row.name)) is not None:
            found.scored = row
    for one in evaluated:
        created = _created(one.record.created)
        at = rows_date(one.record.on) if axis == "partitions" else created
        if (found := slot(at, one.on)) is not None:
            found.evaluations.append(one)
    for stop in stopped:
        created = _created(stop.record.created)
        at = partition_date(stop.when) if axis == "partitions" else created
        if (found := slot(at, stop.name)) is not None:
            found.stop = stop
    return [slots[when] for when in sorted(slots)]


def _placed(
    records: ModelRecords,
    scored: Sequence[PartitionRow],
    evaluated: Sequence[EvaluationRow],
    axis: Axis,
) -> list[tuple[datetime, Promotion]]:
    """The promotions of the champion with their dates on the axis."""
    known = [
        (row.record.created, partition_date(row.values.get("partition"))) for row in scored
    ] + [(row.record.created, rows_date(row.record.on)) for row in evaluated]
    dates = sorted((created, when) for created, when in known if when is not None)
    placed = []
    for entry in records.promotions:
        if entry.alias != CHAMPION:
            continue
        when = _created(entry.time)
        if axis == "partitions" and dates:
            position = bisect_left(dates, entry.time, key=lambda one: one[0])
            when = dates[min(position, len(dates) - 1)][1]
        placed.append((when, entry))
    return placed


# Drawing


class _Scale:
    """Dates as horizontal positions."""

    def __init__(self, whens: Sequence[datetime]) -> None:
        steps = [later - earlier for earlier, later in pairwise(whens)]
        self.step = min(steps, default=timedelta(days=1))
        self.first, self.last = whens[0], whens[-1]
        self.span = (self.last - self.first + self.step) / timedelta(seconds=1)

    def __call__(self, when: datetime) -> float:
        """Position of a date, the middle of its slot."""
        seconds = (when - self.first + self.step / 2) / timedelta(seconds=1)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / self.span, 1)

    @property
    def width(self) -> float:
        """Width of a slot."""
        usable = WIDTH - LEFT - RIGHT
        return max(2.0, usable * (self.step / timedelta(seconds=1)) / self.span)

    def shows(self, when: datetime) -> bool:
        return self.first <= when <= self.last

    def ticks(self) -> list[tuple[float, str]]:
        """At most a dozen dates, at round ones."""
        days = self.span / 86400
        if days > 12 * 31:
            every = next(
                n for n in (3, 6, 12, 24, 60, 1200) if days / (30.4 * n) <= 11 or n == 1200
            )
            months = range(self.first.year * 12, (self.last.year + 1) * 12 + 1, every)
            found = [datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in months]
            texts = [f"{when:%Y}" if when.month == 1 else f"{when:%b}" for when in found]
        elif days > 62:
            months = range(self.first.year * 12 + self.first.month - 1, self.last.year * 12 + 13)
            found = [datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in months]
            texts = [f"{when:%b}" if when.month > 1 else f"{when:%Y}" for when in found]
        else:
            seconds = next(
                (n for n in (1, 5, 15, 60, 300, 900, 3600, 10800, 43200) if self.span / n <= 10),
                86400 * max(1, round(days / 9)),
            )
            start = self.first.timestamp() // seconds * seconds
            count = int((self.last.timestamp() - start) // seconds) + 1
            found = [datetime.fromtimestamp(start + seconds * n, UTC) for n in range(count)]
            form = "%b %d" if seconds >= 86400 else "%H:%M" if seconds >= 60 else "%H:%M:%S"
            texts = [f"{when:{form}}" for when in found]
        return [
            (self(when), text) for when, text in zip(found, texts, strict=True) if self.shows(when)
        ]


def _lanes(
    slots: Sequence[_Slot],
    scale: _Scale,
    placed: Sequence[tuple[datetime, Promotion]],
    records: ModelRecords,
) -> list[Lane]:
    lanes = [_versions(slots, scale, placed)]

    def add(lane: Callable[[float], Lane | None]) -> None:
        drawn = lane(lanes[-1].top + lanes[-1].height + _GAP)
        if drawn is not None:
            lanes.append(drawn)

    champions = [_named_at(placed, slot.when) for slot in slots]
    of_density = any(one.is_of_density for slot in slots for one in slot.evaluations)
    for name in ("log_density",) if of_density else ("log_loss", "accuracy"):
        add(partial(_metric, slots, champions, scale, name))
    add(lambda top: _shares(slots, scale, top))
    add(lambda top: _heat(slots, scale, top))
    return lanes


def _named_at(placed: Sequence[tuple[datetime, Promotion]], when: datetime) -> str | None:
    named = [entry.id for at, entry in placed if at <= when and entry.action != "refused"]
    return named[-1] if named else None


def _versions(
    slots: Sequence[_Slot], scale: _Scale, placed: Sequence[tuple[datetime, Promotion]]
) -> Lane:
    """Which version served at each date, and the promotions and refusals."""
    served = [slot.version or _named_at(placed, slot.when) for slot in slots]
    top, height = 26.0, 26.0
    bars: list[Mark] = []
    start, colors = 0, 0
    for at in range(1, len(slots) + 1):
        if at < len(slots) and served[at] == served[start]:
            continue
        version = served[start]
        if version is not None:
            left = scale(slots[start].when) - scale.width / 2
            right = scale(slots[at - 1].when) + scale.width / 2
            if at < len(slots) and served[at] is not None:
                right = scale(slots[at].when) - scale.width / 2
            width = round(max(right - left, 1.5), 1)
            ends = slots[start].name, slots[at - 1].name
            title = f"{version[:12]}, " + (ends[0] if start == at - 1 else " to ".join(ends))
            text = version[:8] if width > 62 else version[:4] if width > 34 else ""
            css = f"band band{colors % 2}"
            bars.append(Mark(round(left, 1), top, width, height, css, title, version, text))
            colors += 1
        start = at
    dots = [
        Mark(
            scale(when) - scale.width / 2 if entry.action != "refused" else scale(when),
            top - 5,
            0,
            0,
            f"event {entry.action}",
            f"{words_of(entry)} {entry.id[:12]}: {entry.reason or 'no reason given'}",
        )
        for when, entry in placed
        if scale.shows(when)
    ]
    legend = [("event promoted", "promoted"), ("event rolled_back", "rolled back")]
    legend += [("event refused", "refused"), ("warned", "warning"), ("warned bad", "not scored")]
    warned = [
        Mark(
            round(scale(slot.when) - min(scale.width, 6) / 2, 1),
            top + height + 3,
            min(scale.width, 6),
            6,
            f"warned {'bad' if any(w.action != 'warn' for w in slot.scored.warnings) else ''}",
            f"{slot.name}: " + " ".join(w.sentence for w in slot.scored.warnings[:3]),
        )
        for slot in slots
        if slot.scored is not None and slot.scored.warnings
    ]
    warned += [
        Mark(
            round(scale(slot.when) - min(scale.width, 6) / 2, 1),
            top + height + 3,
            min(scale.width, 6),
            6,
            "warned bad",
            f"{slot.name} was not scored: {slot.stop.reason}",
        )
        for slot in slots
        if slot.stop is not None
    ]
    return Lane(
        "Version that served", top, height + 10, bars=bars + warned, dots=dots, legend=legend
    )


_TITLES = {
    "log_loss": "Log loss, nats",
    "accuracy": "Accuracy",
    "log_density": "Mean log density of rows that the version was not trained on, nats",
}


def _metric(
    slots: Sequence[_Slot],
    champions: Sequence[str | None],
    scale: _Scale,
    name: str,
    top: float,
) -> Lane | None:
    """A metric once labels came, and the prior's."""
    evaluations = [slot.evaluation(named) for slot, named in zip(slots, champions, strict=True)]
    actual = [None if one is None else one.number(name) for one in evaluations]
    prior = [None if one is None else one.number(f"baseline_{name}") for one in evaluations]
    known = [v for v in (*actual, *prior) if v is not None and math.isfinite(v)]
    if not known:
        return None
    format_ = percent if name == "accuracy" else number
    low, high = 0.0, 1.0 if name == "accuracy" else _upper(known)
    if name == "log_density":
        low, high = min(known), max(*known, min(known) + 1.0)
    title, largest = _TITLES[name], max(v for v in (low, *actual) if v is not None)
    if largest > high:
        title += f", up to {number(largest)}, drawn at the edge"
    height = 104.0

    def y(value: float) -> float:
        part = (min(max(value, low), high) - low) / ((high - low) or 1.0)
        return round(top + height * (1.0 - part), 1)

    xs = [scale(slot.when) for slot in slots]
    dots = []
    for x, slot, one, value, floor in zip(xs, slots, evaluations, actual, prior, strict=True):
        if one is None or value is None:
            continue
        is_worse = name in one.worse
        text = f"{slot.name}: {format_(value)}"
        text += "" if floor is None else f", prior alone {format_(floor)}"
        text += f", {one.record.version[:12]}"
        css = "dot bad" if is_worse else "dot"
        dots.append(Mark(x, y(value), 5, 5, css, text, one.record.version))
    lines = [("prior", run) for run in _runs(zip(xs, prior, strict=True), y)]
    lines += [("actual", run) for run in _runs(zip(xs, actual, strict=True), y)]
    legend = []
    if name != "log_density":
        legend = [("dot", "with labels"), ("dot bad", "worse than the prior")]
        legend += [("prior", "prior alone")]
    ticks = [(y(value), _tick(value, name)) for value in _round_ticks(low, high)]
    return Lane(title, top, height, ticks, lines, dots=dots, legend=legend)


def _upper(values: Sequence[float]) -> float:
    """Upper end of an axis: the largest value, or little above nearly all if it is an outlier."""
    usual = 1.25 * sorted(values)[math.ceil(0.95 * len(values)) - 1]
    return min(max(values), usual)


def _shares(slots: Sequence[_Slot], scale: _Scale, top: float) -> Lane | None:
    """The share of rare rows."""
    shares = [None if slot.scored is None else slot.scored.rare for slot in slots]
    known = [share for share in shares if share is not None]
    if not known:
        return None
    height, high = 56.0, max(0.04, _upper(known))
    width = max(2.0, min(0.7 * scale.width, 14.0))

    def y(value: float) -> float:
        return round(top + height * (1.0 - min(value / high, 1.0)), 1)

    bars = [
        Mark(
            round(scale(slot.when) - width / 2, 1),
            y(share),
            round(width, 1),
            round(top + height - y(share), 1),
            "share bad" if share > 0.05 else "share",
            f"{slot.name}: {percent(share)} of the rows are rare",
        )
        for slot, share in zip(slots, shares, strict=True)
        if share is not None
    ]
    usual = f"{LEFT},{y(0.01)} {WIDTH - RIGHT},{y(0.01)}"
    ticks = [(y(value), percent(value)) for value in (0.0, high)]
    return Lane(
        "Rare rows",
        top,
        height,
        ticks,
        [("prior", usual)],
        bars=bars,
        legend=[("share", "share of rows"), ("prior", "1 %, as in training")],
    )


_CHECKS = {
    "drift": ("drift", "bits"),
    "nulls": ("nulls", "of the rows"),
    "unseen": ("unseen", "of the rows"),
    "outside": ("range", "of the rows outside"),
}
"""Checks of a column, with their names and units."""


def worst_column(row: PartitionRow, check: str) -> tuple[str, float] | None:
    """The column with the largest value of a check, of nulls beyond those of training."""
    found = []
    for name, column in row.columns.items():
        value = finite(column.get(check))
        if value is not None:
            usual = finite(column.get("training_nulls")) if check == "nulls" else None
            found.append((name, min(max(0.0, value - (usual or 0.0)), 1.0)))
    return max(found, key=lambda one: one[1], default=None)


def _heat(slots: Sequence[_Slot], scale: _Scale, top: float) -> Lane | None:
    """A row of squares for each check, dark where a column is unusual."""
    row_height = 15.0
    marks: list[Mark] = []
    ticks: list[tuple[float, str]] = []
    y = top
    for check, (label, unit) in _CHECKS.items():
        worst = [
            (slot, found)
            for slot in slots
            if slot.scored is not None and (found := worst_column(slot.scored, check))
        ]
        for slot, (name, value) in worst:
            shown = f"{value:.3f} bits" if unit == "bits" else f"{percent(value)} {unit}"
            marks.append(
                Mark(
                    round(scale(slot.when) - scale.width / 2, 1),
                    y,
                    round(max(scale.width - 0.6, 1.4), 1),
                    row_height - 2,
                    f"h{min(10, round(10 * math.sqrt(value)))}",
                    f"{slot.name}: {label} {shown}, largest in {name}",
                )
            )
        if worst:
            ticks.append((y + row_height / 2, label))
            y += row_height
    if not marks:
        return None
    return Lane("Columns that differ most from training", top, y - top, ticks, bars=marks)


def _runs(points: Iterable[tuple[float, float | None]], y: Callable[[float], float]) -> list[str]:
    """Points of a polyline; values that are missing are left out."""
    known = [f"{x},{y(value)}" for x, value in points if value is not None]
    return [" ".join(known)] if known else []


def _round_ticks(low: float, high: float) -> list[float]:
    """Two to five round values."""
    raw = (high - low) / 3 or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(n * power for n in (1.0, 2.0, 2.5, 5.0, 10.0) if n * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * n for n in range(first, last + 1)]


def _tick(value: float, name: str) -> str:
    return f"{100 * value:.0f} %" if name == "accuracy" else f"{value:g}"


_ACTIONS = {
    "promoted": "Promoted",
    "rolled_back": "Rolled back to",
    "refused": "Refused",
    "unchanged": "Unchanged",
}


def words_of(entry: Promotion) -> str:
    """The action of an entry of the ledger in words."""
    return _ACTIONS.get(entry.action, as_text(entry.action))


def _events(
    records: ModelRecords, scored: Sequence[PartitionRow]
) -> list[tuple[str, str, str, str]]:
    """Time, kind, title and sentence of promotions and warnings, newest first."""
    events: list[tuple[str, str, str, str]] = []
    before: Promotion | None = None
    for entry in records.promotions:
        if entry.alias != CHAMPION:
            continue
        is_repeated = before is not None and (
            before.reason is not None
            and (before.action, before.reason) == (entry.action, entry.reason)
        )
        if not is_repeated:
            title = f"{words_of(entry)} {entry.id[:12]}"
            events.append((entry.time, entry.action, title, entry.reason or ""))
        before = entry
    events += [
        (stop.record.created, "fail", f"{stop.name} not scored", stop.reason)
        for stop in stops(records.scorings)
    ]
    return sorted([*events, *_warnings(scored)], reverse=True)


def _warnings(scored: Sequence[PartitionRow]) -> list[tuple[str, str, str, str]]:
    """The warnings of scored partitions; one that several in a row have is one event."""
    events: list[tuple[str, str, str, str]] = []
    open_: dict[tuple[str, str], tuple[int, str]] = {}
    for row in scored:
        still: dict[tuple[str, str], tuple[int, str]] = {}
        for warned in row.warnings:
            key = warned.action, warned.title
            at, first = open_.get(key, (len(events), row.name))
            name = row.name if first == row.name else f"{first} to {row.name}"
            events[at : at + 1] = [(row.record.created, warned.action, name, warned.sentence)]
            still[key] = at, first
        open_ = still
    return events
