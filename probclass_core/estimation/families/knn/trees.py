"""Exact search for nearest neighbors in few dimensions: a k-d tree.

Queries are fastest in the order of a space-filling curve (Morton's, which interleaves the bits of
the coordinates): consecutive rows then visit nodes that are already in the processor's cache. It
helps further if the points are stored in memory along the curve, too.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from probclass_core.arrow.arrays import FloatArray, IntArray

_KEY_BITS = 16
"""Bits of a position on the curve: NumPy sorts numbers this short in linear time."""

_SAMPLE = 4096
"""Number of points used to estimate where most points are."""

_FEW = 100
"""Largest number of neighbors that pykdtree sorts faster than SciPy's heap does."""

_SAME_ARITHMETIC = 7
"""Largest number of dimensions for which both libraries add squares in the order of the
coordinates, so that their distances are equal to the last bit."""


class Curve:
    """A space-filling curve through points ``(m, d)``, all finite."""

    def __init__(self, points: FloatArray) -> None:
        sample = points[:: -(-len(points) // _SAMPLE)]
        self._low, high = np.quantile(sample, [0.02, 0.98], axis=0)
        self._spread = np.where(high > self._low, high - self._low, 1.0)
        self._bits = max(1, min(8, _KEY_BITS // points.shape[1]))

    def order(self, rows: FloatArray) -> IntArray:
        """The order of rows ``(n, d)`` along the curve: ``(n,)``."""
        cells = 2**self._bits
        with np.errstate(over="ignore"):
            coordinates = cells * ((rows - self._low) / self._spread)
        cell_of = np.clip(coordinates, 0.0, cells - 1).T.astype(np.uint16)
        position = np.zeros(len(rows), dtype=np.uint16)
        for bit in range(self._bits - 1, -1, -1):
            for cell in cell_of:
                position = (position << 1) | ((cell >> bit) & 1)
        return np.argsort(position, kind="stable")


class NearestByTree:
    """An index of points for a Minkowski norm.

    If pykdtree is installed (extra ``trees``), it is used where it gives SciPy's result in less
    time.

    Args:
        points: ``(m, d)``, finite.
        norm: exponent of the norm.
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
            distance, point = self._tree.query(rows, k, p=self._norm)
            return distance.reshape(-1, k), point.reshape(-1, k)
        with _openmp().limit(limits=1):  # the caller's threads are the parallelism
            distance, point = self._quick.query(rows, k)
        distance, point = distance.reshape(-1, k), point.reshape(-1, k).astype(np.intp)
        absent = point >= len(self._points)
        if absent.any():
            distance[absent], point[absent] = np.inf, len(self._points)
        return distance, point

    @functools.cached_property
    def _tree(self) -> Any:
        from scipy.spatial import cKDTree

        return cKDTree(self._points)


def _quick_tree(points: FloatArray) -> Any:
    """The tree of pykdtree, or None if it is not installed."""
    try:
        from pykdtree.kdtree import KDTree
    except ImportError:
        return None
    return KDTree(points)


@functools.cache
def _openmp() -> ThreadpoolController:
    """The OpenMP thread pools of the libraries loaded so far, including that of pykdtree."""
    return ThreadpoolController().select(user_api="openmp")
