"""Compiled loops over rows, which release Python's lock and give the bits that NumPy gives.

probclass calls these functions if this package is installed, and its own NumPy code otherwise: a
model is the same with and without. Arrays are read and written where they are, so they must be
contiguous and of the types that are named.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__version__ = "0.1.0"

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
Extremes = tuple[float, float, int]
"""Least and greatest value of a column, NaN if there is none, and the number of NaN."""

INTERFACE = 8
"""Changes with the functions of this module: probclass does not call those of another interface."""

_FEW_COUNTS = 4096
"""Number of counts up to which the same one is often written twice in a row."""

library = ctypes.CDLL(str(Path(__file__).with_name("kernels.so")))
_array, _rows = ctypes.c_void_p, ctypes.c_int64
library.sums_by_class.argtypes = [
    *(_array, _rows, _rows, _array, _array, _array, _rows, _rows),
    *(_array, _array, _array, _array),
]
library.center_by_class.argtypes = [
    *(_array, _rows, _rows, _array, _array, _rows),
    *(_array, _array, _array, _array),
]
library.count_codes.argtypes = [
    *(_array, _array, _rows, ctypes.c_int32, ctypes.c_int32, _array, _array)
]
library.subtract_half_squares.argtypes = [
    *(_array, _rows, _rows, _array, _array, _rows, _array, _rows)
]
library.subtract_half_squares.restype = None
library.sums_by_class.restype = library.center_by_class.restype = None
_this_thread = threading.local()


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


class _Columns:
    """Where columns are, and where their extremes are written."""

    def __init__(self, columns: Sequence[Floats]) -> None:
        addresses = [address_of(column, np.float64) for column in columns]
        self._addresses, self._ends = np.array(addresses, np.int64), np.empty((len(columns), 2))
        self._missing = np.empty(len(columns), np.int64)
        self.address = address_of(self._addresses, np.int64)
        self.ends = address_of(self._ends, np.float64), address_of(self._missing, np.int64)

    def extremes(self) -> list[Extremes]:
        low, high = self._ends.T.tolist()
        return list(zip(low, high, self._missing.tolist(), strict=True))


def sums_by_class(
    columns: Sequence[Floats], order: Integers, counts: Integers, weights: Floats | None
) -> tuple[Floats, list[Extremes]]:
    """Sums of columns by class, without their NaN.

    Args:
        columns: ``d`` columns ``(n,)``.
        order: positions of the rows, sorted by class, ``(n,)``.
        counts: number of rows of each class, ``(k,)``.
        weights: weights ``w`` of the rows, ``(n,)``, or None for 1.

    Returns:
        Σ w, Σ w x, Σ w (x − x̄) and Σ w (x − x̄)² of each column, ``(d, 4, k)``, each rounded as by
        ``numpy.add.reduceat``; x̄ is the mean of the class, which is rounded, too. And the
        extremes of each column.
    """
    sums, found = np.empty((len(columns), 4, len(counts))), _Columns(columns)
    most = int(counts.max(initial=0))
    library.sums_by_class(
        found.address,
        len(columns),
        len(order),
        None if weights is None else address_of(weights, np.float64),
        address_of(order, np.int64),
        address_of(counts, np.int64),
        len(counts),
        most,
        address_of(_scratch(most if weights is None else 3 * most), np.float64),
        address_of(sums, np.float64),
        *found.ends,
    )
    return sums, found.extremes()


def center_by_class(
    columns: Sequence[Floats], order: Integers, counts: Integers, centered: Floats
) -> tuple[Floats, Floats, list[Extremes]]:
    """Sort columns by class, and subtract the means of the classes that have no NaN.

    Args:
        columns: ``d`` columns ``(n,)``.
        order: positions of the rows, sorted by class, ``(n,)``.
        counts: number of rows of each class, at least 1, ``(k,)``.
        centered: where the result is written, ``(d, n)``.

    Returns:
        Means of the values and of the result, each ``(d, k)`` and NaN for a class with NaN; and the
        extremes of each column.
    """
    means, found = np.empty((len(columns), 2, len(counts))), _Columns(columns)
    library.center_by_class(
        found.address,
        len(columns),
        len(order),
        address_of(order, np.int64),
        address_of(counts, np.int64),
        len(counts),
        address_of(centered, np.float64),
        address_of(means, np.float64),
        *found.ends,
    )
    return means[:, 0], means[:, 1], found.extremes()


def count_codes(group: Codes, codes: Codes, classes: int, size: int) -> Integers:
    """Count rows by class and code, ``(classes, 1 + size)``; code −1 comes first.

    Args:
        group: class of each row, ``(n,)``.
        codes: from −1 to below ``size``, ``(n,)``.
        classes: number of classes.
        size: number of codes; there are fewer than 2³¹ counts.

    Raises:
        IndexError: if a class or a code is beyond these bounds.
    """
    few = classes * (1 + size) <= _FEW_COUNTS
    counts = np.zeros((1 + few, classes, 1 + size), np.int64)
    status = library.count_codes(
        address_of(group, np.int32),
        address_of(codes, np.int32),
        len(codes),
        classes,
        1 + size,
        address_of(counts[0], np.int64),
        address_of(counts[-1], np.int64),
    )
    if status < 0:
        raise IndexError("a class or a code is not below their number.")
    total: Integers = counts.sum(axis=0)
    return total


def subtract_half_squares(block: Floats, mean: Floats, precision: Floats, result: Floats) -> None:
    """Subtract ½ Σ_j ((x_j − μ_cj) / σ_cj)², added up in the order of the columns, without NaN.

    Args:
        block: values, ``(d, n)``.
        mean: μ, ``(k, d)``.
        precision: 1 / σ, ``(k, d)``.
        result: what is subtracted from, ``(k, n)``; only its rows have to be contiguous.
    """
    first, stride = result[0], result.strides[0] // result.itemsize
    library.subtract_half_squares(
        address_of(block, np.float64),
        *block.shape,
        address_of(mean, np.float64),
        address_of(precision, np.float64),
        len(mean),
        address_of(first, np.float64),
        stride,
    )


def _scratch(size: int) -> Floats:
    """Memory of this thread; new memory would take longer than what is done with it."""
    memory: Floats | None = getattr(_this_thread, "memory", None)
    if memory is None or len(memory) < size:
        _this_thread.memory = memory = np.empty(size)
    return memory
