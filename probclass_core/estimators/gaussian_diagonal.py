"""Independent normal features: a mean and a variance per class and feature.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2, Algorithm 18.2: f(x | c) is the
product over features of N(x_j; μ_cj, σ²_cj), with 2d parameters per class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrays import (
    BoolArray,
    ByClass,
    FloatArray,
    is_numeric_type,
    label_codes,
    numeric_blocks,
    numeric_column,
    sorted_classes,
)
from probclass_core.errors import DataError
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
from probclass_core.hookspecs import hookimpl
from probclass_core.moments import (
    Moments,
    column_moments,
    merge_moments,
    own_scale,
    without_rounding,
)

__all__ = ["PROBCLASS_API", "GaussianDiagonal", "probclass_estimators"]

LOG_2PI = math.log(2.0 * math.pi)


class GaussianDiagonal(LikelihoodEstimator):
    """Independent normal features given the class.

    Options:
        ddof: 0 divides the scatter by the count (maximum likelihood), 1 by the count less one.
        variance_floor: smallest variance, as a fraction of the feature's own pooled variance;
            0 keeps a zero variance as a point mass.

    Statistics: class, feature, count (Σ w), mean, scatter (Σ w (x − x̄)²).
    Parameters: class, feature, count, mean, variance; the floor of each feature is in the notes.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "gaussian_diagonal"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, {"ddof": 0, "variance_floor": 1e-9})
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.ddof = number_option(self.name, "ddof", chosen["ddof"])
        self.variance_floor = number_option(self.name, "variance_floor", chosen["variance_floor"])

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        groups = ByClass.of(classes)
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

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> GaussianDiagonalLikelihood:
        features = notes_of(parameters)["features"]
        shape = (len(classes), len(features))
        place = (
            label_codes(parameters["class"], classes),
            label_codes(parameters["feature"], pa.array(features, pa.string())),
        )
        mean, variance = np.empty(shape), np.empty(shape)
        mean[place] = parameters["mean"].to_numpy()
        variance[place] = parameters["variance"].to_numpy()
        return GaussianDiagonalLikelihood(features, mean, variance)

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


class GaussianDiagonalLikelihood:
    """log f(x | c) = −½ Σ_j [log 2πσ²_cj + ((x_j − μ_cj) / σ_cj)²], over the observed features.

    Args:
        features: names of the columns, ``d`` of them.
        mean: ``(k, d)``.
        variance: ``(k, d)``; 0 is a point mass: −inf off its point.
    """

    normalised = True

    def __init__(self, features: Sequence[str], mean: FloatArray, variance: FloatArray) -> None:
        self.features = list(features)
        self.mean = mean
        self.point_mass: BoolArray = variance == 0.0
        width = np.sqrt(np.where(self.point_mass, 1.0, variance))
        self.precision = np.where(self.point_mass, 0.0, 1.0 / width)
        self.log_peak = -0.5 * LOG_2PI - np.log(np.where(self.point_mass, POINT_MASS_WIDTH, width))

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.empty((len(self.mean), batch.num_rows))
        for rows, block in numeric_blocks(batch, self.features):
            self._fill(block, result[:, rows])
        return result.T

    def _fill(self, block: FloatArray, result: FloatArray) -> None:
        """From features ``(d, m)`` to ``(k, m)``."""
        missing = np.isnan(block)
        some_missing = bool(missing.any())
        if some_missing:
            result[:] = self.log_peak @ (~missing).astype(np.float64)
        else:
            result[:] = self.log_peak.sum(axis=1)[:, None]
        deviation = np.empty_like(block)
        for number, (mean, precision) in enumerate(zip(self.mean, self.precision, strict=True)):
            # A square beyond float64 is a likelihood of 0, and so is ∞ · 0, off a point mass.
            with np.errstate(over="ignore", invalid="ignore"):
                np.subtract(block, mean[:, None], out=deviation)
                deviation *= precision[:, None]
                if some_missing:
                    deviation[missing] = 0.0
                result[number] -= 0.5 * np.einsum("dn,dn->n", deviation, deviation)
            masses = np.flatnonzero(self.point_mass[number])
            if len(masses):
                off = (block[masses] != mean[masses, None]) & ~missing[masses]
                result[number, off.any(axis=0)] = -np.inf


def check_counts(
    features: Iterable[str], classes: pa.Array, count: FloatArray, ddof: float
) -> None:
    """Refuse statistics that cannot give a mean and a variance.

    Args:
        features: ``d`` names.
        classes: ``k`` labels.
        count: ``(k, d)`` weighted counts of observed values.
        ddof: taken off the count in the divisor of the variance.

    Raises:
        DataError: naming the column, the class and the count.
    """
    for column, feature in enumerate(features):
        if not count[:, column].any():
            raise DataError(
                f"column {feature!r} has no value in any training row; leave it out of the block."
            )
        for row in np.flatnonzero(count[:, column] <= ddof):
            held = count[row, column]
            needs = "a value" if not held else f"more than {ddof:g} values with ddof={ddof:g}"
            raise DataError(
                f"class {classes[int(row)].as_py()!r} has {held:g} values of column {feature!r} "
                f"and needs {needs}; add rows, drop the class, or leave the column out."
            )


def feature_scale(features: Iterable[str], moments: Moments) -> FloatArray:
    """The scale of each feature (see `moments.own_scale`): ``(d,)``, positive and finite.

    Raises:
        DataError: a feature's squares are beyond float64.
    """
    scale = own_scale(moments)
    for feature, value in zip(features, scale, strict=True):
        if not np.isfinite(value):
            raise DataError(
                f"column {feature!r} has values too large to square (beyond 1e154); "
                "divide it by a power of ten."
            )
    return scale


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
        traits=Traits(factorises=True),
    )
