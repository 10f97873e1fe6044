"""Columns of text that are numbers but for a few texts that say "missing", such as ``?`` or ``NA``.

A first look at the rows finds them; each is then summarized as text and by its number, and the
texts of all rows decide which of the two is modeled. Text without such a marker stays text: what is
written as text on purpose are categories.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.parts import NUMBER, Part, numbers_of, text_source
from probclass_core.arrow.types import is_text_type
from probclass_core.estimation.statistics import Statistics
from probclass_core.structure.columns import Column, Columns, differ_at_a_glance, listed

_MARKERS = ("", "-", ".", "?", "n/a", "na", "nan", "none", "null")
"""Texts that stand for a missing number, in lower case."""

_NUMBERS = 0.95
"""Smallest share of the texts of such a column that are numbers."""

_COMMAS = r"^[-+]?\d[\d.]*(,\d+)*$"


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
                notes.append(_note(column.name, found, f"of the first {rows.num_rows:,} rows"))
        elif found is not None or feature in known:
            used.append(number)
    return replace(columns, used=used, notes=[*columns.notes, *notes])


def possible_numbers(columns: Columns) -> set[str]:
    """The numbers of all columns that may be text, as names of features."""
    return {str(Part(NUMBER, one.name)) for one in columns.used if one.kind == "category"}


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
            notes.append(_note(name, found, "" if statistics.spec.weight else rows))
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


def _note(name: str, found: Mapping[str, float], rows: str) -> str:
    if not found:
        return f"{name!r} is text: numbers, as in the earlier spec."
    counted = f" ({sum(found.values()):,.0f} {rows})" if rows else ""
    return f"{name!r} is text: numbers, with {listed(sorted(found))} read as missing{counted}."
