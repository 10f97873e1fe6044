"""The compiled library."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

library = ctypes.CDLL(str(Path(__file__).with_name("kernels.so")))


def address_of(array: NDArray[Any], kind: Any) -> int:
    """Where an array begins.

    Raises:
        TypeError: if it is not contiguous, or of another type.
    """
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(f"expected a contiguous array of {kind.__name__}, got {array.dtype}.")
    # What NumPy says about an array takes several times as long as a call of a loop.
    address: int = pa.py_buffer(array).address
    return address
