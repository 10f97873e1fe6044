"""Tables and what is told of them, as one file that can vouch for itself.

    64 hex digits   SHA-256 of all that follows
    8 bytes         length of the header, little-endian
    header          JSON: what is told, and the size of each table
    tables          Arrow IPC, each from a multiple of 64 bytes on

A memory map of such a file is used in place. For small entries that are read by the hundred: a
`Bundle`, whose manifest lists a digest for every file, takes several times as long to verify.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from probclass_core.bundle import Buffer, from_ipc, to_ipc
from probclass_core.errors import StoreError

_DIGEST_BYTES = 64
_LENGTH_BYTES = 8
_ALIGNMENT = 64


def pack(told: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> bytes:
    """The bytes of the file.

    Args:
        told: plain JSON values.
        tables: by name.
    """
    files = {name: to_ipc(table) for name, table in tables.items()}
    sizes = {name: len(data) for name, data in files.items()}
    header = json.dumps({"told": told, "sizes": sizes}, separators=(",", ":")).encode()
    packed = bytearray(_DIGEST_BYTES)
    packed += len(header).to_bytes(_LENGTH_BYTES, "little") + header
    for data in files.values():
        packed += bytes(_aligned(len(packed)) - len(packed)) + data
    packed[:_DIGEST_BYTES] = _digest(memoryview(packed)[_DIGEST_BYTES:])
    return bytes(packed)


def unpack(data: Buffer, *, where: str) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The inverse of `pack`: what is told, and the tables.

    Args:
        data: bytes, or a memory map, which the tables point into.
        where: how messages name the file.

    Raises:
        StoreError: it holds something else, or was truncated or altered.
    """
    buffer = pa.py_buffer(data)
    if _digest(buffer[_DIGEST_BYTES:]) != bytes(buffer[:_DIGEST_BYTES]):
        raise StoreError(f"{where} is damaged: its SHA-256 is another.")
    begin = _DIGEST_BYTES + _LENGTH_BYTES
    end = begin + int.from_bytes(buffer[_DIGEST_BYTES:begin], "little")
    header = json.loads(bytes(buffer[begin:end]))
    tables = {}
    for name, size in header["sizes"].items():
        begin = _aligned(end)
        end = begin + size
        tables[name] = from_ipc(buffer.slice(begin, size))
        try:
            # The digest shows that the bytes are those that were stored, not who stored them:
            # offsets that point outside their buffer would crash the process.
            tables[name].validate(full=True)
        except pa.ArrowException as error:
            raise StoreError(f"{where} is damaged: {' '.join(str(error).split())}") from error
    return header["told"], tables


def _digest(data: Any) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _aligned(position: int) -> int:
    """The next multiple of the alignment."""
    return -(-position // _ALIGNMENT) * _ALIGNMENT
