"""Check what the footer of a Parquet file says about its columns, before Arrow uses it.

Arrow reads it when it is asked for it, and a column that is encrypted or described wrongly ends the
process then, or makes a filtered scan wait forever. So this module reads the footer on its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from probclass_core.errors import TableError

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
_TAIL = 65_536
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
    footer = fragment.metadata
    leaves = [footer.schema.column(leaf) for leaf in range(footer.num_columns)]
    checked = [
        number
        for number, leaf in enumerate(leaves)
        if columns is None or leaf.path in columns or leaf.path.partition(".")[0] in columns
    ]
    for group in _row_groups(fragment, location):
        chunks = _structures(group, _COLUMNS)
        if len(chunks) != len(leaves):
            raise _damaged(location, f"a row group has {len(chunks)} columns of {len(leaves)}")
        for number in checked:
            chunk, leaf = _structure(chunks[number], _CHUNK), leaves[number]
            if _ENCRYPTION in chunks[number]:
                raise TableError(
                    f"column {leaf.path!r} of {location} is encrypted; write the file again "
                    "without encryption, or leave the column out."
                )
            problem = _problem(chunk, leaf)
            if problem:
                raise _damaged(location, f"column {leaf.path!r} has {problem}")


def _problem(chunk: dict[int, Any], leaf: pq.ColumnSchema) -> str:
    """What is wrong with the metadata of a column in a row group, or ""."""
    kind, codec = chunk.get(_TYPE, -1), chunk.get(_CODEC, -1)
    if kind not in range(len(_PHYSICAL_TYPES)) or _PHYSICAL_TYPES[kind][0] != leaf.physical_type:
        return f"values of type {kind} where the schema says {leaf.physical_type}"
    if codec not in _CODECS:
        return f"the unknown compression {codec}"
    width = _PHYSICAL_TYPES[kind][1] or max(leaf.length, 0)
    statistics = _structure(chunk, _STATISTICS)
    bounds = [statistics.get(bound) for bound in _BOUNDS]
    if any(isinstance(bound, bytes) and 0 < len(bound) < width for bound in bounds):
        return "a bound that is too short"
    return ""


def _row_groups(fragment: ds.ParquetFileFragment, location: str) -> list[dict[int, Any]]:
    """The row groups of a footer, as values by the number of their field."""
    with fragment.open() as file:
        size = file.size()
        tail = file.read_at(min(size, _TAIL), size - min(size, _TAIL))
        length = int.from_bytes(tail[-8:-4], "little")
        if length + 8 > len(tail):
            tail = file.read_at(min(size, length + 8), size - min(size, length + 8))
    try:
        return _structures(_Compact(tail[-8 - length : -8]).structure(0), _ROW_GROUPS)
    except (LookupError, ValueError) as error:
        raise _damaged(location, "it ends early") from error


# As Arrow does, these take a field of another type for one that is missing.


def _structure(fields: dict[int, Any], number: int) -> dict[int, Any]:
    value = fields.get(number)
    return value if isinstance(value, dict) else {}


def _structures(fields: dict[int, Any], number: int) -> list[dict[int, Any]]:
    value = fields.get(number)
    values = value if isinstance(value, list) else []
    return [value if isinstance(value, dict) else {} for value in values]


def _damaged(location: str, what: str) -> TableError:
    return TableError(f"cannot read {location}: its footer is damaged: {what}; write it again.")


class _Compact:
    """Reads structures in the compact protocol of Thrift, as values by the number of their field.

    Args:
        data: bytes that begin with a structure.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def structure(self, depth: int) -> dict[int, Any]:
        """Read a structure.

        Args:
            depth: number of structures and lists that it is in.

        Raises:
            LookupError, ValueError: if the bytes are none.
        """
        if depth > _DEEPEST:
            raise ValueError("too many structures in each other")
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 15
            number = number + delta if delta else self._integer()
            fields[number] = kind == 1 if kind <= 2 else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 8:
            return self._bytes(self._varint())
        if kind == 12:
            return self.structure(depth + 1)
        if kind in (9, 10):
            header = self._byte()
            length, element = header >> 4, header & 15
            if length == 15:
                length = self._varint()
            return [self._value(element, depth + 1) for _ in range(length)]
        if kind in (1, 2, 3):
            return self._byte()
        if kind == 7:
            return self._bytes(8)
        raise ValueError(f"unknown type {kind}")

    def _byte(self) -> int:
        value = self._data[self._at]
        self._at += 1
        return value

    def _bytes(self, length: int) -> bytes:
        value = self._data[self._at : self._at + length]
        if len(value) < length:
            raise ValueError("it ends early")
        self._at += length
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("an integer is too long")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
