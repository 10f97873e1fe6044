"""Columns of Parquet files, page by page: numbers, and of texts the indices of their dictionaries.

Memory is given by its address, because it belongs to Arrow. The bytes of a file may be anything:
what is not understood is left to the caller.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from probclass_kernels.library import address_of, library

TAKEN, BYTES, ROOM, LEVELS, DECOMPRESS, ENTRIES, NOT_UNDERSTOOD = range(7)
"""What `read_columns` leaves to the caller: nothing; to give ``wanted`` bytes from ``at`` on (more
than there are, if that is 0), or memory for ``wanted`` bytes of a page or of its levels; to
decompress the body into ``wanted`` bytes of the page; to take ``wanted`` entries of the dictionary
from the body; or to have another program read what follows."""

TEXT, AS_STORED, INTEGER, BIG_ENDIAN = range(4)
"""Forms of values: texts, whose indices are taken; numbers that are taken as they are stored; and
integers that are taken as 16 bytes, the lowest first, of which fewer or the highest first are
stored."""

COMPRESSIONS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "ZSTD": 2}
"""Compressions of pages; the caller has to decompress the last."""

WINDOW = 64 + 2**16
"""Bytes of the window of a cursor."""

library.cursor_size.restype = ctypes.c_int64


class Cursor(ctypes.Structure):
    """Where the decoding of a column of a row group is; pages.c describes the fields."""

    _fields_ = [
        ("stored", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("size", "at", "left", "nullable", "compression")),
        *((name, ctypes.c_int64) for name in ("form", "stored_width", "width")),
        ("dictionary", ctypes.c_void_p),
        ("entries", ctypes.c_int64),
        ("page", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room", "page_size")),
        ("numbers", ctypes.c_void_p),
        ("numbers_room", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("window", "levels")),
        *((name, ctypes.c_int64) for name in ("levels_room", "saw_nulls", "wanted")),
        ("body", ctypes.c_void_p),
        ("body_size", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("to", "to_bits")),
        *((name, ctypes.c_int64) for name in ("n", "taken")),
        ("others", ctypes.c_int64 * (library.cursor_size() // 8 - 27)),
    ]

    def start(self, rows: int, compression: int) -> None:
        """Begin with a row group, of which no bytes are there."""
        library.start_rows(ctypes.addressof(self), rows, compression)

    def unpack_entries(self, count: int, values: int) -> None:
        """Write the ``count`` entries of a dictionary of integers, which are in the body."""
        library.unpack_entries(ctypes.addressof(self), count, values)


def read_columns(cursors: Sequence[Cursor]) -> Iterator[tuple[int, int]]:
    """Take values of columns until each has ``n`` of them.

    They are written to ``to``, 0 for null, and which of them are not null to ``to_bits``, but only
    if ``saw_nulls``.

    Yields:
        A column, and what is left to the caller for it, who does it and goes on.
    """
    addresses = (ctypes.c_void_p * len(cursors))(*map(ctypes.addressof, cursors))
    column = ctypes.c_int64()
    while status := library.read_columns(addresses, len(cursors), ctypes.addressof(column)):
        yield column.value, status


library.start_rows.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
library.start_rows.restype = None
library.read_columns.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
library.unpack_entries.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
library.unpack_entries.restype = None
library.unpack_texts.argtypes = [
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
]
library.unpack_texts.restype = ctypes.c_int64


def unpack_texts(
    address: int, size: int, count: int
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """The texts of a dictionary page: 0 and the end of each, and their bytes; None if invalid."""
    ends, texts = np.empty(count + 1, np.int32), np.empty(size, np.uint8)
    used = library.unpack_texts(
        address, size, count, address_of(ends, np.int32), address_of(texts, np.uint8)
    )
    return None if used < 0 else (ends, texts[:used])
