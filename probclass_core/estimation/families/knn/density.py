"""K-nearest-neighbor density: K_c / (n_c V), exact.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.3: V is the volume of the smallest ball
around x that contains K training points of any class, K_c of them of class c. The ball is closed:
all points at its radius count, so the result does not depend on the order of ties, and Σ K_c may
exceed K. A ball of radius 0 (K points equal x) is given the radius `POINT_MASS_WIDTH`, so that the
posterior is still K_c / ΣK.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import NotSupportedError, SpecError, StoreError, nearest
from probclass_core.estimation import tidy
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families import scarce
from probclass_core.estimation.families.knn.balls import Balls
from probclass_core.estimation.formulas import Formula
from probclass_core.estimation.kinds.sample import Points, check_points, coordinates
from probclass_core.estimation.marginals import Curve, derive
from probclass_core.estimation.options import (
    NUMBERS,
    EstimatorOptions,
    OptionPath,
    choice,
    number,
    option,
    whole,
)

_NORMS = {"euclidean": 2.0, "manhattan": 1.0, "cityblock": 1.0, "chebyshev": math.inf}
_NEEDS_SCALE = ("mahalanobis", "seuclidean")


def _parse_metric(path: OptionPath, value: Any) -> str:
    """The name of a metric that needs no parameters.

    Raises:
        SpecError: if the metric is unknown or needs parameters.
    """
    from scipy.spatial.distance import cdist

    metric = str(value)
    if metric in _NORMS or metric == "minkowski":
        return metric
    if metric in _NEEDS_SCALE:
        raise SpecError(
            f"{path.estimator}: metric {metric!r} depends on a scale of the data; scale the "
            "columns first and use 'euclidean'."
        )
    try:
        cdist(np.ones((1, 2)), np.ones((1, 2)), metric=metric)
    except (ValueError, TypeError) as error:
        raise SpecError(
            f"{path.estimator}: unknown metric {metric!r}; use 'euclidean', 'manhattan', "
            "'chebyshev', 'minkowski' with p, or one of scipy's cdist that needs no parameters."
            + nearest(metric, (*_NORMS, "minkowski"))
        ) from error
    return metric


_MARGIN = 0.25
"""Part of the range of the points by which a curve goes beyond them."""

_FARTHEST = 1e150
"""Largest coordinate in standard deviations: the sum of the squares of larger ones could exceed
float64."""


_QUARTILES = 1.3489795003921634
"""Distance of the quartiles of a normal density, in standard deviations: 2 Φ⁻¹(3/4)."""


class KnnDensity(Estimator):
    """Density from the K nearest training points.

    Every training point is stored, unless ``points`` bounds them: memory grows with the rows. A
    point that lacks a feature is used for rows whose observed features it has.

    Statistics and parameters: class, point (fixed-size list, NaN for null), count (Σ w there). With
    a ``scale`` or ``missing="mean"``, mean and scale of each feature are in the notes of the
    parameters, and with a ``least_ball`` its radius in units of the scales.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "knn_density"
    state_grows = True
    proper = False
    models = NUMBERS

    class Options(EstimatorOptions):
        """Options of `KnnDensity`."""

        k: int = whole(5, at_least=1, doc="Number of neighbors in the ball, of all classes.")
        metric: str = option(
            "euclidean",
            _parse_metric,
            expected="the name of a metric",
            doc="'euclidean', 'manhattan', 'chebyshev', 'minkowski' (with p), or any other of "
            "scipy.spatial.distance.cdist that needs no parameters. The volume of a ball of those "
            "others is unknown: they give posteriors, but no log_density.",
        )
        p: float = number(2.0, at_least=1.0, doc="Exponent of the Minkowski norm.")

        @property
        def norm(self) -> float | None:
            """Exponent of the Minkowski norm; None for another metric."""
            return self.p if self.metric == "minkowski" else _NORMS.get(self.metric)

        pseudo_count: float = number(
            0.0,
            doc="α, added to the neighbors of every class: the density is (K_c + α) / (n_c + α k) "
            "per volume, for k classes. A class without neighbors then has no density of 0.",
        )
        scale: str = choice(
            "none",
            ("none", "standard", "robust"),
            doc="Unit of each column in distances, classes pooled: 'none' is that of its values; "
            "'standard' their standard deviation; 'robust' the distance of their quartiles in "
            "standard deviations of a normal density, as far as it is not 0. Densities are per "
            "unit of the columns all the same.",
        )
        least_ball: float = number(
            0.0,
            at_most=1.0,
            doc="Smallest ball: no volume is less than that of this share of the balls around the "
            "points, so that equal rows, as of rounded numbers, are no point mass.",
        )
        missing: str = choice(
            "marginalize",
            ("marginalize", "mean"),
            doc="A null: 'marginalize' searches in the space of the other columns, which takes an "
            "index for each pattern of nulls; 'mean' replaces it by the mean of the column.",
        )
        points: int = whole(
            0,
            doc="Largest number of distinct points to keep, which bounds memory and time: those "
            "with the smallest hashes of class and coordinates, a random sample. 0 keeps all.",
        )

    options: Options

    @property
    def kind(self) -> Points:
        return Points(self.features.names, self.options.points)

    @classmethod
    def grows(cls, options: Mapping[str, Any]) -> bool:
        return not options.get("points")

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        names = self.features.names
        values = np.count_nonzero(~np.isnan(coordinates(statistics)), axis=0)
        codes = arrays.label_codes(statistics["class"], classes)
        total = statistics["count"].to_numpy().sum()
        none = np.bincount(codes, minlength=len(classes)) == 0
        alpha, k = self.options.pseudo_count, self.options.k
        modeled = [name for name, has in zip(names, values, strict=True) if has]
        notes = scarce.without_values([name for name in names if name not in modeled])
        if modeled:
            notes += scarce.pooled_unless(alpha, names, classes, np.outer(none, values > 0))
            if total < k:
                notes.append(f"{self.name}: k={k}, but there are {total:g} rows: a ball has all.")
        about = self._scales(statistics)
        if len(modeled) < len(names):
            about["modeled"] = modeled
        parameters = self.annotate(statistics.combine_chunks(), scarce=notes, **about)
        if not (self.options.least_ball and modeled):
            return parameters
        compiled = KnnDensityLikelihood(parameters, classes, self.options)
        about["radius"] = compiled.radius_of(self.options.least_ball)
        return self.annotate(statistics.combine_chunks(), scarce=notes, **about)

    def _scales(self, statistics: pa.Table) -> dict[str, Any]:
        """Mean and scale by feature, if an option needs them."""
        if self.options.scale == "none" and self.options.missing == "marginalize":
            return {}
        points, counts = coordinates(statistics), statistics["count"].to_numpy()
        found: dict[str, dict[str, float]] = {"mean": {}, "scale": {}}
        for feature, values in zip(self.features.names, points.T, strict=True):
            observed = ~np.isnan(values)
            if not observed.any():
                continue
            values, weight = values[observed], counts[observed] / counts[observed].sum()
            largest = float(np.abs(values).max()) or 1.0
            shares = values / largest  # their squares are within float64
            mean = float(shares @ weight)
            found["mean"][feature] = mean * largest
            found["scale"][feature] = self._spread(shares, weight, mean) * largest
        return found

    def _spread(self, values: FloatArray, weights: FloatArray, mean: float) -> float:
        """The scale of numbers; 0 if they are all the same, which rounding of the mean would hide.

        Args:
            values: ``n`` numbers.
            weights: their shares, ``(n,)``.
            mean: their mean.
        """
        if not np.ptp(values):
            return 0.0
        between = _quartile_distance(values, weights) if self.options.scale == "robust" else 0.0
        return between / _QUARTILES or float(np.sqrt(((values - mean) ** 2) @ weights))

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        notes = tidy.notes_of(parameters)
        for name in ("mean", "scale"):
            tidy.check_notes(
                notes.get(name), name, tidy.FINITE if name == "mean" else tidy.NOT_NEGATIVE
            )
        radius = notes.get("radius", 0.0)
        if not (isinstance(radius, float) and 0.0 <= radius < math.inf):
            raise StoreError(f"the least radius is {radius!r}.")
        tidy.label_rows(parameters, classes)
        tidy.check_column(parameters, "count", pa.float64())
        check_points(parameters, len(notes["features"]))
        tidy.COUNT.check("count", parameters["count"])

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> KnnDensityLikelihood:
        return KnnDensityLikelihood(parameters, classes, self.options)

    def leave_one_out(
        self,
        statistics: pa.Table,
        likelihood: KnnDensityLikelihood,
        classes: pa.Array,
        rows: Rows,
        truth: IntArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """See `LeaveOneOut`: each ball has K points besides the row, wherever it is among them.

        Means and scales remain those of all rows.
        """
        labels = classes.take(pa.array(truth))
        own = self.kind.own_counts(statistics.combine_chunks(), rows, labels, weights)
        return likelihood.log_likelihood(rows, truth, own)


def _quartile_distance(values: FloatArray, weights: FloatArray) -> float:
    """Third quartile less the first, for weights that sum to 1."""
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(weights[order]), (0.25, 0.75))
    low, high = values[order][np.minimum(places, len(values) - 1)]
    return float(high - low)


