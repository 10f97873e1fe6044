"""The smallest closed ball around a row that contains K training points: counts and volume."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.estimation.contract import POINT_MASS_WIDTH
from probclass_core.estimation.families.knn import nearest
from probclass_core.execution.threads import ordered_map

_LARGEST = float(np.finfo(np.float64).max)

_BLOCK_CELLS = 4_000_000
"""Numbers in memory at once during a search: 32 MB."""

_ROWS = 512
"""Rows per task of a thread."""

_HARMLESS = 32
"""Largest exponent of two of a spread whose squares, and differences of them, fit float32."""

_MANY_DIMENSIONS = 9
"""From this dimension on a tree visits most of its leaves, and matrix products are faster."""


class Search(Protocol):
    """The options of `KnnDensity` that say which points are in a ball, and what they count."""

    k: int
    metric: str
    pseudo_count: float

    @property
    def norm(self) -> float | None:
        """Exponent of the Minkowski norm; None for another metric."""


class Balls:
    """Training points without nulls, indexed for search.

    Args:
        points: ``(m, d)``.
        counts: ``(m,)`` number of rows (weight) at each point.
        classes: ``(m,)`` class of each point, as codes of any integer type.
        k_classes: number of classes.
        options: options of the block.
    """

    def __init__(
        self,
        points: FloatArray,
        counts: FloatArray,
        classes: IntArray,
        k_classes: int,
        options: Search,
    ) -> None:
        self.points, self.counts, self.classes = points, counts, classes
        self.unweighted = bool((counts == 1.0).all())
        self.per_class = np.bincount(classes, counts, k_classes).astype(np.float64, copy=False)
        self.k_classes, self.k = k_classes, options.k
        self.pseudo_count, self.norm = options.pseudo_count, options.norm
        self.log_total = self._log_total(self.per_class)
        self.total = float(counts.sum())
        self.exponent = 0
        if not len(points):
            return
        self._choose_units(self.norm)
        scaled = self._in_units(points)
        index: nearest.NearestByForce | nearest.NearestByProducts | nearest.NearestByTree
        if self.norm is None:
            index = nearest.NearestByForce(scaled, options.metric)
        elif self.norm == 2.0 and scaled.shape[1] >= _MANY_DIMENSIONS:
            index = nearest.NearestByProducts(scaled)
        else:
            index = nearest.NearestByTree(scaled, self.norm)
        self.nearest = index.query

    def _choose_units(self, norm: float | None) -> None:
        """Scale by a power of two, so that the p-th powers in distances are within float64.

        A power of two does not round. Points that need no scaling are not copied, because they may
        be in a file that other processes map as well.
        """
        spread = 0.5 * self.points.max(axis=0) - 0.5 * self.points.min(axis=0)
        exponent = int(np.frexp(spread.max())[1])
        if norm is not None and (abs(exponent) > _HARMLESS or norm not in (1.0, 2.0, math.inf)):
            self.exponent = exponent

    def log_likelihood(
        self,
        rows: FloatArray,
        least: float = 0.0,
        truth: IntArray | None = None,
        own: FloatArray | None = None,
    ) -> FloatArray:
        """log ((K_c + α) / (n_c + α k)) − log V, ``(n, k)``; −inf for a count and an α of 0.

        Args:
            rows: ``(n, d)``.
            least: radius of the smallest ball.
            truth: class of each row as a code, if rows are to be left out of the points.
            own: weight with which each row is among the points, ``(n,)``: the ball is that of the
                other points, and neither K_c nor n_c counts the row itself.
        """
        if not len(self.points):
            return np.zeros((len(rows), self.k_classes))
        inside, radius = self.balls(rows, own)
        log_total = self.log_total
        if truth is not None and own is not None:
            row = np.arange(len(rows))
            inside, total = inside.copy(), np.tile(self.per_class, (len(rows), 1))
            for counts in (inside, total):
                counts[row, truth] = np.maximum(counts[row, truth] - own, 0.0)
            log_total = self._log_total(total)
        with np.errstate(divide="ignore"):
            density = np.log(inside + self.pseudo_count)
        density -= log_total
        if self.norm is not None:
            radius = np.clip(radius, max(least, POINT_MASS_WIDTH), _LARGEST)
            density -= log_ball_volume(rows.shape[1], radius, self.norm)[:, None]
        return density

    def of_all_classes(self, densities: FloatArray) -> FloatArray:
        """Log density of the points of all classes together, ``(n,)``.

        Args:
            densities: log densities by class, ``(n, k)``; a class without points does not count.
        """
        share = self.per_class / max(self.total, np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore"):
            density: FloatArray = np.logaddexp.reduce(densities + np.log(share), axis=1)
        return density if len(self.points) else np.zeros(len(densities))

    def _log_total(self, counts: FloatArray) -> FloatArray:
        """log (n_c + α k) of counts by class ``(…, k)``; 0 for a class without points or α."""
        total: FloatArray = counts + self.pseudo_count * self.k_classes
        return np.log(np.where(total > 0.0, total, 1.0))

    def balls(
        self, rows: FloatArray, own: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Counts by class ``(n, k)`` and radius ``(n,)`` of the ball around each row ``(n, d)``.

        The counts are stored class by class in memory, which makes sums over the classes fastest.
        With weights ``own``, the ball contains as many points besides the row itself.
        """
        rows = np.ascontiguousarray(self._in_units(rows))
        # Rounding may leave a sum of fractional weights just below k.
        others = 0.0 if own is None else own
        enough = (np.minimum(self.k, self.total - others) + others) * (1.0 - 1e-12)
        enough = np.broadcast_to(enough, len(rows))
        starts = range(0, max(len(rows), 1), _ROWS)
        parts = ordered_map(
            lambda at: self._search(rows[at : at + _ROWS], enough[at : at + _ROWS]), starts
        )
        counts, radii = zip(*parts, strict=True)
        with np.errstate(over="ignore"):
            radius = np.ldexp(np.concatenate(radii), self.exponent)
        return np.concatenate(counts, axis=1).T, radius

    def _in_units(self, values: FloatArray) -> FloatArray:
        """Coordinates for the search, which must be finite."""
        if not self.exponent:
            return values
        with np.errstate(over="ignore"):
            return np.clip(np.ldexp(values, -self.exponent), -_LARGEST, _LARGEST)

    def _search(
        self, rows: FloatArray, enough: FloatArray, neighbors: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Counts by class in each ball ``(k, n)``, and its radius ``(n,)``.

        Args:
            rows: ``(n, d)``.
            enough: weight of the points that each ball contains at least, ``(n,)``.
            neighbors: number of neighbors to fetch first, by default k + 1. Rows whose ball may
                contain more are searched again for twice as many.
        """
        k = math.ceil(enough.max(initial=1.0))
        alike = self.unweighted and bool((enough == enough[:1]).all())
        neighbors = min(neighbors or k + 1, len(self.points))
        inside, radius = np.empty((self.k_classes, len(rows))), np.empty(len(rows))
        step = max(1, _BLOCK_CELLS // (neighbors * self.k_classes))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            distance, point = self.nearest(rows[block], neighbors)
            done = np.zeros(len(point), dtype=bool)
            if alike and neighbors > k:
                # If the next point is farther, as it nearly always is, the first k are the ball.
                row = np.arange(len(point))[:, None]
                inside[:, block] = self._by_class(row, point[:, :k], len(point))
                radius[block] = distance[:, k - 1]
                done = distance[:, k] > distance[:, k - 1]
            rest = np.flatnonzero(~done)
            if not len(rest):
                continue
            ties = start + rest
            inside[:, ties], radius[ties], complete = self._weighted(
                distance[rest], point[rest], enough[ties]
            )
            if neighbors < len(self.points) and not complete.all():
                again = ties[~complete]
                inside[:, again], radius[again] = self._search(
                    rows[again], enough[again], 2 * neighbors
                )
        return inside, radius

    def _weighted(
        self, distance: FloatArray, point: IntArray, enough: FloatArray
    ) -> tuple[FloatArray | IntArray, FloatArray, BoolArray]:
        """Counts and radii from neighbors with weights and ties, and which balls are complete."""
        if not self.unweighted:
            # Sums of fractions must not depend on the order in which ties were found.
            order = np.lexsort((point, distance), axis=1)
            distance = np.take_along_axis(distance, order, axis=1)
            point = np.take_along_axis(point, order, axis=1)
        finite = np.isfinite(distance)
        # If a row has too few neighbors, the point numbers of the others are out of range.
        weights = np.where(finite, self.counts.take(point, mode="clip"), 0.0)
        reached = np.cumsum(weights, axis=1) >= enough[:, None]
        full = reached.any(axis=1)
        last = np.where(full, reached.argmax(axis=1), finite.sum(axis=1) - 1)
        edge = np.take_along_axis(distance, np.maximum(last, 0)[:, None], axis=1)
        within = (distance <= edge) & finite
        # A ball is complete once a farther point was found, because others may be on its edge as
        # well, or once the search found no further point.
        complete = (full & (distance[:, -1] > edge[:, 0])) | ~finite[:, -1]
        inside = self._by_class(np.nonzero(within)[0], point[within], len(point), weights[within])
        return inside, edge[:, 0], complete

    def _by_class(
        self, row: IntArray, point: IntArray, rows: int, weights: FloatArray | None = None
    ) -> FloatArray | IntArray:
        """Counts, or weights, by class of the points in the ball of each row: ``(k, n)``."""
        cells = np.multiply(self.classes.take(point, mode="clip"), rows, dtype=np.intp) + row
        counts = np.bincount(cells.ravel(), weights, self.k_classes * rows)
        return counts.reshape(self.k_classes, rows)


def log_ball_volume(d: int, radius: FloatArray, p: float) -> FloatArray:
    """Log volume of a ball of the Minkowski p-norm in d dimensions.

    V = (2 Γ(1 + 1/p) r)^d / Γ(1 + d/p); for p = 2 that is π^(d/2) r^d / Γ(d/2 + 1) (Zaki and Meira,
    eq. 6.4), for p = ∞ the cube (2r)^d.

    Args:
        d: number of dimensions.
        radius: any shape, positive.
        p: at least 1, or infinity.
    """
    if math.isinf(p):
        unit = d * math.log(2.0)
    else:
        unit = d * (math.log(2.0) + math.lgamma(1.0 + 1.0 / p)) - math.lgamma(1.0 + d / p)
    volume: FloatArray = unit + d * np.log(radius)
    return volume
