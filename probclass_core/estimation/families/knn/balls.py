"""The smallest closed ball around a row that holds K training points, what it holds, its volume."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.estimation.contract import POINT_MASS_WIDTH
from probclass_core.estimation.families.knn.approximate import FEWEST_POINTS, NearestByCells
from probclass_core.estimation.families.knn.brute_force import NearestByProducts
from probclass_core.estimation.families.knn.trees import Curve, NearestByTree
from probclass_core.execution.threads import available_processors, ordered_map

_LARGEST = float(np.finfo(np.float64).max)

_BLOCK_CELLS = 4_000_000
"""Numbers held at once by a search: 32 MB."""

_FEWEST_ROWS, _MOST_ROWS = 512, 8192
"""Rows that one thread searches for before it takes the next; a tree answers so soon that a lot for
each thread is best."""

_HARMLESS = 32
"""Powers of two of the spread whose squares, and differences of them, single precision can hold."""

_WORTH_A_COPY = 1 << 25
"""Bytes of points up to which a tree has them in an order of its own: it is a tenth faster then."""

_MANY_DIMENSIONS = 9
"""From here on a tree visits most of its leaves, and matrix products are faster."""


class Balls:
    """Training points without gaps, ready to be searched.

    Args:
        points: ``(m, d)``.
        counts: ``(m,)`` rows (weights) that stand on each.
        classes: ``(m,)`` class of each, as codes of any integer type.
        per_class: their counts by class.
        k: neighbors in a ball.
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
        self.points = points
        self.counts = counts
        self.alike = bool((counts == 1.0).all())
        self.classes = classes
        self.k_classes = len(per_class)
        self.log_per_class = np.log(np.where(per_class > 0.0, per_class, 1.0))
        # A sum of fractional weights may fall short of k by its rounding.
        self.enough = min(k, counts.sum()) * (1.0 - 1e-12)
        self.norm = norm
        self.metric = metric
        self.exponent = 0
        self.nearest: Callable[[FloatArray, int], tuple[FloatArray, IntArray]] | None = None
        self.order: Callable[[FloatArray], IntArray | slice] = lambda rows: slice(None)
        self.most_rows = _FEWEST_ROWS
        if norm is not None and len(points):
            self._choose_units(norm)
            self._choose_search(norm, probes)

    def _choose_units(self, norm: float) -> None:
        """Distances take p-th powers: in units of the spread these stay within float64.

        A unit that is a power of two rounds nothing, so points that do well without it stay where
        they are, which may be a file that other processes map as well.
        """
        spread = 0.5 * self.points.max(axis=0) - 0.5 * self.points.min(axis=0)
        exponent = int(np.frexp(spread.max())[1])
        if abs(exponent) > _HARMLESS or norm not in (1.0, 2.0, math.inf):
            self.exponent = exponent

    def _choose_search(self, norm: float, probes: int) -> None:
        """What finds the nearest of so many points in so many dimensions soonest."""
        scaled = self._in_units(self.points)
        if probes and len(scaled) >= FEWEST_POINTS:
            self.nearest = NearestByCells(scaled, probes).query
        elif norm == 2.0 and scaled.shape[1] >= _MANY_DIMENSIONS:
            self.nearest = NearestByProducts(scaled).query
        else:
            curve = Curve(scaled)
            if scaled.nbytes <= _WORTH_A_COPY:
                along = curve.order(scaled)
                scaled = scaled[along]
                self.counts, self.classes = self.counts[along], self.classes[along]
            self.nearest = NearestByTree(scaled, norm).query
            self.order, self.most_rows = curve.order, _MOST_ROWS

    def log_likelihood(self, rows: FloatArray) -> FloatArray:
        """``(n, d)`` to ``(n, k)``; −inf for a class with no point in the ball."""
        if not len(self.points):
            return np.zeros((len(rows), self.k_classes))
        inside, radius = self.balls(rows)
        with np.errstate(divide="ignore"):
            density = np.log(inside)
        density -= self.log_per_class
        if self.norm is not None:
            radius = np.clip(radius, POINT_MASS_WIDTH, _LARGEST)
            density -= log_ball_volume(rows.shape[1], radius, self.norm)[:, None]
        return density

    def balls(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``(n, d)`` to the counts by class in the ball around each ``(n, k)``, and its radius.

        The counts lie class by class in memory, as sums over the classes have them fastest.
        """
        rows = self._in_units(rows)
        order = self.order(rows)
        rows = np.ascontiguousarray(rows[order])
        share = -(-len(rows) // available_processors())
        size = max(_FEWEST_ROWS, min(share, self.most_rows))
        starts = range(0, max(len(rows), 1), size)
        search = self._by_force if self.nearest is None else self._by_search
        parts = ordered_map(lambda start: search(rows[start : start + size]), starts)
        held, radii = zip(*parts, strict=True)
        inside, radius = np.empty((self.k_classes, len(rows))), np.empty(len(rows))
        inside[:, order], radius[order] = np.concatenate(held, axis=1), np.concatenate(radii)
        with np.errstate(over="ignore"):
            return inside.T, np.ldexp(radius, self.exponent)

    def _in_units(self, values: FloatArray) -> FloatArray:
        """Coordinates for the search, which takes finite ones only."""
        if not self.exponent:
            return values
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(values, -self.exponent), -_LARGEST, _LARGEST)

    def _by_search(
        self, rows: FloatArray, asked: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Counts by class in each ball ``(k, n)``, and its radius ``(n,)``.

        ``asked`` neighbors are fetched first, by default one more than a ball is to hold; rows
        whose ball may hold more are searched again for twice as many.
        """
        assert self.nearest is not None
        asked = min(asked or math.ceil(self.enough) + 1, len(self.points))
        inside, radius = np.empty((self.k_classes, len(rows))), np.empty(len(rows))
        step = max(1, _BLOCK_CELLS // (asked * self.k_classes))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            distance, found = self.nearest(rows[block], asked)
            settled = np.zeros(len(found), dtype=bool)
            k = math.ceil(self.enough)
            if self.alike and asked > k:
                # The first k are the ball where the next is farther: nearly everywhere.
                row = np.arange(len(found))[:, None]
                inside[:, block] = self._by_class(row, found[:, :k], len(found))
                radius[block] = distance[:, k - 1]
                settled = distance[:, k] > distance[:, k - 1]
            rest = np.flatnonzero(~settled)
            if not len(rest):
                continue
            at = start + rest
            inside[:, at], radius[at], sure = self._weighed(distance[rest], found[rest])
            if asked < len(self.points) and not sure.all():
                again = at[~sure]
                inside[:, again], radius[again] = self._by_search(rows[again], 2 * asked)
        return inside, radius

    def _weighed(
        self, distance: FloatArray, found: IntArray
    ) -> tuple[FloatArray | IntArray, FloatArray, BoolArray]:
        """Counts and radii from neighbors with weights and ties, and whether these are sure."""
        if not self.alike:
            # Sums of fractions must not depend on the order in which ties were found.
            order = np.lexsort((found, distance), axis=1)
            distance = np.take_along_axis(distance, order, axis=1)
            found = np.take_along_axis(found, order, axis=1)
        finite = np.isfinite(distance)
        # Where there is no neighbor, the number is beyond the points.
        weights = np.where(finite, self.counts.take(found, mode="clip"), 0.0)
        reached = np.cumsum(weights, axis=1) >= self.enough
        enough = reached.any(axis=1)
        last = np.where(enough, reached.argmax(axis=1), finite.sum(axis=1) - 1)
        edge = np.take_along_axis(distance, np.maximum(last, 0)[:, None], axis=1)
        within = (distance <= edge) & finite
        # Sure only once a farther point was seen: others may stand on the edge as well.
        # Where the search came to an end, there is nothing more to ask for.
        sure = (enough & (distance[:, -1] > edge[:, 0])) | ~finite[:, -1]
        inside = self._by_class(np.nonzero(within)[0], found[within], len(found), weights[within])
        return inside, edge[:, 0], sure

    def _by_force(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `_by_search`, by every distance, for metrics that no tree knows."""
        from scipy.spatial.distance import cdist

        inside, radius = np.empty((self.k_classes, len(rows))), np.empty(len(rows))
        step = max(1, _BLOCK_CELLS // len(self.points))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            distance = cdist(rows[block], self.points, metric=self.metric)
            order = np.argsort(distance, axis=1, kind="stable")
            reached = np.cumsum(self.counts[order], axis=1) >= self.enough
            nearest = np.take_along_axis(order, np.argmax(reached, axis=1)[:, None], axis=1)
            edge = np.take_along_axis(distance, nearest, axis=1)
            row, point = np.nonzero(distance <= edge)
            inside[:, block] = self._by_class(row, point, len(edge), self.counts[point])
            radius[block] = edge[:, 0]
        return inside, radius

    def _by_class(
        self, row: IntArray, point: IntArray, rows: int, weights: FloatArray | None = None
    ) -> FloatArray | IntArray:
        """Counts, or weights, by class of points that are in the ball of a row: ``(k, n)``."""
        cells = np.multiply(self.classes.take(point, mode="clip"), rows, dtype=np.intp) + row
        held = np.bincount(cells.ravel(), weights, self.k_classes * rows)
        return held.reshape(self.k_classes, rows)


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
