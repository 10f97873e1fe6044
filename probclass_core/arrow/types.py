"""Column types: what values mean, which types Arrow handles safely, and how types convert."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_ENCODED = "arrow-schema:"
"""Prefix of an encoded type that Arrow cannot parse from its name."""

_SMALLEST_CODES = 32
"""Bits of dictionary codes: with fewer (pandas uses 8), the values of other batches may not fit."""


_PLAIN = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float16(), pa.float32()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float64(), pa.string()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("us")),
    )
)
"""Types that are safe as they are."""


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, whether encoded (by dictionary or run ends) or not."""
    if pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def has_fixed_size(kind: pa.DataType) -> bool:
    """Whether all values take the same memory; in a dictionary, their codes do."""
    return bool(
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_dictionary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_null(kind)
    )


def is_category_type(kind: pa.DataType) -> bool:
    """Whether values are categories: text, bool or integers, dictionary-encoded or not."""
    kind = value_type(kind)
    return bool(
        is_text_type(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_null(kind)
    )


def is_number_type(kind: pa.DataType) -> bool:
    """Whether values are numbers: integers, floats or decimals; a bool is a category."""
    if pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def is_terms_type(kind: pa.DataType) -> bool:
    """Whether values are counts of terms: lists of text, or maps from text to numbers."""
    if _is_list(kind):
        return is_text_type(kind.value_type) or pa.types.is_null(kind.value_type)
    return (
        bool(pa.types.is_map(kind))
        and is_text_type(kind.key_type)
        and is_number_type(kind.item_type)
    )


def _is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, of any layout in memory."""
    return any(
        is_list(kind)
        for is_list in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
        )
    )


def common_columns(first: pa.Schema, last: pa.Schema) -> pa.Schema:
    """Columns of two files, in types common to both; if there is none, in that of the first."""
    if first.equals(last):
        return first
    columns = {field.name: field for field in (*first, *last)}
    for field in first:
        kind = common_type([field.type, columns[field.name].type])
        columns[field.name] = field if kind is None else field.with_type(kind)
    return pa.schema(list(columns.values()), metadata=first.metadata)


def is_text_type(kind: pa.DataType) -> bool:
    """Whether values are text of any width, dictionary-encoded or not."""
    kind = value_type(kind)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def map_type(kind: pa.DataType, convert: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Convert a type and all types nested in it: in dictionaries, lists, maps and structs.

    Args:
        kind: any type.
        convert: called with each type, the innermost first, so a nested type already contains
            converted ones; returns the type to use instead, or the same type.
    """

    def inside(field: pa.Field) -> pa.Field:
        return field.with_type(map_type(field.type, convert))

    rebuilt = kind
    if not pa.types.is_nested(kind) and not pa.types.is_dictionary(kind):
        return convert(kind)
    if pa.types.is_dictionary(kind):
        values = map_type(kind.value_type, convert)
        rebuilt = pa.dictionary(kind.index_type, values, kind.ordered)
    elif pa.types.is_list(kind):
        rebuilt = pa.list_(inside(kind.value_field))
    elif pa.types.is_large_list(kind):
        rebuilt = pa.large_list(inside(kind.value_field))
    elif pa.types.is_map(kind):
        rebuilt = pa.map_(inside(kind.key_field), inside(kind.item_field), kind.keys_sorted)
    elif pa.types.is_struct(kind):
        rebuilt = pa.struct([inside(field) for field in kind])
    return convert(kind if rebuilt == kind else rebuilt)


def in_safe_types(rows: Rows) -> Rows:
    """Convert rows to their `safe_types`."""
    if {kind.id for kind in rows.schema.types} <= _PLAIN:
        return rows  # soon seen, because the caller may have a single row
    for number, column in enumerate(rows.schema):
        if pa.types.is_run_end_encoded(column.type):
            values = _without_runs(rows.column(number))
            rows = rows.set_column(number, column.with_type(values.type), values)
    schema = safe_types(rows.schema)
    return rows if schema is rows.schema else rows.cast(schema)


def _without_runs(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A run-end-encoded column as its values, which Arrow itself cannot cast, take or filter."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(map(_without_runs, column.chunks), column.type.value_type)
    ends = column.run_ends.to_numpy(zero_copy_only=False)
    rows = np.arange(column.offset, column.offset + len(column))
    return column.values.take(pa.array(np.searchsorted(ends, rows, side="right")))


def safe_types(schema: pa.Schema) -> pa.Schema:
    """Replace the types that Arrow cannot filter, or cannot concatenate across batches.

    Views of text and bytes, which polars exports, become large strings and large binaries, and
    dictionary codes get at least 32 bits, also inside lists, maps and structs. Run-end-encoded
    columns become their values.

    Returns:
        The same schema object if all its types are safe.
    """
    for number, column in enumerate(schema):
        kind = map_type(column.type, _safe_type)
        if kind != column.type:
            schema = schema.set(number, column.with_type(kind))
    return schema


def _safe_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind) and kind.index_type.bit_width < _SMALLEST_CODES:
        return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_run_end_encoded(kind):
        return map_type(kind.value_type, _safe_type)
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def canonical_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Columns with the types that features are recorded as, whatever their width or encoding.

    Integers are recorded as int64, floats and decimals as float64, all text as string, also inside
    lists and maps; a dictionary or run ends as their values. Other types stay as they are.
    """
    return pa.schema(
        [pa.field(name, map_type(schema.field(name).type, _canonical_type)) for name in columns]
    )


def _canonical_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_run_end_encoded(kind):
        return map_type(kind.value_type, _canonical_type)
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if _is_list(kind):
        return pa.list_(map_type(kind.value_type, _canonical_type))
    return pa.map_(kind.key_type, kind.item_type) if pa.types.is_map(kind) else kind


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that values of all these types can be read as, or None if there is no such type.

    Integers and floats have float64 in common; a null type can be read as any other.
    """
    kinds = [value_type(kind) for kind in kinds]
    schemas = [pa.schema([("column", kind)]) for kind in kinds]
    try:
        kind = pa.unify_schemas(schemas, promote_options="permissive").field("column").type
        if pa.types.is_decimal(kind) and any(map(pa.types.is_integer, kinds)):
            # Arrow reserves one digit less for integers than its own cast requires.
            digits = kind.precision + 1
            kind = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, kind.scale)
    except (pa.ArrowException, ValueError):  # ValueError: a decimal of too many digits
        return None
    return kind


def type_names(schema: pa.Schema) -> list[list[str]]:
    """A canonical schema as plain values: pairs of column name and type name."""
    return [[field.name, _type_name(field.type)] for field in schema]


def schema_from_names(names: Sequence[Sequence[str]]) -> pa.Schema:
    """The inverse of `type_names`."""
    return pa.schema([(name, _type_from_name(kind)) for name, kind in names])


def _type_name(kind: pa.DataType) -> str:
    """Arrow's name of a type, or an encoded schema if Arrow cannot parse that name."""
    try:
        if pa.type_for_alias(str(kind)) == kind:
            return str(kind)
    except ValueError:
        pass  # nested types and timestamps with a time zone have no alias
    schema: bytes = pa.schema([("", kind)]).serialize().to_pybytes()
    return _ENCODED + base64.b64encode(schema).decode()


def _type_from_name(name: str) -> pa.DataType:
    if not name.startswith(_ENCODED):
        return pa.type_for_alias(name)
    schema = base64.b64decode(name.removeprefix(_ENCODED))
    return pa.ipc.read_schema(pa.py_buffer(schema)).field(0).type
