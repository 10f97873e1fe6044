"""Tidy tables of statistics and parameters: one row per class and cell.

A cell is what is counted or estimated for each class: a feature, a value of a feature, a bin, a
combination of values. `tidy_table` and `dense_arrays` convert between such tables and arrays with
one row per class and one column per cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import MISSING, BoolArray, FloatArray, label_codes

_METADATA_KEY = b"probclass"


def tidy_table(
    classes: pa.Array,
    cells: Mapping[str, pa.Array | np.ndarray | str],
    fields: Mapping[str, FloatArray],
    mask: BoolArray | None = None,
) -> pa.Table:
    """One row per class and cell, cells of the first class first.

    Args:
        classes: ``k`` labels.
        cells: columns that describe the ``m`` cells, ``(m,)`` or a text common to all.
        fields: columns of numbers, ``(k, m)``.
        mask: ``(k, m)``, the rows to include; None includes all.
    """
    size = next(iter(fields.values())).shape[1]
    if mask is None or mask.all():
        row, cell = np.repeat(np.arange(len(classes)), size), np.tile(np.arange(size), len(classes))
    else:
        row, cell = np.nonzero(mask)
        fields = {name: values[row, cell] for name, values in fields.items()}
    columns = {"class": classes.take(pa.array(row))}
    for name, values in cells.items():
        if isinstance(values, str):
            columns[name] = pa.repeat(pa.scalar(values, pa.string()), len(cell))
        elif isinstance(values, np.ndarray):
            columns[name] = pa.array(values[cell])
        else:
            columns[name] = values.take(pa.array(cell))
    return pa.table({**columns, **{name: np.ravel(values) for name, values in fields.items()}})


def dense_arrays(
    table: pa.Table,
    classes: pa.Array,
    column: str,
    cells: pa.Array,
    fields: Sequence[str],
    missing: float = 0.0,
) -> list[FloatArray]:
    """Columns of a tidy table as arrays ``(k, m)``.

    Args:
        table: rows with unique class and cell.
        classes: ``k`` labels.
        column: the column that names the cell.
        cells: its values for the ``m`` cells; rows of other cells are left out.
        fields: names of the columns to return.
        missing: value for a class and cell without a row.
    """
    row, cell = label_codes(table["class"], classes), label_codes(table[column], cells)
    known = cell != MISSING
    arrays = [np.full((len(classes), len(cells)), missing) for _ in fields]
    for array, field in zip(arrays, fields, strict=True):
        array[row[known], cell[known]] = table[field].to_numpy()[known]
    return arrays


def scaled(table: pa.Table, sums: Sequence[str], factor: float) -> pa.Table:
    """Statistics of the same rows with their weights multiplied by a factor.

    Args:
        table: statistics.
        sums: names of columns that are proportional to the weights; the table need not have all.
        factor: above 0.
    """
    for place, name in enumerate(table.column_names):
        if name in sums:
            chunks = [_times(chunk, factor) for chunk in table[name].chunks]
            column = pa.chunked_array(chunks, table[name].type)
            table = table.set_column(place, table.field(name), column)
    return table


def _times(numbers: pa.Array, factor: float) -> pa.Array:
    """Numbers, or lists or tensors of numbers, multiplied by a factor."""
    if isinstance(numbers, pa.FixedShapeTensorArray):
        return pa.FixedShapeTensorArray.from_numpy_ndarray(numbers.to_numpy_ndarray() * factor)
    if isinstance(numbers, pa.LargeListArray):
        return pa.Array.from_buffers(
            numbers.type,
            len(numbers),
            numbers.buffers()[:2],
            offset=numbers.offset,
            children=[pc.multiply(numbers.values, factor)],
        )
    return pc.multiply(numbers, factor)


def sum_counts(tables: Sequence[pa.Table], keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """Merge counts: one row per combination of keys, ascending, with sums over all tables.

    Args:
        tables: at least one.
        keys: columns that identify a cell.
        sums: columns of numbers to add up.
    """
    grouped = pa.concat_tables(tables).group_by(list(keys), use_threads=False)
    merged = grouped.aggregate([(name, "sum") for name in sums])
    return merged.rename_columns([*keys, *sums]).sort_by([(key, "ascending") for key in keys])


def by_feature(table: pa.Table, features: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """Each feature and its rows, in their order."""
    codes = label_codes(table["feature"], pa.array(features, pa.string()))
    order = np.argsort(codes, kind="stable")
    rows = table.take(pa.array(order)).combine_chunks()
    ends = np.searchsorted(codes[order], np.arange(len(features) + 1)).tolist()
    for feature, (start, end) in zip(features, pairwise(ends), strict=True):
        yield feature, rows.slice(start, end - start)


def with_notes(table: pa.Table, **notes: Any) -> pa.Table:
    """A table with notes (plain JSON values) in its schema metadata, in place of earlier ones."""
    text = json.dumps(notes, sort_keys=True)
    return table.replace_schema_metadata({_METADATA_KEY: text.encode()})


def notes_of(table: pa.Table) -> dict[str, Any]:
    """The notes that `with_notes` stored in a table; empty if there are none."""
    text = (table.schema.metadata or {}).get(_METADATA_KEY)
    return dict(json.loads(text)) if text else {}
