"""Tables of statistics and parameters: one row per class and cell, their notes, and their checks.

A cell is what is counted or estimated for each class: a feature, a value of a feature, a bin, a
combination of values. `tidy_table` and `dense_arrays` convert between such tables and arrays with
one row per class and one column per cell.

Tables are checked when they are read from a store. Checksums say that bytes are those that were
written, not that a model was. A table with a negative variance, a NaN or a missing row would score
rows in silence, with probabilities that are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import MISSING, BoolArray, FloatArray, IntArray, label_codes
from probclass_core.errors import StoreError, one_of

_METADATA_KEY = b"probclass"

ROUNDING = 1e-6
"""By how much probabilities may differ from a sum of 1, and a matrix from a symmetric one."""


_MERGED = 1e-9
"""By how much a merge may change a number, relative to the largest one of its column."""


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
    table: pa.Table, classes: pa.Array, column: str, cells: pa.Array, fields: Sequence[str]
) -> list[FloatArray]:
    """Columns of a tidy table as arrays ``(k, m)``, 0 for a class and cell without a row.

    Args:
        table: rows with unique class and cell.
        classes: ``k`` labels.
        column: the column that names the cell.
        cells: its values for the ``m`` cells; rows of other cells are left out.
        fields: names of the columns to return.
    """
    row, cell = label_codes(table["class"], classes), label_codes(table[column], cells)
    known = cell != MISSING
    arrays = [np.zeros((len(classes), len(cells))) for _ in fields]
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
        return pa.LargeListArray.from_arrays(numbers.offsets, pc.multiply(numbers.values, factor))
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
    """A table with notes (plain JSON values) in its schema metadata, in place of earlier ones.

    Args:
        table: table of any columns.
        notes: plain JSON values, by name.
    """
    text = json.dumps(notes, sort_keys=True)
    return table.replace_schema_metadata({_METADATA_KEY: text.encode()})


def notes_of(table: pa.Table) -> dict[str, Any]:
    """The notes that `with_notes` stored in a table; empty if there are none.

    Args:
        table: table, as it was written or read from a store.
    """
    text = (table.schema.metadata or {}).get(_METADATA_KEY)
    return dict(json.loads(text)) if text else {}


@dataclass(frozen=True)
class Range:
    """The numbers that a column may contain; never NaN.

    Attributes:
        low: least number.
        high: largest number.
        finite: whether infinite numbers are refused, which `low` and `high` may allow.
        nulls: whether it may be null.
    """

    low: float = -np.inf
    high: float = np.inf
    finite: bool = True
    nulls: bool = False

    def contains(self, values: FloatArray) -> BoolArray:
        """Whether each number is one that the column may contain."""
        inside: BoolArray = (values >= self.low) & (values <= self.high)
        return inside & np.isfinite(values) if self.finite else inside

    def check(self, name: str, column: pa.Array | pa.ChunkedArray) -> None:
        """Check all numbers of a column.

        Args:
            name: name of the column, for the error.
            column: numbers; nulls are allowed if those of the range are.

        Raises:
            StoreError: naming the column and the first number that is not allowed.
        """
        if column.null_count and not self.nulls:
            raise StoreError(f"{name} is null in {column.null_count} rows.")
        values = column.drop_null().to_numpy()
        wrong = ~self.contains(values)
        if wrong.any():
            low, high = (f"{bound:g}" for bound in (self.low, self.high))
            raise StoreError(
                f"{name} is {values[np.argmax(wrong)]!s}, and must be "
                f"{'a finite number ' if self.finite else ''}from {low} to {high}."
            )


POSITIVE = Range(low=float(np.finfo(np.float64).tiny))
COUNT = Range(low=0.0)
FINITE = Range()
NOT_NEGATIVE = Range(low=0.0)
PROBABILITY = Range(low=0.0, high=1.0)
LOG_PROBABILITY = Range(high=ROUNDING, finite=False)
BOUND = Range(finite=False, nulls=True)


def check_parameters(
    table: pa.Table,
    classes: pa.Array,
    cells: Mapping[str, pa.DataType],
    numbers: Mapping[str, Range],
    *,
    complete: bool = True,
) -> None:
    """Check the columns of a table with one row per class and cell, as `tidy_table` makes them.

    Args:
        table: the parameters.
        classes: ``k`` labels.
        cells: columns that name a cell, with their types.
        numbers: columns of float64, with the numbers that they may contain.
        complete: whether every class has every cell of the table.

    Raises:
        StoreError: naming the column and what is wrong.
    """
    label_rows(table, classes)
    types = {**cells, **dict.fromkeys(numbers, pa.float64())}
    for name, kind in types.items():
        check_column(table, name, kind)
    for name in cells:
        if table[name].null_count:
            raise StoreError(f"{name} is null in {table[name].null_count} rows.")
    for name, allowed in numbers.items():
        allowed.check(name, table[name])
    keys = ["class", *cells]
    groups = table.group_by(keys, use_threads=False).aggregate([]).num_rows
    if groups < table.num_rows:
        raise StoreError(f"{table.num_rows - groups} rows repeat another {', '.join(keys)}.")
    if complete and cells:
        expected = table.group_by(list(cells), use_threads=False).aggregate([]).num_rows
        if table.num_rows != expected * len(classes):
            raise StoreError(
                f"{expected * len(classes) - table.num_rows} of {expected * len(classes)} "
                "combinations of class and cell have no row."
            )
    elif complete and table.num_rows != len(classes):
        raise StoreError(f"{table.num_rows} rows for {len(classes)} classes.")


def check_same(
    table: pa.Table,
    made: pa.Table,
    infinite: Sequence[str] = (),
    differs: str = "is another after a merge",
) -> None:
    """Check that a table is what is made of it again: statistics are those of their merge alone.

    The order of rows may differ: those of many parts follow each other if checked together.

    Args:
        table: statistics of one part, or parameters.
        made: the table that is made of it.
        infinite: columns that may be infinite.
        differs: what is said of a column that differs.

    Raises:
        StoreError: naming the column that differs, or whose numbers are not finite.
    """
    if table.schema.remove_metadata() != made.schema.remove_metadata():
        raise StoreError(f"its columns are {table.schema.names}, or have types of other tables.")
    more = table.num_rows - made.num_rows
    if more:
        wrong = "repeat another, or are empty" if more > 0 else "are missing"
        raise StoreError(f"{abs(more)} rows {wrong}.")
    table, made = sorted_by_keys(table), sorted_by_keys(made)
    for name in table.column_names:
        if name not in infinite and pa.types.is_floating(_leaves(table[name]).type):
            FINITE.check(name, _leaves(table[name]).drop_null())
        if differing_row(made[name], table[name], _MERGED) is not None:
            raise StoreError(f"{name} {differs}.")


def differing_row(column: pa.ChunkedArray, other: pa.ChunkedArray, tolerance: float) -> int | None:
    """The first row in which two columns of a type differ, or None.

    Args:
        column: numbers, texts, or lists or tensors of numbers.
        other: the same of as many rows.
        tolerance: largest difference of two numbers, relative to the largest one of the column.
    """
    own, others = _leaves(column), _leaves(other)
    if (len(own), own.null_count) != (len(others), others.null_count):
        return 0
    if own.equals(others):
        return None
    if pa.types.is_floating(own.type):
        numbers, other_numbers = (one.to_numpy(zero_copy_only=False) for one in (own, others))
        largest = np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)
        same = np.isclose(numbers, other_numbers, 0.0, tolerance * largest, equal_nan=True)
    else:
        same = np.array([one == two for one, two in zip(own, others, strict=True)])
    return None if same.all() else int(np.argmin(same)) * len(column) // len(own)


def check_row_counts(
    statistics: pa.Table,
    classes: pa.Table,
    within: Sequence[str] = (),
    *,
    features: Collection[str | None] | None = None,
    count: str = "count",
) -> None:
    """Check that a class has no more rows in any cell than it has in all.

    Args:
        statistics: one row per class and cell.
        classes: one row per class: class, rows, count (Σ w).
        within: columns within which a row is in one cell only.
        features: names that the column feature may contain; None for any.
        count: name of the column of counts of rows (Σ w).

    Raises:
        StoreError: naming the class and the counts, or another feature.
    """
    if features is not None:
        check_column(statistics, "feature", pa.string())
        others = set(statistics["feature"].to_pylist()) - set(features)
        if others:
            raise StoreError(f"feature {min(map(str, others))!r} is not one of the block.")
    COUNT.check(count, statistics[count])
    keys = ["class", *within]
    sums = statistics.group_by(keys, use_threads=False).aggregate([(count, "sum")])
    position = label_rows(sums, classes["class"].combine_chunks())
    rows, most = sums[f"{count}_sum"].to_numpy(), classes["count"].to_numpy()[position]
    wrong = rows > most * (1.0 + ROUNDING)
    if wrong.any():
        row = int(np.argmax(wrong))
        where = ", ".join(f"{key} {sums[key][row].as_py()!r}" for key in keys)
        raise StoreError(f"{where} has {rows[row]:g} rows of {most[row]:g}.")


def sorted_by_keys(table: pa.Table) -> pa.Table:
    """A table in the order of its `keys_of`; equal rows stay in order."""
    keys = [(name, "ascending") for name in keys_of(table)]
    return table.take(pc.sort_indices(table, sort_keys=keys)) if keys else table


def keys_of(table: pa.Table) -> list[str]:
    """The columns that name a row: labels, texts and whole numbers."""
    return [
        field.name
        for field in table.schema
        if pa.types.is_string(field.type)
        or (pa.types.is_primitive(field.type) and not pa.types.is_floating(field.type))
    ]


def _leaves(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column, of all its lists and tensors one after another."""
    values = column.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.flatten() if pa.types.is_nested(values.type) else values


