"""Nearest neighbors in few dimensions: by a k-d tree, exactly.

Rows are best looked up along a curve that fills space (Morton's: the bits of the coordinates, taken
in turns), so that each finds in the processor's cache what the row before it went through; the more
so if the points lie in memory along the curve, too.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from probclass_core.arrow.arrays import FloatArray, IntArray

_KEY_BITS = 16
"""Of a place on the curve: NumPy sorts numbers that short in linear time."""

_SAMPLE = 4096
"""Points that tell where most of them are."""

_FEW = 100
"""Neighbors that pykdtree keeps in order faster than SciPy's heap does."""

_SAME_ARITHMETIC = 7
"""Dimensions up to which both libraries add squares in the order of the coordinates, so that their
distances are the same to the last bit."""


class Curve:
    """A curve through the space around points, ``(m, d)`` and finite."""

    def __init__(self, points: FloatArray) -> None:
        sample = points[:: -(-len(points) // _SAMPLE)]
        self._low, high = np.quantile(sample, [0.02, 0.98], axis=0)
        self._spread = np.where(high > self._low, high - self._low, 1.0)
        self._bits = max(1, min(8, _KEY_BITS // points.shape[1]))

    def order(self, rows: FloatArray) -> IntArray:
        """The order of rows ``(n, d)`` along it: ``(n,)``."""
        cells = 2**self._bits
        with np.errstate(over="ignore"):
            along = cells * ((rows - self._low) / self._spread)
        cell_of = np.clip(along, 0.0, cells - 1).T.astype(np.uint16)
        place = np.zeros(len(rows), dtype=np.uint16)
        for bit in range(self._bits - 1, -1, -1):
            for cell in cell_of:
                place = (place << 1) | ((cell >> bit) & 1)
        return np.argsort(place, kind="stable")


class NearestByTree:
    """Points made ready to be searched in a Minkowski norm.

    Where pykdtree is installed (extra ``trees``), it finds what SciPy would, in less time.

    Args:
        points: ``(m, d)``, finite.
        norm: exponent.
    """

    def __init__(self, points: FloatArray, norm: float) -> None:
        self._points = points
        self._norm = norm
        self._quick = None
        if norm == 2.0 and points.shape[1] <= _SAME_ARITHMETIC:
            self._quick = _quick_tree(points)

    def query(self, rows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """The nearest points of each row, nearest first; see `NearestByProducts.query`."""
        if self._quick is None or k > _FEW:
            distance, found = self._tree.query(rows, k, p=self._norm)
            return distance.reshape(-1, k), found.reshape(-1, k)
        with _openmp().limit(limits=1):  # the caller's threads are the parallelism
            distance, found = self._quick.query(rows, k)
        distance, found = distance.reshape(-1, k), found.reshape(-1, k).astype(np.intp)
        beyond = found >= len(self._points)
        if beyond.any():
            distance[beyond], found[beyond] = np.inf, len(self._points)
        return distance, found

    @functools.cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree

        return cKDTree(self._points)


def _quick_tree(points: FloatArray) -> Any:
    """pykdtree's; none where it is not installed."""
    try:
        from pykdtree.kdtree import KDTree
    except ImportError:
        return None
    return KDTree(points)


@functools.cache
def _openmp() -> ThreadpoolController:
    """The thread pools of the libraries loaded so far, pykdtree among them."""
    return ThreadpoolController().select(user_api="openmp")
