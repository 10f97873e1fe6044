"""The smallest closed ball around a row that holds K training points, what it holds, its volume."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from probclass_core.arrays import FloatArray, IntArray
from probclass_core.estimator import POINT_MASS_WIDTH
from probclass_core.estimators.approximate import FEWEST_POINTS, NearestByCells
from probclass_core.estimators.neighbours import NearestByProducts
from probclass_core.threads import ordered_map

_LARGEST = float(np.finfo(np.float64).max)

_BLOCK_CELLS = 4_000_000
"""Numbers held at once by a search: 32 MB."""

_ROWS_AT_ONCE = 512
"""Rows that one thread searches for before it takes the next."""

_MANY_DIMENSIONS = 9
"""From here on a tree visits most of its leaves, and matrix products are faster."""


class Balls:
    """Training points without gaps, ready to be searched.

    Args:
        points: ``(m, d)``.
        counts: ``(m,)`` rows (weights) that stand on each.
        classes: ``(m,)`` class of each, as codes.
        per_class: their counts by class.
        k: neighbours in a ball.
        norm: exponent of the Minkowski norm, or none for another ``metric``.
        metric: name known to scipy.
        probes: cells to look into; 0 finds the nearest of all points.
    """

    def __init__(
        self,
        points: FloatArray,
        counts: FloatArray,
        classes: IntArray,
        per_class: FloatArray,
        *,
        k: float,
        norm: float | None,
        metric: str,
        probes: int = 0,
    ) -> None:
        from scipy.spatial import cKDTree

        self.points = points
        # One more row without count: a search answers it where it finds no neighbour.
        self.per_point = np.append(counts, 0.0)
        self.classes = np.append(classes, 0)
        self.per_class = per_class
        # A sum of fractional weights may fall short of k by its rounding.
        self.enough = min(k, self.per_point.sum()) * (1.0 - 1e-12)
        self.norm = norm
        self.metric = metric
        self.nearest: Callable[[FloatArray, int], tuple[FloatArray, IntArray]] | None = None
        if norm is not None and len(points):
            # Distances take p-th powers: in units of the spread these stay within float64. A unit
            # that is a power of two rounds nothing.
            self.exponent = int(np.frexp(np.ptp(0.5 * points, axis=0).max())[1])
            scaled = self._in_units(points)
            if probes and len(points) >= FEWEST_POINTS:
                self.nearest = NearestByCells(scaled, probes).query
            elif norm == 2.0 and points.shape[1] >= _MANY_DIMENSIONS:
                self.nearest = NearestByProducts(scaled).query
            else:
                self.nearest = functools.partial(cKDTree(scaled).query, p=norm)

    def log_likelihood(self, rows: FloatArray) -> FloatArray:
        """``(n, d)`` to ``(n, k)``; −inf for a class with no point in the ball."""
        if not len(self.points):
            return np.zeros((len(rows), len(self.per_class)))
        inside, radius = self.balls(rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            density = np.log(inside) - np.log(self.per_class)
            if self.norm is not None:
                radius = np.clip(radius, POINT_MASS_WIDTH, _LARGEST)
                density -= log_ball_volume(rows.shape[1], radius, self.norm)[:, None]
        return np.where(inside > 0.0, density, -np.inf)

    def balls(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``(n, d)`` to the counts by class in the ball around each ``(n, k)``, and its radius."""
        starts = range(0, max(len(rows), 1), _ROWS_AT_ONCE)
        parts = ordered_map(lambda start: self._balls(rows[start : start + _ROWS_AT_ONCE]), starts)
        inside, radius = zip(*parts, strict=True)
        return np.concatenate(inside), np.concatenate(radius)

    def _balls(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.nearest is None:
            return self._by_force(rows)
        inside, radius = self._by_search(self._in_units(rows), math.ceil(self.enough) + 1)
        with np.errstate(over="ignore"):
            return inside, np.ldexp(radius, self.exponent)

    def _in_units(self, values: FloatArray) -> FloatArray:
        """Coordinates for the search, which takes finite ones only."""
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(values, -self.exponent), -_LARGEST, _LARGEST)

    def _by_search(self, rows: FloatArray, asked: int) -> tuple[FloatArray, FloatArray]:
        """Counts by class in each ball ``(n, k)``, and its radius ``(n,)``.

        ``asked`` neighbours are fetched first; rows whose ball may hold more are searched again
        for twice as many.
        """
        assert self.nearest is not None
        asked = min(asked, len(self.points))
        inside = np.empty((len(rows), len(self.per_class)))
        radius = np.empty(len(rows))
        step = max(1, _BLOCK_CELLS // (asked * len(self.per_class)))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            distance, found = self.nearest(rows[block], asked)
            distance, found = distance.reshape(-1, asked), found.reshape(-1, asked)
            reached = np.cumsum(self.per_point[found], axis=1) >= self.enough
            finite = np.isfinite(distance)
            enough = reached.any(axis=1)
            last = np.where(enough, reached.argmax(axis=1), finite.sum(axis=1) - 1)
            edge = np.take_along_axis(distance, np.maximum(last, 0)[:, None], axis=1)
            within = (distance <= edge) & finite
            row, rank = np.nonzero(within)
            inside[block] = self._by_class(row, found[row, rank], len(within))
            radius[block] = edge[:, 0]
            # Sure only once a farther point was seen: others may stand on the edge as well.
            # Where the search came to an end, there is nothing more to ask for.
            sure = (enough & (distance[:, -1] > edge[:, 0])) | ~finite[:, -1]
            if asked < len(self.points) and not sure.all():
                again = start + np.flatnonzero(~sure)
                inside[again], radius[again] = self._by_search(rows[again], 2 * asked)
        return inside, radius

    def _by_force(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `_by_search`, by every distance, for metrics that no tree knows."""
        from scipy.spatial.distance import cdist

        inside = np.empty((len(rows), len(self.per_class)))
        radius = np.empty(len(rows))
        step = max(1, _BLOCK_CELLS // len(self.points))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            distance = cdist(rows[block], self.points, metric=self.metric)
            order = np.argsort(distance, axis=1, kind="stable")
            reached = np.cumsum(self.per_point[order], axis=1) >= self.enough
            nearest = np.take_along_axis(order, np.argmax(reached, axis=1)[:, None], axis=1)
            edge = np.take_along_axis(distance, nearest, axis=1)
            row, point = np.nonzero(distance <= edge)
            inside[block] = self._by_class(row, point, len(edge))
            radius[block] = edge[:, 0]
        return inside, radius

    def _by_class(self, row: IntArray, point: IntArray, rows: int) -> FloatArray:
        """Counts by class of the points that are in the ball of each row: ``(n, k)``."""
        cells = row * len(self.per_class) + self.classes[point]
        held = np.bincount(cells, self.per_point[point], rows * len(self.per_class))
        return held.reshape(rows, -1).astype(np.float64, copy=False)


def log_ball_volume(d: int, radius: FloatArray, p: float) -> FloatArray:
    """Log volume of the ball of the Minkowski p-norm in d dimensions.

    V = (2 Γ(1 + 1/p) r)^d / Γ(1 + d/p); for p = 2 that is π^(d/2) r^d / Γ(d/2 + 1) (Zaki and Meira,
    eq. 6.4), for p = ∞ the cube (2r)^d.

    Args:
        d: dimensions.
        radius: any shape, positive.
        p: at least 1, or infinity.
    """
    if math.isinf(p):
        unit = d * math.log(2.0)
    else:
        unit = d * (math.log(2.0) + math.lgamma(1.0 + 1.0 / p)) - math.lgamma(1.0 + d / p)
    volume: FloatArray = unit + d * np.log(radius)
    return volume
