"""Columns of dates and times: the parts of them that `auto` tries, by what the rows cover.

Hours, weekdays and months come again, so that a model of them applies to rows of later days. A year
or a moment does not: later rows have values that the training never saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import IntArray
from probclass_core.arrow.parts import Part, parts_of_type
from probclass_core.estimation.kinds.sample import COUNT
from probclass_core.structure.columns import Column, Columns, listed

_RECURRING = ("hour", "weekday", "month")

_DAY = ("year", "day_of_year")
"""The parts from which the days that the rows cover are computed; they are not modeled."""

_TWO_WEEKS, _YEAR = 13, 330
"""Days from which on weekdays and months are tried: a little less than two weeks and a year."""

_TAIL = 0.01
"""Share of the rows at either end that the days do not count, such as 1900-01-01 for unknown."""

_NEVER = "later rows have other ones"


def parts_by_types(columns: Columns) -> Columns:
    """The columns with the hour and the weekday of dates and times, without a look at the rows."""
    used, notes = list(columns.used), []
    for name, kind in columns.dates.items():
        parts = [part for part in _recurring(columns, name, kind) if part != "month"]
        used += [Column(str(Part(part, name)), "category") for part in parts]
        left_out = {"the values were not looked at": ["month"]} if _has_days(kind) else {}
        notes.append(_note(name, kind, parts, left_out))
    return replace(columns, used=used, notes=[*columns.notes, *notes])


def possible_parts(columns: Columns) -> set[str]:
    """All parts of the dates and times that are not chosen by the rows, as names of features."""
    every = {
        str(Part(part, name))
        for name, kind in columns.dates.items()
        for part in parts_of_type(kind)
    }
    return every - columns.excluded


def candidate_parts(columns: Columns) -> Columns:
    """The columns with all parts that `parts_by_values` needs."""
    used = list(columns.used)
    for name, kind in columns.dates.items():
        parts = _recurring(columns, name, kind)
        used += [
            Column(str(Part(part, name)), "number", is_number=True, is_part=True) for part in parts
        ]
        if _has_days(kind):
            used += [Column(str(Part(part, name)), "category", is_part=True) for part in _DAY]
    return replace(columns, used=used)


def parts_by_values(columns: Columns, sample: pa.Table) -> Columns:
    """The columns with those parts that the rows can tell something about.

    Args:
        columns: result of `candidate_parts`.
        sample: sample of the rows; see `kinds.sample`.
    """
    used = [column for column in columns.used if not column.is_part]
    by_name = {column.name: column for column in columns.used}
    notes = []
    for name, kind in columns.dates.items():
        parts = _recurring(columns, name, kind)
        left_out: dict[str, list[str]] = {}
        for part, reason in _reasons(name, parts, kind, sample):
            left_out.setdefault(reason, []).append(part)
            parts.remove(part)
        used += [by_name[str(Part(part, name))] for part in parts]
        notes.append(_note(name, kind, parts, left_out))
    return replace(columns, used=used, notes=[*columns.notes, *notes], dates={})


def _recurring(columns: Columns, name: str, kind: pa.DataType) -> list[str]:
    """The parts of a column that come again and are not excluded."""
    known = parts_of_type(kind)
    return [
        part
        for part in _RECURRING
        if part in known and str(Part(part, name)) not in columns.excluded
    ]


def _has_days(kind: pa.DataType) -> bool:
    return "day" in parts_of_type(kind)


def _reasons(
    name: str, parts: Sequence[str], kind: pa.DataType, sample: pa.Table
) -> Iterator[tuple[str, str]]:
    """Parts that are not worth trying, each with the reason."""
    if "hour" in parts and len(pc.unique(sample[str(Part("hour", name))].drop_null())) < 2:
        yield "hour", "it is the same in all rows"
    if not _has_days(kind):
        return
    year, day = (sample[str(Part(part, name))].combine_chunks() for part in _DAY)
    days = _days_covered(year, day, sample)
    covered = f"the rows cover {days:,} day{'s' * (days != 1)}"
    if "weekday" in parts and days < _TWO_WEEKS:
        yield "weekday", f"{covered}, less than two weeks"
    if "month" in parts and days < _YEAR:
        yield "month", f"{covered}, less than a year"


def _days_covered(year: pa.Array, day_of_year: pa.Array, sample: pa.Table) -> int:
    """Number of days from the first to the last, without the tails; 0 without any."""
    known = np.asarray(year.is_valid())
    if not known.any():
        return 0
    years, days = (pc.fill_null(part, 1).to_numpy()[known] for part in (year, day_of_year))
    starts = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    dates: IntArray = starts + days
    order = np.argsort(dates)
    shares = np.cumsum(sample[COUNT].to_numpy()[known][order])
    first, last = np.searchsorted(shares, np.array([_TAIL, 1.0 - _TAIL]) * shares[-1])
    return int(dates[order[min(last, len(order) - 1)]] - dates[order[first]]) + 1


def _note(
    name: str, kind: pa.DataType, parts: Sequence[str], left_out: Mapping[str, Sequence[str]]
) -> str:
    tried = listed([str(Part(part, name)) for part in parts]) or "none"
    reasons = [f"the {' and '.join(names)}, because {why}" for why, names in left_out.items()]
    if _has_days(kind):
        reasons.append(f"the year and the moment itself, because {_NEVER}")
    without = f" Left out: {'; '.join(reasons)}." if reasons else ""
    return f"Parts of {name!r} that are tried: {tried}.{without}"
