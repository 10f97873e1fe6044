"""Types of columns: what their values are, and which types Arrow can work with."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, be they coded by a dictionary or not."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_category_type(kind: pa.DataType) -> bool:
    """Types whose values are categories: text, bool, integers (a dictionary's values likewise)."""
    kind = value_type(kind)
    return bool(
        _is_text(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_null(kind)
    )


def is_terms_type(kind: pa.DataType) -> bool:
    """Types whose values are counts of terms: lists of text, maps from text to numbers."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_text(kind.value_type) or pa.types.is_null(kind.value_type)
    return (
        bool(pa.types.is_map(kind)) and _is_text(kind.key_type) and is_number_type(kind.item_type)
    )


def _is_text(kind: pa.DataType) -> bool:
    kind = value_type(kind)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_number_type(kind: pa.DataType) -> bool:
    """Integers, floats and decimals; a bool is a category."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def in_safe_types(rows: Rows) -> Rows:
    """The rows in `safe_types`."""
    schema = safe_types(rows.schema)
    return rows if schema is rows.schema else rows.cast(schema)


def safe_types(schema: pa.Schema) -> pa.Schema:
    """The schema in types that Arrow can filter, and put many batches of together.

    Text and bytes are no views (polars gives them), nor are those in a list or a map. Codes of
    dictionaries have 32 bits or more: in fewer (pandas gives 8) there is no room for the values of
    other batches, and a file of both is one that nobody can read.

    Returns:
        The schema itself where all of its types are such.
    """
    for number, column in enumerate(schema):
        kind = _safe_type(column.type)
        if kind is not column.type:
            schema = schema.set(number, column.with_type(kind))
    return schema


def _safe_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        codes = kind.index_type if kind.index_type.bit_width >= 32 else pa.int32()
        inner = codes, _safe_type(kind.value_type)
        unchanged = inner == (kind.index_type, kind.value_type)
        return kind if unchanged else pa.dictionary(*inner, kind.ordered)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = _safe_type(kind.value_type)
        listed = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return kind if values == kind.value_type else listed(kind.value_field.with_type(values))
    if pa.types.is_map(kind):
        inner = _safe_type(kind.key_type), _safe_type(kind.item_type)
        return kind if inner == (kind.key_type, kind.item_type) else pa.map_(*inner)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
