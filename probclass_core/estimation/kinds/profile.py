"""What the training saw of each column: rows, nulls and range, and their merge.

A profile is a table with one row per feature: column, rows, nulls, min, max. Rows count as in
training: with a label and a positive weight. A NaN is a null. The range is that of numbers, as
float64, and null for other types. Counts and extremes are exact, so that profiles do not depend on
how the rows are split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_number_type, value_type
from probclass_core.errors import StoreError

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


def empty_profile(features: Sequence[str]) -> pa.Table:
    """The profile of no rows."""
    return profile_table(features, [(0, 0, None, None)] * len(features))


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
