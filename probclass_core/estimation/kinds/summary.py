"""What the training saw of its rows, whatever the blocks: their classes, and the range of columns.

`ClassCounts` have one row per class, ascending: class, rows, count (Σ w).

A `Profile` has one row per feature: column, rows, nulls, min, max. Rows count as in training: with
a label and a positive weight. A NaN is a null. The range is that of numbers, as float64, and null
for other types. Counts and extremes are exact, so that profiles do not depend on how the rows are
split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, class_type, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_number_type, value_type
from probclass_core.errors import DataError, StoreError
from probclass_core.estimation.tidy import Range, sum_counts
from probclass_core.spec.model_spec import ModelSpec, category_text

MAX_CLASSES = 10_000
"""Largest number of classes, unless the spec has another one; see `_most_classes`."""

_FEW_CLASSES, _LEAST_ROWS = 100, 5
"""For more classes, average number of rows of a class; an id has fewer."""

_FEW_INTEGERS, _LEAST_ROWS_OF_INTEGER = 1000, 50
"""The same for integers, which may be a measurement."""

_SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("rows", pa.int64()),
        ("nulls", pa.int64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
    ]
)

_Profile = tuple[int, float | None, float | None]
"""Nulls, minimum and maximum of a column."""


@dataclass(frozen=True)
class ClassCounts:
    """The classes of a model.

    Attributes:
        spec: the model.
        label_type: type of the labels.
    """

    spec: ModelSpec
    label_type: pa.DataType

    sums: ClassVar = ("count",)

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        codes = classes.indices.to_numpy(zero_copy_only=False)
        size = len(classes.dictionary)
        number = np.bincount(codes, minlength=size)
        counts = number if weights is None else np.bincount(codes, weights, minlength=size)
        ascending = pc.sort_indices(classes.dictionary).to_numpy()
        present = ascending[number[ascending] > 0]
        return pa.table(
            {
                "class": classes.dictionary.take(pa.array(present)),
                "rows": number[present],
                "count": counts[present].astype(np.float64),
            }
        )

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The classes of all tables, which may be none.

        Raises:
            DataError: if there are more than `_most_classes`.
        """
        tables = [table for table in tables if table.num_rows]  # without rows of any type
        if not tables:
            kinds = {"class": self.label_type, "rows": pa.int64(), "count": pa.float64()}
            return pa.schema(kinds).empty_table()
        classes = sum_counts(tables, ["class"], ["rows", "count"])
        check_classes(classes, self.spec, None)
        return classes

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        schema = table.schema
        kinds = [("class", class_type(self.label_type)), ("rows", pa.int64())]
        if schema.remove_metadata() != pa.schema([*kinds, ("count", pa.float64())]):
            raise StoreError(f"the classes are {schema.names}, or of other types.")
        labels = table["class"].combine_chunks()
        if labels.null_count or not labels.equals(sorted_classes(labels)):
            raise StoreError("the classes are not in order, or one is null or repeated.")
        Range(low=1).check("rows", table["rows"])
        Range(low=np.finfo(np.float64).tiny).check("count", table["count"])
        if self.spec.weight is None and not np.array_equal(*table.select(["rows", "count"])):
            raise StoreError("the counts of the classes are not those of the rows.")


def check_classes(classes: pa.Table, spec: ModelSpec, rows: int | None) -> None:
    """Refuse a label that is a measurement or an id, before an estimator works on its values.

    Args:
        classes: the classes, or those of the first rows.
        spec: the model.
        rows: number of rows of the training, or more; None if unknown.

    Raises:
        DataError: if there are more than `_most_classes`.
    """
    is_integer = pa.types.is_integer(classes.schema.field("class").type)
    if classes.num_rows <= _most_classes(spec, is_integer=is_integer, rows=rows):
        return
    found = f"label {spec.label!r} has at least {classes.num_rows:,} different values"
    if spec.max_classes is not None:
        raise DataError(f"{found}, and the spec allows max_classes = {spec.max_classes:,}.")
    values = ", ".join(category_text(value.as_py()) for value in classes["class"][:3])
    of_rows = "" if rows is None else f" in {rows:,} rows"
    raise DataError(
        f"{found}{of_rows} ({values}, …), as a measurement or an id has: too many for classes. Bin "
        "or group them first; if they are the classes, set max_classes in the ModelSpec or its "
        "file, or as an argument of fit and ModelSpec.auto (--max-classes)."
    )


