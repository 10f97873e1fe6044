"""Columns of texts of Parquet files: the indices of their dictionaries, page by page.

Memory is given by its address, because it belongs to NumPy or to Arrow. The bytes of a file may be
anything: what is not understood is left to the caller.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from probclass_kernels.library import address_of, library

TAKEN, BYTES, ROOM, VALUES, DECOMPRESS, ENTRIES, NOT_UNDERSTOOD = range(7)
"""What `Cursor.take` leaves to the caller: nothing; to give ``wanted`` bytes from ``at`` on (more
than there are, if that is 0), or memory for ``wanted`` bytes or values of a page; to decompress
the body into ``wanted`` bytes of the page; to take ``wanted`` entries of the dictionary from the
body; or to have another program read what follows."""

COMPRESSIONS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "ZSTD": 2}
"""Compressions of pages; the caller has to decompress the last."""


class Cursor(ctypes.Structure):
    """Where the decoding of a column of a row group is; pages.c describes the fields."""

    _fields_ = [
        ("stored", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("size", "at", "left", "nullable", "compression")),
        ("page", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room", "page_size", "entries")),
        *((name, ctypes.c_void_p) for name in ("dense", "indices", "bits")),
        ("most", ctypes.c_int64),
        ("current", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "done", "has_nulls", "saw_nulls", "wanted")),
        ("body", ctypes.c_void_p),
        ("body_size", ctypes.c_int64),
    ]

    def take(self, n: int, taken: ctypes.c_int64, indices: int, bits: int) -> int:
        """Take the indices of the next values, and return what is left to the caller.

        The caller does it, and calls again.

        Args:
            n: number of values.
            taken: how many of them are there, which is counted on.
            indices: address of ``n`` numbers of 32 bits; 0 is written for null.
            bits: address of ``n`` bits, which are set for values that are not null if
                ``saw_nulls``, and not written otherwise.
        """
        address, counted = ctypes.addressof(self), ctypes.addressof(taken)
        status: int = library.read_indices(address, n, counted, indices, bits)
        return status


library.read_indices.argtypes = [
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
]
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