def check_column(table: pa.Table, name: str, kind: pa.DataType) -> None:
    """Check the type of a column.

    Raises:
        StoreError: if there is no such column, more than one, or another type.
    """
    if table.column_names.count(name) != 1:
        raise StoreError(f"there is no single column {name!r} among {one_of(table.column_names)}.")
    if table.schema.field(name).type != kind:
        raise StoreError(f"column {name!r} is {table.schema.field(name).type} instead of {kind}.")


def label_rows(table: pa.Table, classes: pa.Array) -> IntArray:
    """The position of each row's class, ``(n,)``.

    Raises:
        StoreError: if a row has another class.
    """
    check_column(table, "class", classes.type)
    codes = label_codes(table["class"], classes)
    if (codes == MISSING).any():
        other = table["class"][int(np.argmax(codes == MISSING))].as_py()
        raise StoreError(f"class {other!r} is not one of the classes of the model.")
    return codes


def check_notes(notes: Any, name: str, allowed: Range) -> None:
    """Check all numbers of a note of a table, however they are nested.

    Raises:
        StoreError: naming the note and the first number that is not allowed.
    """
    if isinstance(notes, Mapping):
        notes = list(notes.values())
    if isinstance(notes, list):
        for value in notes:
            check_notes(value, name, allowed)
    elif notes is not None:
        allowed.check(f"note {name!r}", pa.array([float(notes)]))
