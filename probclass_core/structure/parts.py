"""Columns that are read by a part: dates and times by the hour, text by the number that it is.

Hours, weekdays and months come again, so that a model of them applies to rows of later days. A year
or a moment does not: later rows have values that the training never saw. Which parts are tried
follows from what the rows cover.

Text is numbers if it has, besides, a few texts that say "missing", such as ``?`` or ``NA``. A first
look at the rows finds such columns; each is then summarized as text and by its number, and the
texts of all rows decide which of the two is modeled. Text without such a marker stays text: what is
written as text on purpose are categories.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.arrow.parts import NUMBER, Part, numbers_of, parts_of_type, text_source
from probclass_core.arrow.types import is_text_type
from probclass_core.estimation.kinds.sample import COUNT
from probclass_core.estimation.statistics import Statistics
from probclass_core.structure.columns import Column, Columns, differ_at_a_glance, listed

_RECURRING = ("hour", "weekday", "month")

_DAY = ("year", "day_of_year")
"""The parts from which the days that the rows cover are computed; they are not modeled."""

_TWO_WEEKS, _YEAR = 13, 330
"""Days from which on weekdays and months are tried: a little less than two weeks and a year."""

_TAIL = 0.01
"""Share of the rows at either end that the days do not count, such as 1900-01-01 for unknown."""

_NEVER = "later rows have other ones"

_MARKERS = ("", "-", ".", "?", "n/a", "na", "nan", "none", "null")
"""Texts that stand for a missing number, in lower case."""

_NUMBERS = 0.95
"""Smallest share of the texts of such a column that are numbers."""

_COMMAS = r"^[-+]?\d[\d.]*(,\d+)*$"


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
    """All parts of dates and times, and the numbers of what may be text, as names of features."""
    parts = [
        Part(part, name) for name, kind in columns.dates.items() for part in parts_of_type(kind)
    ]
    parts += [Part(NUMBER, one.name) for one in columns.used if one.kind == "category"]
    return {str(part) for part in parts} - columns.excluded


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


def numbers_at_a_glance(
    columns: Columns, rows: pa.RecordBatch, taken: Collection[str], known: Collection[str]
) -> Columns:
    """The columns with the numbers of texts that may be numbers.

    Args:
        columns: columns by their types.
        rows: first rows, with all columns of text.
        taken: names of the columns of the table.
        known: features of an earlier spec.
    """
    used, notes = [], []
    for column in columns.used:
        used.append(column)
        feature = str(Part(NUMBER, column.name))
        if column.kind != "category" or feature in taken or feature in columns.excluded:
            continue
        texts = rows.column(column.name)
        if not is_text_type(texts.type):
            continue
        counts = pc.value_counts(texts.drop_null())
        found = _markers(counts.field("values"), counts.field("counts").to_numpy())
        if found is None:
            notes += _note_of_commas(column.name, texts.drop_null())
        number = Column(feature, "number", is_number=True, is_text=True)
        if differ_at_a_glance(texts):  # as text they would be left out, as a key
            if found or (found is not None and feature in known):
                used[-1] = number
                notes.append(
                    _note_of_numbers(column.name, found, f"of the first {rows.num_rows:,} rows")
                )
        elif found is not None or feature in known:
            used.append(number)
    return replace(columns, used=used, notes=[*columns.notes, *notes])


def numbers_by_values(columns: Columns, statistics: Statistics, known: Collection[str]) -> Columns:
    """The columns with each text either as it is or by its number.

    Args:
        columns: columns with both.
        statistics: of one block for each of them.
        known: features of an earlier spec: what it reads as numbers stays one without a marker.
    """
    blocks = {block.columns[0]: str(block.name) for block in statistics.spec.blocks}
    dropped, notes = set(), []
    for column in columns.used:
        name = text_source(column.name) if column.is_text else None
        if name is None or name not in blocks:
            continue
        table = statistics.blocks.get(blocks[name])
        found = None if table is None else _markers(table["value"], table["count"].to_numpy())
        if found or (found is not None and column.name in known):
            dropped.add(name)
            rows = f"of {statistics.labeled_rows:,} rows"
            notes.append(_note_of_numbers(name, found, "" if statistics.spec.weight else rows))
        else:
            dropped.add(column.name)
    used = [column for column in columns.used if column.name not in dropped]
    return replace(columns, used=used, notes=[*columns.notes, *notes])


def _markers(texts: pa.Array | pa.ChunkedArray, counts: FloatArray) -> Mapping[str, float] | None:
    """The texts that are not numbers, with their counts; None if the column is not of numbers."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    texts = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
    others = np.asarray(numbers_of(texts).is_null())
    if not counts[~others].sum() >= _NUMBERS * counts.sum() > 0.0:
        return None
    found: dict[str, float] = {}
    for text, count in zip(texts.filter(pa.array(others)).to_pylist(), counts[others], strict=True):
        if text.strip(" ").casefold() not in _MARKERS:
            return None
        found[text] = found.get(text, 0.0) + float(count)
    return found


def _note_of_commas(name: str, texts: pa.Array) -> list[str]:
    """Say that texts are numbers like 12,5, which are not read as such: 1,234 may be 1234."""
    texts = texts.dictionary_decode() if pa.types.is_dictionary(texts.type) else texts
    numbers = texts.filter(pc.match_substring_regex(texts, _COMMAS))
    with_comma = numbers.filter(pc.match_substring(numbers, ","))
    if not len(with_comma) or len(numbers) < _NUMBERS * len(texts):
        return []
    note = (
        f"{name!r} is text: numbers with a comma, such as {with_comma[0].as_py()!r}. It is not "
        "modeled as a number; convert it, or read CSV with decimal=','."
    )
    return [note]


def _note_of_numbers(name: str, found: Mapping[str, float], rows: str) -> str:
    if not found:
        return f"{name!r} is text: numbers, as in the earlier spec."
    counted = f" ({sum(found.values()):,.0f} {rows})" if rows else ""
    return f"{name!r} is text: numbers, with {listed(sorted(found))} read as missing{counted}."
