"""What tables of parameters and of statistics must be: checked when they are read from a store.

Checksums say that bytes are those that were written, not that a model was. A table with a negative
variance, a NaN or a missing row would score rows in silence, with probabilities that are wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import MISSING, BoolArray, FloatArray, IntArray, label_codes
from probclass_core.errors import StoreError, one_of

ROUNDING = 1e-6
"""By how much probabilities may differ from a sum of 1, and a matrix from a symmetric one."""


_MERGED = 1e-9
"""By how much a merge may change a number, relative to the largest one of its column."""


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
    nullable: Collection[str] = (),
    complete: bool = True,
    within: Sequence[str] | None = None,
) -> None:
    """Check the columns of a table with one row per class and cell, as `tidy_table` makes them.

    Args:
        table: the parameters.
        classes: ``k`` labels.
        cells: columns that name a cell, with their types.
        numbers: columns of float64, with the numbers that they may contain.
        nullable: columns of `cells` in which null is a value.
        complete: whether every class has every cell of the table.
        within: columns within which the probabilities of a class, exp of the column
            log_probability, sum to 1, or to less if the table is not complete; None for
            probabilities of other events, or other parameters.

    Raises:
        StoreError: naming the column and what is wrong.
    """
    label_rows(table, classes)
    types = {**cells, **dict.fromkeys(numbers, pa.float64())}
    for name, kind in types.items():
        check_column(table, name, kind)
    for name in cells:
        if name not in nullable and table[name].null_count:
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
    if within is not None:
        _check_sums(table, ["class", *within], complete=complete)


def check_same_when_merged(table: pa.Table, merged: pa.Table, infinite: Sequence[str] = ()) -> None:
    """Check that statistics are the result of a merge: merging them alone does not change them.

    The order of rows may differ: those of many parts follow each other if checked together.

    Args:
        table: statistics of one part.
        merged: the same table, merged alone.
        infinite: columns that may be infinite.

    Raises:
        StoreError: naming the column that differs, or whose numbers are not finite.
    """
    if table.schema.remove_metadata() != merged.schema.remove_metadata():
        raise StoreError(f"its columns are {table.schema.names}, or have types of other tables.")
    if table.num_rows != merged.num_rows:
        raise StoreError(f"{table.num_rows - merged.num_rows} rows repeat another, or are empty.")
    table, merged = _sorted_by_keys(table), _sorted_by_keys(merged)
    for name in table.column_names:
        own, other = (_leaves(values[name].combine_chunks()) for values in (table, merged))
        if not pa.types.is_floating(own.type):
            same = own.equals(other)
        elif same := own.is_valid().equals(other.is_valid()):
            numbers, others = own.drop_null().to_numpy(), other.drop_null().to_numpy()
            if name not in infinite:
                FINITE.check(name, own.drop_null())
            scale = np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)
            same = np.allclose(numbers, others, rtol=0.0, atol=_MERGED * scale)
        if not same:
            raise StoreError(f"{name} is another after a merge.")


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


def _sorted_by_keys(table: pa.Table) -> pa.Table:
    """A table in the order of its labels, texts and whole numbers; equal ones stay in order."""
    keys = [
        (field.name, "ascending")
        for field in table.schema
        if pa.types.is_string(field.type)
        or (pa.types.is_primitive(field.type) and not pa.types.is_floating(field.type))
    ]
    return table.take(pc.sort_indices(table, sort_keys=keys)) if keys else table


def _leaves(column: pa.Array) -> pa.Array:
    """The values of a column, of all its lists and tensors one after another."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.flatten() if pa.types.is_nested(column.type) else column


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


def _check_sums(table: pa.Table, keys: list[str], *, complete: bool) -> None:
    masses = table.set_column(
        table.column_names.index("log_probability"),
        "mass",
        pc.exp(table["log_probability"]),
    )
    sums = masses.group_by(keys, use_threads=False).aggregate([("mass", "sum")])
    total = sums["mass_sum"].to_numpy()
    wrong = total > 1.0 + ROUNDING
    if complete:
        wrong |= total < 1.0 - ROUNDING
    if wrong.any():
        row = int(np.argmax(wrong))
        where = ", ".join(f"{key} {sums[key][row].as_py()!r}" for key in keys)
        raise StoreError(f"the probabilities of {where} sum to {total[row]:.6g} instead of 1.")
