"""Schemas of written rows: portable types, and whether rows fit the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from probclass_core.arrow.types import common_type, map_type
from probclass_core.errors import TableMismatchError, one_of

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def check_same_columns(
    uri: str, rows: pa.Schema, table: pa.Schema, *, partition: Iterable[str], exact_types: bool
) -> None:
    """Check that rows have the columns of a table, in any order.

    Args:
        uri: path or URI of the table, for messages.
        rows: schema of the rows, without the partition columns.
        table: schema of the table, with or without the partition columns.
        partition: names of the partition columns.
        exact_types: whether types must be equal, as in a table with one schema, or only have a
            common type, as in a directory of files with a schema each.

    Raises:
        TableError: if the table lacks a column of the rows, the rows lack one of the table, or
            their types differ.
    """
    for column in rows:
        if column.name not in table.names:
            raise TableMismatchError(
                f"{uri} has no column {column.name!r}; it has {one_of(table.names)}. Add the "
                "column, leave it out with columns=, or write another table."
            )
        expected = table.field(column.name).type
        if expected != column.type and (
            exact_types or common_type([expected, column.type]) is None
        ):
            raise TableMismatchError(
                f"column {column.name!r} is {column.type} here and {expected} in {uri}; cast it, "
                "or write another table."
            )
    written = {*rows.names, *partition}
    missing = [name for name in table.names if name not in written]
    if missing:
        raise TableMismatchError(
            f"{uri} also has {one_of(missing)}, which these rows lack; write another table."
        )


def portable_schema(schema: pa.Schema, *, narrowest_int: int = 8) -> pa.Schema:
    """Return the schema in types that Delta, Iceberg and their readers share.

    Dictionaries become their values, unsigned integers the next wider signed ones, timestamps
    have microseconds, and timestamps with a time zone are stored as UTC.

    Args:
        schema: schema of the rows.
        narrowest_int: bits of the narrowest integer type of the format.

    Raises:
        TableError: if a column has a type without a portable counterpart.
    """

    def portable(column: pa.Field) -> pa.Field:
        return column.with_type(
            map_type(column.type, lambda kind: _portable_type(column.name, kind, narrowest_int))
        )

    return pa.schema([portable(column) for column in schema])


def _portable_type(name: str, kind: pa.DataType, narrowest_int: int) -> pa.DataType:
    """The portable counterpart of a type whose nested types are portable already."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    kind = _SIGNED.get(kind, kind)
    if pa.types.is_signed_integer(kind) and kind.bit_width < narrowest_int:
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    is_portable = (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_struct(kind)
    )
    if not is_portable:
        raise TableMismatchError(
            f"column {name!r} is {kind}, which this format cannot store; cast it, or leave it out "
            "of the columns to keep."
        )
    return kind
