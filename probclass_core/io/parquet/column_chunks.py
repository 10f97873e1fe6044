"""Check what the footer of a Parquet file says about its columns, before Arrow uses it.

Arrow reads it when it is asked for it, and a column that is encrypted or described wrongly ends the
process then, or makes a filtered scan wait forever. So this module reads the footer on its own.
"""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from probclass_core.errors import TableError, TableMismatchError

_PHYSICAL_TYPES = (
    ("BOOLEAN", 1),
    ("INT32", 4),
    ("INT64", 8),
    ("INT96", 12),
    ("FLOAT", 4),
    ("DOUBLE", 8),
    ("BYTE_ARRAY", 0),
    ("FIXED_LEN_BYTE_ARRAY", 0),
)
"""Name of each physical type, and the bytes of a value."""

_CODECS = range(8)
_DEEPEST = 32

# Fields of the structures of Parquet, by their numbers in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _CHUNK, _ENCRYPTION = 4, 1, 3, 8
_TYPE, _CODEC, _STATISTICS = 1, 4, 12
_BOUNDS = (1, 2, 5, 6)


def check_columns(
    fragment: ds.ParquetFileFragment, location: str, columns: Collection[str] | None = None
) -> None:
    """Check that Arrow can use the metadata of columns of a file.

    Args:
        fragment: the file.
        location: path or URI of the file, for messages.
        columns: names of columns of the table, or None for all.

    Raises:
        TableError: naming a column that is encrypted, or that the footer describes wrongly.
        pa.ArrowException, OSError: if the file cannot be read.
    """
    schema = fragment.metadata.schema
    leaves = [schema.column(leaf) for leaf in range(fragment.metadata.num_columns)]
    with fragment.open() as file:
        size = file.size()
        length = int.from_bytes(file.read_at(8, size - 8)[:4], "little")
        footer = file.read_at(length, size - 8 - length)
    try:
        groups = _structures(_structure(io.BytesIO(footer)), _ROW_GROUPS)
    except (LookupError, ValueError) as error:
        raise _damaged(location, "it ends early") from error
    for group in groups:
        chunks = _structures(group, _COLUMNS)
        if len(chunks) != len(leaves):
            raise _damaged(location, f"a row group has {len(chunks)} columns of {len(leaves)}")
        for chunk, leaf in zip(chunks, leaves, strict=True):
            if columns is not None and not {leaf.path, leaf.path.partition(".")[0]} & {*columns}:
                continue
            if _ENCRYPTION in chunk:
                raise TableError(
                    f"column {leaf.path!r} of {location} is encrypted; write the file again "
                    "without encryption, or leave the column out."
                )
            if problem := _problem(_part(chunk, _CHUNK), leaf):
                raise _damaged(location, f"column {leaf.path!r} has {problem}")


def _problem(chunk: dict[int, Any], leaf: pq.ColumnSchema) -> str:
    """What is wrong with the metadata of a column in a row group, or ""."""
    kind, codec = chunk.get(_TYPE, -1), chunk.get(_CODEC, -1)
    if kind not in range(len(_PHYSICAL_TYPES)) or _PHYSICAL_TYPES[kind][0] != leaf.physical_type:
        return f"values of type {kind} where the schema says {leaf.physical_type}"
    if codec not in _CODECS:
        return f"the unknown compression {codec}"
    width = _PHYSICAL_TYPES[kind][1] or max(leaf.length, 0)
    bounds = [_part(chunk, _STATISTICS).get(bound) for bound in _BOUNDS]
    if any(isinstance(bound, bytes) and 0 < len(bound) < width for bound in bounds):
        return "a bound that is too short"
    return ""


def _damaged(location: str, what: str) -> TableMismatchError:
    return TableMismatchError(
        f"cannot read {location}: its footer is damaged: {what}; write it again."
    )


# As Arrow does, these take a field of another type for one that is missing.


def _part(fields: Any, number: int) -> dict[int, Any]:
    value = fields.get(number)
    return value if isinstance(value, dict) else {}


def _structures(fields: dict[int, Any], number: int) -> list[dict[int, Any]]:
    values = fields.get(number)
    listed = values if isinstance(values, list) else []
    return [value if isinstance(value, dict) else {} for value in listed]


# The compact protocol of Thrift; each function raises LookupError or ValueError if it ends early.


def _structure(data: io.BytesIO, depth: int = 0) -> dict[int, Any]:
    """Read a structure, as values by the number of their field."""
    fields: dict[int, Any] = {}
    number = 0
    while header := data.read(1)[0]:
        number = number + (header >> 4) if header >> 4 else _integer(data)
        kind = header & 15
        fields[number] = kind == 1 if kind <= 2 else _value(data, kind, depth)
    return fields


def _value(data: io.BytesIO, kind: int, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("too many structures in each other")
    if kind in (4, 5, 6):
        return _integer(data)
    if kind in (9, 10):
        header = data.read(1)[0]
        length = header >> 4 if header >> 4 < 15 else _varint(data)
        return [_value(data, header & 15, depth + 1) for _ in range(length)]
    if kind == 12:
        return _structure(data, depth + 1)
    if kind not in (1, 2, 3, 7, 8):
        raise ValueError(f"unknown type {kind}")
    length = _varint(data) if kind == 8 else 8 if kind == 7 else 1
    value = data.read(length)
    if len(value) < length:
        raise ValueError("it ends early")
    return value


def _varint(data: io.BytesIO) -> int:
    value = 0
    for shift in range(0, 64, 7):
        byte = data.read(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise ValueError("an integer is too long")


def _integer(data: io.BytesIO) -> int:
    value = _varint(data)
    return value >> 1 ^ -(value & 1)
