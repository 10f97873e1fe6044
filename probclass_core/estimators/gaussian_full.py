"""A multivariate normal per class, with its full covariance matrix.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.1.2, Algorithm 18.1 and eq. 18.3. The
density is evaluated through the Cholesky factor of the covariance, Σ = L Lᵀ: the Mahalanobis
distance is |L⁻¹(x − μ)|² and ½ log |Σ| is the sum of log L_jj.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrays import (
    ByClass,
    FloatArray,
    is_numeric_type,
    label_codes,
    missing_patterns,
    numeric_blocks,
    numeric_matrix,
    sorted_classes,
)
from probclass_core.errors import DataError
from probclass_core.estimator import (
    PROBCLASS_API,
    EstimatorPlugin,
    LikelihoodEstimator,
    choice_option,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimators.gaussian_diagonal import LOG_2PI, check_counts, feature_scale
from probclass_core.hookspecs import hookimpl
from probclass_core.moments import (
    Moments,
    cross_moments,
    merge_moments,
    without_rounding,
)

__all__ = ["PROBCLASS_API", "GaussianFull", "probclass_estimators"]

_REPAIRED_EIGENVALUE = 1e-9
"""Smallest eigenvalue that a repaired covariance is given, features scaled to unit variance."""


class GaussianFull(LikelihoodEstimator):
    """A multivariate normal per class.

    With nulls, each mean uses the rows that have the feature, each covariance the rows that have
    both features; without nulls this is the textbook's estimate.

    Options:
        ddof: 0 divides the scatter by the count (maximum likelihood), 1 by the count less one.
        ridge: added to every covariance, as a fraction of each feature's own pooled variance.
        on_singular: what to do where a covariance is not positive definite to working precision:
            ``"ridge"`` adds the smallest ridge that lifts its least eigenvalue (features scaled to
            unit pooled variance) to 1e-9, ``"error"`` refuses.

    Statistics: class, count, mean, scatter, each a ``(d, d)`` tensor over pairs of features.
    Parameters: class, count, mean (list), covariance (``(d, d)`` tensor); the features and the
    ridge of each class are in the notes.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "gaussian_full"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, {"ddof": 0, "ridge": 0.0, "on_singular": "ridge"})
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.ddof = number_option(self.name, "ddof", chosen["ddof"])
        self.ridge = number_option(self.name, "ridge", chosen["ridge"])
        self.on_singular = choice_option(
            self.name, "on_singular", chosen["on_singular"], ("ridge", "error")
        )

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        groups = ByClass.of(classes)
        matrix = numeric_matrix(batch, self.features.names)
        return _statistics(groups.labels, cross_moments(matrix, groups, weights))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        return _statistics(classes, _moments(parts, classes))

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        moments = _moments(statistics, classes)
        own = _diagonal(moments)
        self._check(classes, moments, own)
        scale = feature_scale(self.features.names, own)
        covariances, ridges = [], []
        for number, label in enumerate(classes.to_pylist()):
            covariance = moments.scatter[number] / (moments.count[number] - self.ddof)
            ridge = self.ridge + self._repair(covariance, own.mean[number], scale, label)
            covariances.append(covariance + np.diag(ridge * scale))
            ridges.append(ridge)
        parameters = pa.table(
            {
                "class": classes,
                "count": own.count.max(axis=1),
                "mean": pa.array(own.mean.tolist(), pa.list_(pa.float64())),
                "covariance": pa.FixedShapeTensorArray.from_numpy_ndarray(np.stack(covariances)),
            }
        )
        return with_notes(
            parameters,
            estimator=self.name,
            features=self.features.names,
            options=self.options,
            ridge=ridges,
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> GaussianFullLikelihood:
        rows = pa.array(label_codes(classes, parameters["class"].combine_chunks()))
        ordered = parameters.take(rows)
        return GaussianFullLikelihood(
            notes_of(parameters)["features"],
            np.array(ordered["mean"].to_pylist(), dtype=np.float64),
            _tensor(ordered, "covariance"),
        )

    def _check(self, classes: pa.Array, moments: Moments, own: Moments) -> None:
        names = self.features.names
        check_counts(names, classes, own.count, self.ddof)
        for number, label in enumerate(classes.to_pylist()):
            if own.count[number].max() <= 1.0 and not own.scatter[number].any():
                raise DataError(
                    f"class {label!r} has 1 row, which gives no covariance of {len(names)} "
                    "features; add rows, drop the class, or use gaussian_diagonal."
                )
            alone = np.argwhere(moments.count[number] <= self.ddof)
            if len(alone):
                first, second = (names[place] for place in alone[0])
                raise DataError(
                    f"class {label!r} has {moments.count[number][tuple(alone[0])]:g} rows with "
                    f"both {first!r} and {second!r}; put them in different blocks, or add rows."
                )

    def _repair(
        self, covariance: FloatArray, mean: FloatArray, scale: FloatArray, label: object
    ) -> float:
        """The ridge that makes a covariance positive definite: 0 where it is already."""
        covariance = covariance + np.diag(self.ridge * scale)
        variance = without_rounding(np.diagonal(covariance), mean)
        # Rank is a matter of correlations: a class may be narrow beside the distance to the others.
        eigenvalues = _scaled_eigenvalues(covariance, np.where(variance > 0.0, variance, scale))
        precision = len(scale) * np.finfo(np.float64).eps * max(eigenvalues[-1], 1e-300)
        if eigenvalues[0] > precision:
            return 0.0
        if self.on_singular == "error":
            raise DataError(
                f"class {label!r}: the covariance of {', '.join(self.features.names)} is singular "
                f"(rank {int((eigenvalues > precision).sum())} of {len(scale)}); drop a feature "
                "that the others determine, or set ridge=1e-6 or on_singular='ridge'."
            )
        return float(_REPAIRED_EIGENVALUE - _scaled_eigenvalues(covariance, scale)[0])


class GaussianFullLikelihood:
    """log N(x; μ_c, Σ_c); where features are null, of the marginal over the others.

    Args:
        features: names of the columns, ``d`` of them.
        mean: ``(k, d)``.
        covariance: ``(k, d, d)``, positive definite.
    """

    normalised = True

    def __init__(self, features: Sequence[str], mean: FloatArray, covariance: FloatArray) -> None:
        self.features = list(features)
        self.mean = mean
        self.covariance = covariance
        self._whitening: dict[bytes, tuple[FloatArray, FloatArray]] = {}

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.empty((len(self.mean), batch.num_rows))
        for rows, block in numeric_blocks(batch, self.features):
            for observed, among in missing_patterns(block):
                kept = np.flatnonzero(observed)
                part = block if isinstance(among, slice) else block[np.ix_(kept, among)]
                result[:, rows][:, among] = self._marginal(part, kept)
        return result.T

    def _marginal(self, part: FloatArray, kept: np.ndarray) -> FloatArray:
        """Of the kept features alone: ``(d', m')`` to ``(k, m')``."""
        whiten, log_peak = self._whitened(kept)
        square = np.empty((len(self.mean), part.shape[1]))
        deviation, distance = np.empty((2, *part.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for number, mean in enumerate(self.mean[:, kept]):
                np.subtract(part, mean[:, None], out=deviation)
                np.matmul(whiten[number], deviation, out=distance)
                np.einsum("dn,dn->n", distance, distance, out=square[number])
        # A distance beyond float64, be it ∞ or ∞ − ∞, is a likelihood of 0.
        square[np.isnan(square)] = np.inf
        return log_peak[:, None] - 0.5 * square

    def _whitened(self, kept: np.ndarray) -> tuple[FloatArray, FloatArray]:
        """L⁻¹ ``(k, d', d')`` and log density at the mean ``(k,)`` of the kept features."""
        key = kept.tobytes()
        if key not in self._whitening:
            # Scaling to unit variance first keeps the factor accurate for unlike units.
            part = self.covariance[:, kept[:, None], kept]
            width = np.sqrt(np.diagonal(part, axis1=1, axis2=2))
            factor = np.linalg.cholesky(part / (width[:, :, None] * width[:, None, :]))
            whiten = np.linalg.inv(factor) / width[:, None, :]
            log_width = np.log(np.diagonal(factor, axis1=1, axis2=2)) + np.log(width)
            self._whitening[key] = whiten, -0.5 * len(kept) * LOG_2PI - log_width.sum(axis=1)
        return self._whitening[key]


def _scaled_eigenvalues(covariance: FloatArray, scale: FloatArray) -> FloatArray:
    """Eigenvalues, ascending, with each feature divided by the root of its scale."""
    width = np.sqrt(scale)
    return np.linalg.eigvalsh(covariance / np.outer(width, width))


def _statistics(classes: pa.Array, moments: Moments) -> pa.Table:
    fields = {"count": moments.count, "mean": moments.mean, "scatter": moments.scatter}
    tensors = {
        key: pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))
        for key, values in fields.items()
    }
    return pa.table({"class": classes, **tensors})


def _moments(table: pa.Table, classes: pa.Array) -> Moments:
    """A statistics table as cross moments ``(k, d, d)``, merged by class."""
    parts = Moments(*(_tensor(table, field) for field in ("count", "mean", "scatter")))
    return merge_moments(label_codes(table["class"], classes), len(classes), parts, crossed=True)


def _tensor(table: pa.Table, name: str) -> FloatArray:
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    tensor: FloatArray = column.to_numpy_ndarray()
    return tensor


def _diagonal(moments: Moments) -> Moments:
    """Each feature's own moments, ``(k, d)``, out of cross moments ``(k, d, d)``."""
    return Moments(
        *(
            np.diagonal(values, axis1=1, axis2=2)
            for values in (moments.count, moments.mean, moments.scatter)
        )
    )


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `GaussianFull`."""
    yield EstimatorPlugin(
        name=GaussianFull.name,
        factory=GaussianFull,
        summary="a multivariate normal per class, with its full covariance",
    )
