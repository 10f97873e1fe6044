"""K-nearest-neighbor density: K_c / (n_c V), exact unless the option ``probes`` is given.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.3: V is the volume of the smallest ball
around x that holds K training points of any class, K_c of them of class c. The ball is closed: all
points at its radius count, so ties depend on no order, and Σ K_c may exceed K. A ball of radius 0
(K points stand on x itself) has the radius `POINT_MASS_WIDTH`, which keeps the posterior K_c / ΣK.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
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
from probclass_core.estimation.contract import (
    LikelihoodEstimator,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimation.families.knn.approximate import require_faiss
from probclass_core.estimation.families.knn.balls import Balls
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "KnnDensity", "probclass_estimators"]

_NORMS = {"euclidean": 2.0, "manhattan": 1.0, "cityblock": 1.0, "chebyshev": math.inf}
_DEFAULTS = {"k": 5, "metric": "euclidean", "p": 2.0, "probes": 0}
_NEEDS_SCALE = ("mahalanobis", "seuclidean")


class KnnDensity(LikelihoodEstimator):
    """Density from the K nearest training points.

    Every training point is kept: memory grows with the rows. A point that lacks a feature serves
    the rows whose observed features it has.

    Options:
        k: neighbors in the ball, of all classes together.
        metric: ``"euclidean"``, ``"manhattan"``, ``"chebyshev"``, ``"minkowski"`` (with ``p``), or
            any other of `scipy.spatial.distance.cdist` that needs no parameters. A ball of those
            others has no known volume: posteriors stand, ``log_density`` is not offered.
        p: exponent of the Minkowski norm, at least 1.
        probes: 0 finds the nearest of all points. A number looks into so many of 4 √m cells of the
            m points, and may miss some neighbors: for the Euclidean metric and very many points,
            by faiss (extra ``ann``). Fewer than 10,000 points are all looked at.

    Statistics and parameters: class, point (fixed-size list, NaN where null), count (Σ w there).

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
        NotSupportedError: ``probes`` are asked for, and faiss is not installed.
    """

    name: ClassVar[str] = "knn_density"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.k = number_option(self.name, "k", chosen["k"], at_least=1, whole=True)
        self.metric = str(chosen["metric"])
        p = number_option(self.name, "p", chosen["p"], at_least=1.0)
        self.norm = p if self.metric == "minkowski" else _NORMS.get(self.metric)
        if self.norm is None:
            _check_metric(self.metric)
        self.probes = int(
            number_option(self.name, "probes", chosen["probes"], at_least=0, whole=True)
        )
        if self.probes:
            if self.norm != 2.0:
                raise SpecError(
                    f"{self.name}: probes are for the Euclidean metric, got {self.metric!r}; leave "
                    "one of the two out."
                )
            require_faiss()

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
                f"{self.name}: k={self.k:g} neighbors of {total:g} training rows; lower k."
            )
        return with_notes(
            statistics.combine_chunks(),
            estimator=self.name,
            features=self.features.names,
            options=self.options,
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> KnnDensityLikelihood:
        codes = label_codes(parameters["class"], classes)
        return KnnDensityLikelihood(
            notes_of(parameters)["features"],
            _points(parameters),
            parameters["count"].to_numpy(),
            codes.astype(np.min_scalar_type(len(classes))),  # a byte for each point
            len(classes),
            k=self.k,
            norm=self.norm,
            metric=self.metric,
            probes=self.probes,
        )


class KnnDensityLikelihood:
    """log K_c − log n_c − log V, for the ball around each row.

    Args:
        features: names of the columns, ``d`` of them.
        points: ``(m, d)`` distinct training points, NaN where a feature was null.
        counts: ``(m,)`` rows (weights) that stand on each.
        classes: ``(m,)`` class of each, as codes.
        k_classes: how many classes there are.
        k: neighbors in a ball.
        norm: exponent of the Minkowski norm, or none for another ``metric``.
        metric: name known to scipy.
        probes: as the estimator's option.
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
        probes: int = 0,
    ) -> None:
        self.features = list(features)
        self.points = points
        self.counts = counts
        self.classes = classes
        self.k_classes = k_classes
        self.k = k
        self.norm = norm
        self.metric = metric
        self.probes = probes
        self.normalized = norm is not None
        self._references = functools.cache(self._reference)

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        matrix = numeric_matrix(batch, self.features)
        result = np.zeros((self.k_classes, batch.num_rows)).T
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

    def _reference(self, observed: bytes) -> Balls:
        """The training points that have these features, in those features alone.

        Where they all have all of them, they are not copied: they may lie in a file that is mapped.
        """
        features: BoolArray = np.frombuffer(observed, dtype=bool)
        points, counts, classes = self.points, self.counts, self.classes
        if not features.all():
            points = points[:, features]
        whole = np.ones(len(points), dtype=bool)
        for column in points.T:
            whole &= ~np.isnan(column)
        if not whole.all():
            points, counts, classes = points[whole], counts[whole], classes[whole]
        held = np.bincount(classes, counts, self.k_classes).astype(np.float64, copy=False)
        return Balls(
            points,
            counts,
            classes,
            held,
            k=self.k,
            norm=self.norm,
            metric=self.metric,
            probes=self.probes,
        )


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
    """Coordinates ``(m, d)``; of a column in one piece, as models have it, they are not copied."""
    column = table["point"]
    column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
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
