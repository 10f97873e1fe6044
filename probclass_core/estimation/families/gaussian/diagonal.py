"""Independent normal features: a mean and a variance per class and feature.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2, Algorithm 18.2: f(x | c) is the
product over features of N(x_j; μ_cj, σ²_cj), with 2d parameters per class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    ByClass,
    FloatArray,
    is_numeric_type,
    label_codes,
    numeric_column,
    sorted_classes,
)
from probclass_core.estimation.contract import (
    LikelihoodEstimator,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimation.evidence import normal_evidence, normal_posterior
from probclass_core.estimation.families.gaussian.checks import (
    check_counts,
    check_values,
    feature_scale,
)
from probclass_core.estimation.families.gaussian.densities import (
    GaussianDiagonalLikelihood,
    StudentDiagonalLikelihood,
)
from probclass_core.estimation.families.gaussian.prior import (
    ConjugatePrior,
    prior_notes,
    read_predictive,
)
from probclass_core.estimation.moments import (
    Moments,
    column_moments,
    merge_moments,
    without_rounding,
)
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "GaussianDiagonal", "probclass_estimators"]

_DEFAULTS = {"ddof": 0, "variance_floor": 1e-9, "conjugate_prior": {}, "predictive": False}


class GaussianDiagonal(LikelihoodEstimator):
    """Independent normal features given the class.

    Options:
        ddof: 0 divides the scatter by the count (maximum likelihood), 1 by the count less one.
        variance_floor: smallest variance, as a fraction of the feature's own pooled variance;
            0 keeps a zero variance as a point mass.
        conjugate_prior: normal–inverse-χ² of each feature, for the evidence and the predictive
            density: ``count`` κ₀ (1), ``degrees_of_freedom`` ν₀ (3), ``mean`` and ``variance``,
            a number or one per column; what is missing of them is that of the rows, classes
            pooled. The prior mean of σ² is ``variance``.
        predictive: score by Student's t, means and variances integrated out under that prior;
            neither floor nor ``ddof`` applies.

    Statistics: class, feature, count (Σ w), mean, scatter (Σ w (x − x̄)²).
    Parameters: class, feature, count, mean, variance; the floor of each feature is in the notes.
    With ``predictive``, mean and variance are location and squared scale of Student's t, a column
    degrees_of_freedom follows, and the prior is in the notes.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "gaussian_diagonal"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.ddof = number_option(self.name, "ddof", chosen["ddof"])
        self.variance_floor = number_option(self.name, "variance_floor", chosen["variance_floor"])
        self.prior = ConjugatePrior.read(
            self.name, self.features.names, chosen["conjugate_prior"], size=1
        )
        self.predictive = read_predictive(
            self.name, chosen, _DEFAULTS, idle=("ddof", "variance_floor")
        )

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        groups = ByClass.group(classes)
        columns = [
            column_moments(numeric_column(batch, name), groups, weights)
            for name in self.features.names
        ]
        return self._table(groups.labels, _stacked(columns))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        return self._table(classes, self._moments(parts, classes))

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        moments = self._moments(statistics, classes)
        if self.predictive:
            return self._finalize_predictive(classes, moments)
        check_counts(self.features.names, classes, moments.count, self.ddof)
        floor = self.variance_floor * feature_scale(self.features.names, moments)
        variance = without_rounding(moments.scatter / (moments.count - self.ddof), moments.mean)
        parameters = self._tidy(
            classes,
            count=moments.count,
            mean=moments.mean,
            variance=np.maximum(variance, floor),
        )
        return with_notes(
            parameters,
            estimator=self.name,
            features=self.features.names,
            options=self.options,
            variance_floor=dict(zip(self.features.names, floor.tolist(), strict=True)),
        )

    def _finalize_predictive(self, classes: pa.Array, moments: Moments) -> pa.Table:
        """Student's t of the next row: Murphy 2007, section 5."""
        names = self.features.names
        check_values(names, moments.count)
        prior = self.prior.beside(moments)
        after = normal_posterior(prior, moments.count, moments.mean, moments.scatter)
        widening = (after.count + 1.0) / after.count
        parameters = self._tidy(
            classes,
            count=moments.count,
            mean=after.mean,
            variance=after.scatter / after.degrees_of_freedom * widening,
            degrees_of_freedom=after.degrees_of_freedom,
        )
        return with_notes(
            parameters,
            estimator=self.name,
            features=names,
            options=self.options,
            prior=prior_notes(names, prior),
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> GaussianDiagonalLikelihood:
        features = notes_of(parameters)["features"]
        place = (
            label_codes(parameters["class"], classes),
            label_codes(parameters["feature"], pa.array(features, pa.string())),
        )

        def cells(name: str) -> FloatArray:
            values = np.empty((len(classes), len(features)))
            values[place] = parameters[name].to_numpy()
            return values

        mean, variance = cells("mean"), cells("variance")
        if self.predictive:
            freedom = cells("degrees_of_freedom")
            return StudentDiagonalLikelihood(features, mean, variance, freedom)
        return GaussianDiagonalLikelihood(features, mean, variance)

    def log_evidence(self, statistics: pa.Table) -> float:
        if not statistics.num_rows:
            return 0.0
        moments = self._moments(statistics, sorted_classes(statistics["class"]))
        prior = self.prior.beside(moments)
        return float(normal_evidence(prior, moments.count, moments.mean, moments.scatter).sum())

    def _moments(self, table: pa.Table, classes: pa.Array) -> Moments:
        """A statistics table as moments ``(k, d)``; absent cells have count 0."""
        features = self.features.names
        feature = label_codes(table["feature"], pa.array(features, pa.string()))
        group = label_codes(table["class"], classes) * len(features) + feature
        parts = Moments(*(table[field].to_numpy() for field in ("count", "mean", "scatter")))
        merged = merge_moments(group, len(classes) * len(features), parts)
        shape = (len(classes), len(features))
        return Moments(*(x.reshape(shape) for x in (merged.count, merged.mean, merged.scatter)))

    def _table(self, classes: pa.Array, moments: Moments) -> pa.Table:
        table = self._tidy(classes, count=moments.count, mean=moments.mean, scatter=moments.scatter)
        return table.filter(pa.array(moments.count.ravel() > 0.0))

    def _tidy(self, classes: pa.Array, **fields: FloatArray) -> pa.Table:
        """One row per class and feature from ``(k, d)`` arrays."""
        rows = pa.array(np.repeat(np.arange(len(classes)), len(self.features)))
        names = pa.array(self.features.names * len(classes), pa.string())
        columns = {key: pa.array(np.ravel(values)) for key, values in fields.items()}
        return pa.table({"class": classes.take(rows), "feature": names, **columns})


def _stacked(columns: Sequence[Moments]) -> Moments:
    """Moments of single columns, each ``(g,)``, side by side as ``(g, d)``."""
    return Moments(
        np.stack([column.count for column in columns], axis=1),
        np.stack([column.mean for column in columns], axis=1),
        np.stack([column.scatter for column in columns], axis=1),
    )


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `GaussianDiagonal`."""
    yield EstimatorPlugin(
        name=GaussianDiagonal.name,
        factory=GaussianDiagonal,
        summary="independent normal features: a mean and a variance per class and feature",
        traits=Traits(factorizes=True, has_evidence=True),
    )
