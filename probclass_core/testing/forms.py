"""The same rows in other forms: in other Arrow types and layouts, in parts, and on SQLite.

SQLite comes with Python, so that the laws of SQL need no server.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray
from probclass_core.io.memory import MemoryTable
from probclass_core.io.table import Plan, Unit

Cast = Callable[[pa.ChunkedArray], pa.ChunkedArray | None]


def retyped(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The table with its columns in every type that represents all values exactly.

    Yields:
        The name of the type or layout, and the table; only if it changes at least one column.
    """
    for name, cast in _CASTS.items():
        cast_columns = {column: cast(table[column]) for column in columns}
        if any(cells is not None for cells in cast_columns.values()):
            yield name, _with(table, cast_columns)
    yield (
        "a slice of a longer table",
        pa.concat_tables([table, table]).combine_chunks().slice(table.num_rows),
    )
    yield "chunks, some of them empty", pa.concat_tables([table[:1], table[1:1], table[1:]])


def nan_for_null(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The table with NaN instead of null in its floating-point columns."""
    return _with(
        table,
        {
            column: pc.fill_null(table[column], np.nan)
            for column in columns
            if pa.types.is_floating(table[column].type)
        },
    )


def _with(table: pa.Table, columns: Mapping[str, pa.ChunkedArray | None]) -> pa.Table:
    for name, cells in columns.items():
        if cells is not None:
            table = table.set_column(table.schema.get_field_index(name), name, cells)
    return table


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _exactly_as(kind: pa.DataType, applies: Callable[[pa.DataType], bool]) -> Cast:
    """Cast columns of some types to another one, if it represents all their values exactly."""

    def cast(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
        if column.type == kind or not applies(column.type):
            return None
        try:
            other = column.cast(kind)
        except pa.ArrowInvalid:
            return None
        return other if other.cast(column.type).equals(column) else None

    return cast


def _as_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Encode with 8-bit codes and the first value listed twice, as in merged dictionaries."""
    if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
        return None
    encoded = column.combine_chunks().dictionary_encode()
    values = pa.concat_arrays([encoded.dictionary.slice(0, 1), encoded.dictionary])
    shift = len(values) - len(encoded.dictionary)
    codes = pc.add(encoded.indices, pa.scalar(shift, encoded.indices.type)).cast(pa.int8())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, values)])


def _as_plain(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else None


def _as_large_lists(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    is_list = pa.types.is_list(column.type)
    return column.cast(pa.large_list(column.type.value_field)) if is_list else None


_CASTS: Mapping[str, Cast] = {
    "float32": _exactly_as(pa.float32(), pa.types.is_floating),  # integers may be categories
    "int64": _exactly_as(pa.int64(), _is_number),
    "int16": _exactly_as(pa.int16(), _is_number),
    "uint8": _exactly_as(pa.uint8(), _is_number),
    "large_string": _exactly_as(pa.large_string(), pa.types.is_string),
    "string_view": _exactly_as(pa.string_view(), pa.types.is_string),
    "dictionaries": _as_dictionary,
    "plain values": _as_plain,
    "large lists": _as_large_lists,
}
"""Name to a cast, which returns the column, or None if it does not apply."""


class InParts(MemoryTable):
    """A table in memory with one unit per part.

    Args:
        parts: tables of one schema.
    """

    def __init__(self, parts: Sequence[pa.Table]) -> None:
        super().__init__(pa.concat_tables(parts))
        self._parts = parts

    def plan(self, columns: Sequence[str] | None = None, **rows: Any) -> Plan:
        plan = super().plan(columns, **rows)
        names = plan.schema.names
        return replace(plan, units=[_Unit(part.select(names)) for part in self._parts])


@dataclass(frozen=True)
class _Unit(Unit):
    table: pa.Table
    digest: None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches()


@contextmanager
def on_sqlite(rows: pa.Table) -> Iterator[sqlite3.Connection]:
    """A database in memory whose table ``rows`` has these rows."""
    names = ", ".join("`" + name.replace("`", "``") + "`" for name in rows.column_names)
    marks = ", ".join("?" * rows.num_columns)
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE rows ({names})")
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", values)
        yield connection


def run_on_sqlite(rows: pa.Table, query: str) -> FloatArray:
    """The numbers of a query over the table ``rows``, in the order of its rows: ``(n, m)``.

    Args:
        rows: ``n`` rows of the table.
        query: a SELECT of ``m`` numbers for each row.
    """
    with on_sqlite(rows) as connection:
        cursor = connection.execute(query)
        width, found = len(cursor.description), cursor.fetchall()
    return np.array(found, dtype=np.float64).reshape(len(found), width)