class KnnDensityLikelihood:
    """log K_c − log n_c − log V, for the ball around each row.

    Args:
        parameters: of `KnnDensity`.
        classes: ``k`` labels.
        options: options of the block.

    Attributes:
        features: names of the columns that have values, ``d`` of them.
        points: ``(m, d)`` distinct training points, NaN for a null feature.
        counts: ``(m,)`` number of rows (weight) at each point.
        classes: ``(m,)`` class of each point, as codes.
        center: ``(d,)`` values that replace nulls, or None to search among the other features.
        scale: ``(d,)`` units of the features for distances, or None for 1; 0 counts as 1.
        least_radius: radius of the smallest ball, in these units.
    """

    def __init__(
        self, parameters: pa.Table, classes: pa.Array, options: KnnDensity.Options
    ) -> None:
        notes = tidy.notes_of(parameters)
        names = notes["features"]
        self.features: list[str] = notes.get("modeled", names)
        self.points = coordinates(parameters)
        if self.features != names:
            self.points = self.points[:, [names.index(name) for name in self.features]]
        self.counts = parameters["count"].to_numpy()
        codes = arrays.label_codes(parameters["class"], classes)
        self.classes = codes.astype(np.min_scalar_type(len(classes)))  # a byte for each point
        self.k_classes = len(classes)
        self.options = options
        self.center = self.scale = None
        if options.missing == "mean":
            self.center = np.array([notes["mean"][name] for name in self.features])
        if options.scale != "none":
            scale = np.array([notes["scale"][name] for name in self.features])
            self.scale = np.where(scale > 0.0, scale, 1.0)
        self.least_radius: float = notes.get("radius", 0.0)
        self.normalized = options.norm is not None
        without_points = np.bincount(self.classes, minlength=self.k_classes) == 0
        self.pooled = without_points & (options.pseudo_count == 0.0)
        self._references = functools.cache(self._reference)

    def marginal(self, column: str) -> Curve | None:
        """The density around the points of a column; its integral has no bound.

        None if nulls are means: a row of this column alone has the density at the means of others.
        """
        if column not in self.features or (self.center is not None and len(self.features) > 1):
            return None
        names = pa.schema([(name, pa.float64()) for name in self.features])
        curve = derive(self, column, names)
        values = self.points[:, self.features.index(column)]
        known = ~np.isnan(values)
        values, weights, classes = values[known], self.counts[known], self.classes[known]
        if curve is None or not len(values):
            return None
        total = np.bincount(classes, weights, self.k_classes)
        total[total == 0.0] = np.nan  # a class without a value has no mean
        mean = np.bincount(classes, weights * values, self.k_classes) / total
        scatter = np.bincount(classes, weights * (values - mean[classes]) ** 2, self.k_classes)
        margin = _MARGIN * np.ptp(values) or 0.5
        return replace(
            curve,
            low=float(values.min() - margin),
            high=float(values.max() + margin),
            proper=False,
            mean=mean,
            variance=scatter / total,
        )

    def formula(self) -> Formula:
        raise NotSupportedError(
            "k nearest neighbors compare a row with all training rows, which a formula of its "
            "columns cannot express; score it by pc.score, or choose blocks for SQL: "
            "ModelSpec.auto(…, sql=True)."
        )

    def log_likelihood(
        self,
        rows: Rows,
        truth: IntArray | None = None,
        own: FloatArray | None = None,
    ) -> FloatArray:
        """Log-likelihoods, ``(n, k)``; with more arguments each row is not among the points.

        Args:
            rows: ``n`` rows.
            truth: class of each row, as a code, ``(n,)``.
            own: weight of each row among the points, 0 if it is not one of them, ``(n,)``.
        """
        matrix = rows.matrix(self.features)
        result = np.zeros((self.k_classes, len(rows))).T
        if self.center is not None:
            # A row without values says nothing of its class. With one class it must compare with
            # other rows: it has as many dimensions.
            empty = np.isnan(matrix).all(axis=0) & (self.k_classes > 1)
            matrix = np.where(np.isnan(matrix) & ~empty, self.center[:, None], matrix)
        for observed, places in arrays.missing_patterns(matrix):
            if observed.any():
                reference = self._references(observed.tobytes())
                values = self._in_units(matrix[observed][:, places].T, observed)
                left_out = () if truth is None or own is None else (truth[places], own[places])
                logs = reference.log_likelihood(values, self.least_radius, *left_out)
                if self.pooled.any():
                    logs[:, self.pooled] = reference.of_all_classes(logs)[:, None]
                result[places] = logs
                if self.scale is not None:
                    result[places] -= np.log(self.scale[observed]).sum()
        return result

    def radius_of(self, share: float) -> float:
        """Radius of the largest of a share of the balls around the points with all features.

        It is that of the smallest ball with a volume if this one is a point; 0 if all are.
        """
        reference = self._references(np.ones(len(self.features), dtype=bool).tobytes())
        if not len(reference.points):
            return 0.0
        radius = np.sort(reference.balls(reference.points)[1])
        place = math.ceil(share * len(radius)) - 1
        return float(radius[place] or radius[np.flatnonzero(radius)[:1]].sum())

    def _in_units(self, points: FloatArray, observed: BoolArray) -> FloatArray:
        """Coordinates ``(n, d')`` of the observed features in units of their scales."""
        if self.scale is None:
            return points
        with np.errstate(over="ignore"):
            scaled = points / self.scale[observed]
        return np.clip(scaled, -_FARTHEST, _FARTHEST)

    def _reference(self, observed: bytes) -> Balls:
        """The training points that have these features, reduced to these features.

        If all points have all features, they are not copied: they may be in a memory-mapped file.
        """
        features: BoolArray = np.frombuffer(observed, dtype=bool)
        points, counts, classes = self.points, self.counts, self.classes
        if self.center is not None:
            points = np.where(np.isnan(points), self.center, points)
        if not features.all():
            points = points[:, features]
        points = self._in_units(points, features)
        complete = np.ones(len(points), dtype=bool)
        for column in points.T:
            complete &= ~np.isnan(column)
        if not complete.all():
            points, counts, classes = points[complete], counts[complete], classes[complete]
        return Balls(points, counts, classes, self.k_classes, self.options)
