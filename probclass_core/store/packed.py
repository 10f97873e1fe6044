"""A bundle as one file: the length of the manifest, the manifest, and the tables behind it.

The length is a little-endian integer of eight bytes. Tables follow in the order of the manifest,
each from a multiple of 64 bytes on, so that a memory map of the file can be used in place. Nothing
is trusted that `Bundle.from_files` has not verified.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from probclass_core.bundle import Buffer, Bundle
from probclass_core.errors import StoreError

_LENGTH_BYTES = 8
_ALIGNMENT = 64


def pack(bundle: Bundle) -> bytes:
    """The bytes of the file."""
    manifest = json.dumps(bundle.manifest(), separators=(",", ":")).encode()
    packed = bytearray(len(manifest).to_bytes(_LENGTH_BYTES, "little") + manifest)
    for data in bundle.files().values():
        packed += bytes(_aligned(len(packed)) - len(packed))
        packed += data
    return bytes(packed)


def unpack(data: Buffer, *, where: str) -> Bundle:
    """The inverse of `pack`.

    Args:
        data: bytes, or a memory map, which the tables point into.
        where: how messages name the file.

    Raises:
        StoreError: it holds something else, or was truncated or altered.
    """
    buffer = pa.py_buffer(data)
    length = int.from_bytes(buffer[:_LENGTH_BYTES], "little")
    end = min(_LENGTH_BYTES + length, buffer.size)
    try:
        manifest = json.loads(bytes(buffer[_LENGTH_BYTES:end]))
        sizes = {name: int(file["bytes"]) for name, file in manifest["files"].items()}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"{where} is damaged: it does not begin with a manifest.") from error
    slices: dict[str, Any] = {}
    for name, size in sizes.items():
        begin = min(_aligned(end), buffer.size)
        end = min(begin + max(size, 0), buffer.size)
        slices[name] = buffer.slice(begin, end - begin)
    return Bundle.from_files(manifest, slices.__getitem__, where=where)


def _aligned(position: int) -> int:
    """The next multiple of the alignment."""
    return -(-position // _ALIGNMENT) * _ALIGNMENT
