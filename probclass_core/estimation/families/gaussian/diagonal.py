"""Independent normal features: a mean and a variance per class and feature.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2, Algorithm 18.2: f(x | c) is the
product over features of N(x_j; μ_cj, σ²_cj), with 2d parameters per class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, sorted_classes
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.evidence import normal_evidence
from probclass_core.estimation.families.gaussian.checks import (
    feature_scale,
    modeled_columns,
    notes_on_classes,
)
from probclass_core.estimation.families.gaussian.densities import DiagonalLikelihood
from probclass_core.estimation.families.gaussian.options import (
    ConjugatePrior,
    NormalOptions,
    conjugate_prior,
)
from probclass_core.estimation.kinds.moments import TermMoments
from probclass_core.estimation.moments import (
    Moments,
    pooled_variance,
    variance_within,
    without_rounding,
)
from probclass_core.estimation.moments import pooled as moments_of_all
from probclass_core.estimation.options import NUMBERS, number
from probclass_core.estimation.parameters import COUNT, FINITE, NOT_NEGATIVE, check_parameters
from probclass_core.estimation.tidy import dense_arrays, notes_of, tidy_table

_FRACTION_WITHIN = 0.005
"""Default floor of a variance, as a fraction of the feature's variance within the classes."""

_LEAST_FRACTION = 1e-9
"""Least default floor, as a fraction of the feature's variance over all classes."""


class GaussianDiagonal(Estimator):
    """Independent normal features given the class.

    Statistics: class, feature, term (x), count (Σ w), mean, scatter (Σ w (x − x̄)²).
    Parameters: class, feature, count, mean, variance; the floor of each feature is in the notes.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "gaussian_diagonal"
    factorizes = True
    models = NUMBERS

    class Options(NormalOptions):
        """Options of `GaussianDiagonal`."""

        variance_floor: float | None = number(
            None,
            doc="Smallest variance, as a fraction of the feature's variance over all classes; 0 "
            "keeps a zero variance as a point mass. By default 0.005 of the variance within the "
            "classes, but at least 1e-9 of that over all classes.",
        )
        conjugate_prior: ConjugatePrior = conjugate_prior(
            joint=False,
            doc="Normal–inverse-χ² prior of each feature, for the evidence: count κ₀ (default 1), "
            "degrees_of_freedom ν₀ (3), mean and variance, each a number or one per column. "
            "Missing values are those of the rows, classes pooled. The prior mean of σ² is "
            "variance.",
        )

    options: Options

    @property
    def kind(self) -> TermMoments:
        return TermMoments(self.features.names, ["x"])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        moments, ddof = self.kind.arrays(statistics, classes), self.options.ddof
        names, moments, notes = modeled_columns(self.features.names, moments)
        few = moments.count <= ddof
        divisor = np.where(few, 1.0, moments.count - ddof)
        scatter = np.where(few, 0.0, moments.scatter)
        variance = without_rounding(scatter / divisor, moments.mean)
        within = variance_within(moments.count, variance)
        floor = self._floor(names, moments, within)
        mean = moments.mean
        if (moments.count <= max(ddof, 1.0)).any():
            none, of_all = moments.count == 0.0, pooled_variance(moments)
            largest = np.abs(moments.mean).max(axis=0)
            instead = np.where(within > 0.0, within, without_rounding(of_all, largest))
            alone = few & ~none
            if self.options.variance_floor is None:
                alone |= ~none & (moments.count <= 1.0) & (variance == 0.0) & (instead > 0.0)
            variance = np.where(alone, instead, variance)
            variance = np.where(none, of_all, variance)
            mean = np.where(none, moments_of_all(moments).mean, mean)
            notes += notes_on_classes(names, classes, none, alone)
        parameters = self._tidy(
            names,
            classes,
            count=moments.count,
            mean=mean,
            variance=np.maximum(variance, floor),
        )
        floors = dict(zip(names, floor.tolist(), strict=True))
        return self.annotate(parameters, scarce=notes, variance_floor=floors)

    def _floor(self, names: Sequence[str], moments: Moments, within: FloatArray) -> FloatArray:
        """Smallest variance of each feature, ``(d,)``, given that within the classes, ``(d,)``.

        A class that is constant by chance (all its rows are 0, say) would have a spike that
        decides about every row. The variance within the classes shows how much a class varies; that
        over all classes would widen narrow classes that are far apart.
        """
        scale = feature_scale(names, moments)
        fraction = self.options.variance_floor
        if fraction is not None:
            return fraction * scale
        return np.maximum(_LEAST_FRACTION * scale, _FRACTION_WITHIN * within)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        numbers = {"count": COUNT, "mean": FINITE, "variance": NOT_NEGATIVE}
        check_parameters(parameters, classes, {"feature": pa.string()}, numbers)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DiagonalLikelihood:
        modeled = set(parameters["feature"].to_pylist())
        columns = notes_of(parameters)["features"]
        features = [name for name in columns if name in modeled]
        cells, fields = pa.array(features, pa.string()), ["mean", "variance"]
        mean, variance = dense_arrays(parameters, classes, "feature", cells, fields)
        return DiagonalLikelihood(features, mean, variance, columns=columns)

    def log_evidence(self, statistics: pa.Table) -> float:
        if not statistics.num_rows:
            return 0.0
        moments = self.kind.arrays(statistics, sorted_classes(statistics["class"]))
        prior = self.options.conjugate_prior.complete(moments, self.features.names)
        return float(normal_evidence(prior, moments.count, moments.mean, moments.scatter).sum())

    def _tidy(self, names: Sequence[str], classes: pa.Array, **fields: FloatArray) -> pa.Table:
        return tidy_table(classes, {"feature": pa.array(names, pa.string())}, fields)
