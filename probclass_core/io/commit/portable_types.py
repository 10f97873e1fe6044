"""Types that survive in every format: what scored rows are cast to before they enter a log."""

from __future__ import annotations

import pyarrow as pa

from probclass_core.errors import TableError

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def lasting_schema(schema: pa.Schema, *, narrowest: int = 8) -> pa.Schema:
    """The schema in types that Delta, Iceberg and their readers share.

    Dictionaries become their values, unsigned integers the next wider signed ones, times count
    microseconds, and a time of a zone is kept as UTC.

    Args:
        schema: of the rows.
        narrowest: bits of the narrowest integers that the format has.

    Raises:
        TableError: a column is of a type that has no such counterpart.
    """
    return pa.schema(
        [column.with_type(_lasting(column.name, column.type, narrowest)) for column in schema]
    )


def _lasting(name: str, kind: pa.DataType, narrowest: int) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _lasting(name, kind.value_type, narrowest)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    kind = _SIGNED.get(kind, kind)
    if pa.types.is_signed_integer(kind) and kind.bit_width < narrowest:
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_lasting(name, kind.value_type, narrowest))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_lasting(name, field.type, narrowest)) for field in kind])
    kept = (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
    )
    if not kept:
        raise TableError(
            f"column {name!r} is {kind}, which this format cannot hold; cast it, or leave it out "
            "of the columns to keep."
        )
    return kind
