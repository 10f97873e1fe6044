"""Exact nearest neighbors: by a k-d tree, by matrix products where trees do not prune, or by force.

|x − y|² = |x|² + |y|² − 2 x·y, so the distances of many rows to many points are one matrix product.
It is computed in float32, whose error has a bound (Higham, *Accuracy and Stability of Numerical
Algorithms*, 2nd ed., eq. 3.5: γ_n Σ|terms|). Groups of points that may be among the nearest within
that bound are then measured in float64, so the result is exact. The error grows with the squared
distance from the center, so points far out are put into groups of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray

_GROUP = 32
"""Number of points in a group, which is represented by the least distance of its points."""

_ROWS, _POINTS = 256, 2048
"""Rows and points of one product: its result, 2 MB, fits the processor's cache."""

_FAR = 64.0
"""Squared distance from the center, in medians of it, from which a point is far out."""

_CELLS = 1_000_000
"""Distances measured in float64 at once: 8 MB."""

_ROUNDING = float(np.finfo(np.float32).eps)


class NearestByTree:
    """An index of points for a Minkowski norm.

    Args:
        points: ``(m, d)``, finite.
        norm: exponent of the norm.
    """

    def __init__(self, points: FloatArray, norm: float) -> None:
        from scipy.spatial import cKDTree

        self._tree = cKDTree(points)
        self._norm = norm

    def query(self, rows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """The nearest points of each row, nearest first; see `NearestByProducts.query`."""
        distance, point = self._tree.query(rows, k, p=self._norm)
        return distance.reshape(-1, k), point.reshape(-1, k)


class NearestByForce:
    """All distances, for metrics that no index supports.

    Args:
        points: ``(m, d)``, finite.
        metric: name of a metric of `scipy.spatial.distance.cdist`.
    """

    def __init__(self, points: FloatArray, metric: str) -> None:
        self._points = points
        self._metric = metric

    def query(self, rows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """The nearest points of each row, nearest first; see `NearestByProducts.query`."""
        from scipy.spatial.distance import cdist

        distance, point = np.empty((len(rows), k)), np.empty((len(rows), k), dtype=np.intp)
        step = max(1, _CELLS // len(self._points))
        for part in (slice(start, start + step) for start in range(0, len(rows), step)):
            every = cdist(rows[part], self._points, metric=self._metric)
            point[part] = np.argsort(every, axis=1, kind="stable")[:, :k]
            distance[part] = np.take_along_axis(every, point[part], axis=1)
        return distance, point


class NearestByProducts:
    """An index of points for the Euclidean norm.

    The points are not copied, because they may be in a file that many processes map, unless some
    are far out. In addition to them the index takes 4 bytes per point, and 64 during a search.

    Args:
        points: ``(m, d)``, finite.
    """

    def __init__(self, points: FloatArray) -> None:
        self._center = points.mean(axis=0)
        self._order = self._nearest_center_first(points)
        if self._order is not None:
            points = points[self._order]
        self._points = points
        self._size, dimensions = points.shape
        grouped = self._size // _GROUP * _GROUP
        self._groups = -(-self._size // _GROUP)
        # The last group is padded with points that are infinitely far from every row.
        self._last = np.full((_GROUP, dimensions), np.inf)
        self._last[: self._size - grouped] = points[grouped:]
        self._grouped = points[:grouped].reshape(-1, _GROUP, dimensions)
        if not grouped:
            self._grouped = self._last[None]
        self._squares = np.full(self._groups * _GROUP, np.inf, dtype=np.float32)
        self._squares[: self._size] = self._squares_of(points)
        finite = np.where(np.isfinite(self._squares), self._squares, 0.0).reshape(-1, _GROUP)
        reach = np.sqrt(finite.max(axis=1, keepdims=True).astype(np.float64))
        self._reach = reach.max(keepdims=True) if self._order is None else reach

    def _squares_of(self, points: FloatArray) -> FloatArray:
        """Squared distances of points from the center, ``(m,)``."""
        squares = np.empty(len(points))
        for start in range(0, len(points), _POINTS):
            centered = points[start : start + _POINTS] - self._center
            np.einsum("pd,pd->p", centered, centered, out=squares[start : start + _POINTS])
        return squares

    def _nearest_center_first(self, points: FloatArray) -> IntArray | None:
        """An order in which points far out come last, the farther the later; None if none is."""
        squares = self._squares_of(points)
        limit = _FAR * max(float(np.median(squares)), float(np.finfo(np.float64).tiny))
        if not squares.max() > limit:
            return None
        with np.errstate(over="ignore"):
            far = np.ceil(np.log2(np.maximum(squares / limit, 1.0)))
        order: IntArray = np.argsort(far, kind="stable")
        return order

    def query(self, rows: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """The nearest points of each row, nearest first, as by `scipy.spatial.cKDTree.query`.

        Args:
            rows: ``(n, d)``.
            k: number of points to find, at most ``m``.

        Returns:
            Distances ``(n, k)`` and numbers of the points ``(n, k)``; infinity and ``m`` if a
            squared distance is beyond float64.
        """
        distance = np.full((len(rows), k), np.inf)
        found = np.full((len(rows), k), self._size, dtype=np.intp)
        for start in range(0, len(rows), _ROWS):
            with np.errstate(over="ignore", invalid="ignore"):
                row, point, squared = self._candidates(rows[start : start + _ROWS], k)
            order = np.lexsort((squared, row))
            row, point, squared = row[order], point[order], squared[order]
            rank = np.arange(len(row)) - np.searchsorted(row, row)
            near = rank < k
            place = start + row[near], rank[near]
            distance[place] = np.sqrt(squared[near])
            found[place] = point[near] if self._order is None else self._order[point[near]]
        return distance, found

    def _candidates(self, rows: FloatArray, k: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Row, point and squared distance of every pair that may be among the k nearest."""
        centered = rows - self._center
        square = np.einsum("rd,rd->r", centered, centered)
        terms = rows.shape[1] + 8  # those of the product, and the rounding of its factors
        error = terms * _ROUNDING * (np.sqrt(square) + self._reach) ** 2  # by group, or of all
        error = error.astype(np.float32) * np.float32(1.0 + _ROUNDING)  # not below
        least = self._least_of_groups(centered)
        limit = np.full(len(rows), np.inf)
        if k <= len(least):  # k groups have a point this near
            limit = np.partition(least + error, k - 1, axis=0)[k - 1]
        # Negated, so that a NaN from an overflow counts as near.
        group, row = np.nonzero(~(least - error > limit))
        margin = terms * _ROUNDING * square  # of limit + square, which may cancel
        limit = np.nan_to_num(limit + square + margin, nan=np.inf, posinf=np.inf)
        measured = zip(*self._measured(rows, row, group, limit), strict=True)
        row, point, squared = (np.concatenate(part) for part in measured)
        return row, point, squared

    def _least_of_groups(self, centered: FloatArray) -> FloatArray:
        """Squared distance to the nearest point of each group, less |x|²: ``(groups, n)``."""
        # (y, |y|²) times (−2 x, 1) is the squared distance of x and y, less |x|².
        factors = np.ones((centered.shape[1] + 1, len(centered)), dtype=np.float32)
        factors[:-1] = -2.0 * centered.T
        least = np.empty((self._groups, len(centered)), dtype=np.float32)
        single = np.zeros((_POINTS, len(factors)), dtype=np.float32)
        for start in range(0, len(self._squares), _POINTS):
            points = self._points[start : start + _POINTS]
            squares = self._squares[start : start + _POINTS]
            np.subtract(points, self._center, out=single[: len(points), :-1], casting="same_kind")
            single[len(points) : len(squares), :-1] = 0.0
            single[: len(squares), -1] = squares
            product = single[: len(squares)] @ factors
            groups = product.reshape(-1, _GROUP, len(centered))
            first = start // _GROUP
            groups.min(axis=1, out=least[first : first + len(groups)])
        return least

    def _measured(
        self, rows: FloatArray, row: IntArray, group: IntArray, limit: FloatArray
    ) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Pairs of these rows and points of these groups within the limits, measured in float64."""
        step = max(1, _CELLS // (_GROUP * rows.shape[1]))
        for start in range(0, len(row), step):
            block, groups = row[start : start + step], group[start : start + step]
            difference = self._grouped.take(groups, axis=0, mode="clip")
            if self._size % _GROUP:
                difference[groups == self._groups - 1] = self._last
            difference -= rows[block, None, :]
            squared = np.einsum("pgd,pgd->pg", difference, difference)
            pair, member = np.nonzero((squared <= limit[block, None]) & np.isfinite(squared))
            yield block[pair], groups[pair] * _GROUP + member, squared[pair, member]