def _most_classes(spec: ModelSpec, *, is_integer: bool, rows: int | None) -> int:
    """Largest number of classes: that of the spec, or else one that leaves each enough rows.

    By default it is `MAX_CLASSES`. More than 100 classes need 5 rows each, on average; more than
    1,000 that are integers need 50.

    Args:
        spec: the model.
        is_integer: whether the label is integers.
        rows: number of rows of the training, or None if unknown.
    """
    if spec.max_classes is not None:
        return spec.max_classes
    if rows is None:
        return MAX_CLASSES
    most = min(MAX_CLASSES, max(_FEW_CLASSES, rows // _LEAST_ROWS))
    if is_integer:
        most = min(most, max(_FEW_INTEGERS, rows // _LEAST_ROWS_OF_INTEGER))
    return most


@dataclass(frozen=True)
class Profile:
    """The profile of some columns.

    Attributes:
        columns: ``d`` names.
    """

    columns: Sequence[str]

    sums: ClassVar = ()

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """The profile of a batch, all of whose rows count."""
        columns = _profiles_of_doubles(rows, self.columns)
        columns = columns or [_profile(rows, name) for name in self.columns]
        return profile_table(self.columns, [(len(rows), *column) for column in columns])

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The profile of the rows of all tables, which may be none."""
        if not tables:
            return profile_table(self.columns, [(0, 0, None, None)] * len(self.columns))
        merges = [("rows", "sum"), ("nulls", "sum"), ("min", "min"), ("max", "max")]
        merged = pa.concat_tables(tables).group_by("column", use_threads=False).aggregate(merges)
        merged = merged.rename_columns(_SCHEMA.names).cast(_SCHEMA)
        columns = tables[0]["column"].combine_chunks()  # Arrow returns groups in any order
        return merged.take(pc.index_in(columns, merged["column"].combine_chunks()))

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        if table.schema.remove_metadata() != _SCHEMA:
            raise StoreError(f"the columns of the profile are {table.column_names}.")
        if table["column"].to_pylist() != list(self.columns):
            raise StoreError("the profile is of other features.")
        rows = classes["rows"].to_numpy().sum()
        low, high, nulls = (table[name].to_numpy() for name in ("min", "max", "nulls"))
        wrong = (table["rows"].to_numpy() != rows) | (nulls < 0) | (nulls > rows)
        wrong |= (low > high) | (np.isnan(low) != np.isnan(high))
        if wrong.any():
            name = self.columns[int(np.argmax(wrong))]
            raise StoreError(f"the profile of column {name!r} is not one of {rows} rows.")


def profile_values(profile: pa.Table, features: pa.Schema) -> dict[str, dict[str, Any]]:
    """A profile as JSON values: rows, nulls, min and max by column; integers where they are."""
    values = {}
    for row in profile.to_pylist():
        name = row.pop("column")
        whole = pa.types.is_integer(features.field(name).type)
        for bound in ("min", "max"):
            if row[bound] is not None:
                finite = math.isfinite(row[bound])
                row[bound] = (int(row[bound]) if whole else row[bound]) if finite else None
        values[name] = row
    return values


def _profiles_of_doubles(rows: Rows, names: Sequence[str]) -> list[_Profile]:
    """`_profile` of the columns of few rows; empty unless all are float64 without gaps."""
    matrix = rows.short(names)
    if matrix is None:
        return []
    low, high = matrix.min(axis=1) + 0.0, matrix.max(axis=1) + 0.0  # −0.0 becomes 0.0
    if np.isnan(low).any():
        return []
    return [(0, *ends) for ends in zip(low.tolist(), high.tolist(), strict=True)]


def _profile(rows: Rows, name: str) -> _Profile:
    """Nulls, minimum and maximum of a column."""
    column = _countable(rows.column(name))
    if not is_number_type(value_type(column.type)) or column.null_count == len(column):
        return column.null_count, None, None
    low, high, nulls = rows.extremes(name)
    if nulls == len(column):
        return nulls, None, None
    return nulls, low + 0.0, high + 0.0  # −0.0 becomes 0.0


def _countable(column: pa.Array) -> pa.Array:
    """A column whose nulls and extremes can be found; a dictionary may list values of no row."""
    if pa.types.is_dictionary(column.type) and (
        column.dictionary.null_count or is_number_type(column.type.value_type)
    ):
        return column.dictionary_decode()
    return column


def profile_table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """The profile of columns.

    Args:
        names: ``d`` columns.
        rows: rows, nulls, minimum and maximum of each.
    """
    columns = list(zip(*rows, strict=True)) or [()] * (len(_SCHEMA) - 1)
    arrays = [pa.array(names, pa.string())]
    arrays += [
        pa.array(values, field.type)
        for values, field in zip(columns, list(_SCHEMA)[1:], strict=True)
    ]
    return pa.table(arrays, schema=_SCHEMA)
