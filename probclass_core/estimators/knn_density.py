"""K-nearest-neighbour density: K_c / (n_c V), exact.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.3: V is the volume of the smallest ball
around x that holds K training points of any class, K_c of them of class c. The ball is closed: all
points at its radius count, so ties depend on no order, and Σ K_c may exceed K. A ball of radius 0
(K points stand on x itself) has the radius `POINT_MASS_WIDTH`, which keeps the posterior K_c / ΣK.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    is_numeric_type,
    label_codes,
    missing_patterns,
    numeric_matrix,
    sorted_classes,
)
from probclass_core.errors import DataError, SpecError, nearest
from probclass_core.estimator import (
    POINT_MASS_WIDTH,
    PROBCLASS_API,
    EstimatorPlugin,
    LikelihoodEstimator,
    Traits,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimators.neighbours import NearestByProducts
from probclass_core.hookspecs import hookimpl
from probclass_core.threads import ordered_map

__all__ = ["PROBCLASS_API", "KnnDensity", "log_ball_volume", "probclass_estimators"]

_NORMS = {"euclidean": 2.0, "manhattan": 1.0, "cityblock": 1.0, "chebyshev": math.inf}
_LARGEST = float(np.finfo(np.float64).max)
_NEEDS_SCALE = ("mahalanobis", "seuclidean")
_BLOCK_CELLS = 4_000_000
"""Numbers held at once by a search: 32 MB."""

_ROWS_AT_ONCE = 512
"""Rows that one thread searches for before it takes the next."""

_MANY_DIMENSIONS = 9
"""From here on a tree visits most of its leaves, and matrix products are faster."""


class KnnDensity(LikelihoodEstimator):
    """Density from the K nearest training points.

    Every training point is kept: memory grows with the rows. A point that lacks a feature serves
    the rows whose observed features it has.

    Options:
        k: neighbours in the ball, of all classes together.
        metric: ``"euclidean"``, ``"manhattan"``, ``"chebyshev"``, ``"minkowski"`` (with ``p``), or
            any other of `scipy.spatial.distance.cdist` that needs no parameters. A ball of those
            others has no known volume: posteriors stand, ``log_density`` is not offered.
        p: exponent of the Minkowski norm, at least 1.

    Statistics and parameters: class, point (fixed-size list, NaN where null), count (Σ w there).

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "knn_density"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, {"k": 5, "metric": "euclidean", "p": 2.0})
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.k = number_option(self.name, "k", chosen["k"], at_least=1, whole=True)
        self.metric = str(chosen["metric"])
        p = number_option(self.name, "p", chosen["p"], at_least=1.0)
        self.norm = p if self.metric == "minkowski" else _NORMS.get(self.metric)
        if self.norm is None:
            _check_metric(self.metric)

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        points = numeric_matrix(batch, self.features.names).T + 0.0  # −0.0 and 0.0 are one point
        kept = ~np.isnan(points).all(axis=1)
        counts = np.ones(len(points)) if weights is None else weights
        labels = classes.dictionary_decode().filter(pa.array(kept))
        return self._distinct(labels, points[kept], counts[kept])

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables).combine_chunks()
        counts = parts["count"].to_numpy()
        return self._distinct(parts["class"].combine_chunks(), _points(parts), counts)

    def _distinct(self, labels: pa.Array, points: FloatArray, counts: FloatArray) -> pa.Table:
        """Distinct points in order of class and coordinates, their counts summed."""
        classes = sorted_classes(labels)
        codes = label_codes(labels, classes)
        order = np.lexsort((*points.T[::-1], codes))
        codes, points, counts = codes[order], points[order], counts[order]
        if len(points):
            after, before = points[1:], points[:-1]
            equal = (after == before) | (np.isnan(after) & np.isnan(before))
            new = np.append(True, ~(equal.all(axis=1) & (codes[1:] == codes[:-1])))
            starts = np.flatnonzero(new)
            codes, points = codes[starts], points[starts]
            counts = np.add.reduceat(counts, starts)
        flat = pa.array(np.ascontiguousarray(points).ravel())
        return pa.table(
            {
                "class": classes.take(pa.array(codes)),
                "point": pa.FixedSizeListArray.from_arrays(flat, len(self.features)),
                "count": counts,
            }
        )

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        points = _points(statistics)
        for column, feature in enumerate(self.features.names):
            if np.isnan(points[:, column]).all():
                raise DataError(
                    f"column {feature!r} has no value in any training row; "
                    "leave it out of the block."
                )
        codes = label_codes(statistics["class"], classes)
        total = statistics["count"].to_numpy().sum()
        held = np.bincount(codes, minlength=len(classes))
        for row in np.flatnonzero(held == 0):
            raise DataError(
                f"class {classes[int(row)].as_py()!r} has no row with a value of "
                f"{', '.join(self.features.names)}; drop the class, or leave the columns out."
            )
        if total < self.k:
            raise DataError(
                f"{self.name}: k={self.k:g} neighbours of {total:g} training rows; lower k."
            )
        return with_notes(
            statistics.combine_chunks(),
            estimator=self.name,
            features=self.features.names,
            options=self.options,
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> KnnDensityLikelihood:
        return KnnDensityLikelihood(
            notes_of(parameters)["features"],
            _points(parameters),
            parameters["count"].to_numpy(),
            label_codes(parameters["class"], classes),
            len(classes),
            k=self.k,
            norm=self.norm,
            metric=self.metric,
        )


class KnnDensityLikelihood:
    """log K_c − log n_c − log V, for the ball around each row.

    Args:
        features: names of the columns, ``d`` of them.
        points: ``(m, d)`` distinct training points, NaN where a feature was null.
        counts: ``(m,)`` rows (weights) that stand on each.
        classes: ``(m,)`` class of each, as codes.
        k_classes: how many classes there are.
        k: neighbours in a ball.
        norm: exponent of the Minkowski norm, or none for another ``metric``.
        metric: name known to scipy.
    """

    def __init__(
        self,
        features: Sequence[str],
        points: FloatArray,
        counts: FloatArray,
        classes: IntArray,
        k_classes: int,
        *,
        k: float,
        norm: float | None,
        metric: str,
    ) -> None:
        self.features = list(features)
        self.points = points
        self.counts = counts
        self.classes = classes
        self.k_classes = k_classes
        self.k = k
        self.norm = norm
        self.metric = metric
        self.normalised = norm is not None
        self._references = functools.cache(self._reference)

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        matrix = numeric_matrix(batch, self.features)
        result = np.zeros((batch.num_rows, self.k_classes))
        for observed, rows in missing_patterns(matrix):
            if observed.any():
                reference = self._references(observed.tobytes())
                result[rows] = reference.log_likelihood(matrix[observed][:, rows].T)
        return result

    def ball(self, row: pa.RecordBatch) -> tuple[FloatArray, float]:
        """The ball around a batch of one row: what it holds, by class ``(k,)``, and its radius.

        Where features are null, the ball is that of the others.
        """
        matrix = numeric_matrix(row, self.features)
        observed = ~np.isnan(matrix[:, 0])
        inside, radius = self._references(observed.tobytes()).balls(matrix[observed].T)
        return inside[0], float(radius[0])

    def _reference(self, observed: bytes) -> _Reference:
        """The training points that have these features, in those features alone."""
        kept: BoolArray = np.frombuffer(observed, dtype=bool)
        points = self.points[:, kept]
        complete = ~np.isnan(points).any(axis=1)
        one_hot = np.zeros((int(complete.sum()), self.k_classes))
        one_hot[np.arange(len(one_hot)), self.classes[complete]] = self.counts[complete]
        return _Reference(points[complete], one_hot, self.k, self.norm, self.metric)


class _Reference:
    """Training points without gaps, ready to be searched.

    Args:
        points: ``(m, d)``.
        counts: ``(m, k)``, the count of each point in the column of its class.
    """

    def __init__(
        self, points: FloatArray, counts: FloatArray, k: float, norm: float | None, metric: str
    ) -> None:
        from scipy.spatial import cKDTree

        self.points = points
        # One more row without count: a search answers it where it finds no neighbour.
        self.counts = np.vstack([counts, np.zeros(counts.shape[1])])
        self.per_point = self.counts.sum(axis=1)
        self.per_class = counts.sum(axis=0)
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
            if norm == 2.0 and points.shape[1] >= _MANY_DIMENSIONS:
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
            edge = np.take_along_axis(distance, np.argmax(reached, axis=1)[:, None], axis=1)
            within = (distance <= edge) & np.isfinite(distance)
            inside[block] = (self.counts[found] * within[:, :, None]).sum(axis=1)
            radius[block] = edge[:, 0]
            # Sure only once a farther point was seen: others may stand on the edge as well.
            sure = reached.any(axis=1) & (distance[:, -1] > edge[:, 0])
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
            inside[block] = (distance <= edge) @ self.counts[:-1]
            radius[block] = edge[:, 0]
        return inside, radius


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


def _check_metric(metric: str) -> None:
    from scipy.spatial.distance import cdist

    if metric in _NEEDS_SCALE:
        raise SpecError(
            f"knn_density: metric {metric!r} depends on a scale of the data; scale the columns "
            "first and use 'euclidean'."
        )
    try:
        cdist(np.ones((1, 2)), np.ones((1, 2)), metric=metric)
    except (ValueError, TypeError) as error:
        raise SpecError(
            f"knn_density: unknown metric {metric!r}; use 'euclidean', 'manhattan', 'chebyshev', "
            "'minkowski' with p, or one of scipy's cdist that needs no parameters."
            + nearest(metric, (*_NORMS, "minkowski"))
        ) from error


def _points(table: pa.Table) -> FloatArray:
    column = table["point"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    points: FloatArray = column.flatten().to_numpy(zero_copy_only=False)
    return points.reshape(-1, column.type.list_size)


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `KnnDensity`."""
    yield EstimatorPlugin(
        name=KnnDensity.name,
        factory=KnnDensity,
        summary="density from the k nearest training points, exact, in any metric",
        traits=Traits(state_grows=True),
    )
