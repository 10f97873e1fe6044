"""A multivariate normal per class, with its full covariance matrix.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.1.2, Algorithm 18.1 and eq. 18.3. The
density is evaluated through the Cholesky factor of the covariance, Σ = L Lᵀ: the Mahalanobis
distance is |L⁻¹(x − μ)|² and ½ log |Σ| is the sum of log L_jj.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
from probclass_core.errors import DataError
from probclass_core.estimation.contract import (
    LikelihoodEstimator,
    choice_option,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimation.evidence import (
    NormalPrior,
    log_determinant,
    multivariate_normal_evidence,
    multivariate_normal_posterior,
)
from probclass_core.estimation.families.gaussian.checks import (
    check_complete,
    check_counts,
    check_values,
    feature_scale,
)
from probclass_core.estimation.families.gaussian.densities import (
    GaussianFullLikelihood,
    StudentFullLikelihood,
)
from probclass_core.estimation.families.gaussian.prior import (
    ConjugatePrior,
    prior_notes,
    read_predictive,
)
from probclass_core.estimation.moments import (
    Moments,
    cross_moments,
    merge_moments,
    without_rounding,
)
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "GaussianFull", "probclass_estimators"]

_REPAIRED_EIGENVALUE = 1e-9
"""Smallest eigenvalue that a repaired covariance is given, features scaled to unit variance."""

_DEFAULTS = {
    "ddof": 0,
    "ridge": 0.0,
    "on_singular": "ridge",
    "conjugate_prior": {},
    "predictive": False,
}


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
        conjugate_prior: normal–inverse-Wishart, for the evidence and the predictive density:
            ``count`` κ₀ (1), ``degrees_of_freedom`` ν₀ (d + 2), ``mean`` and ``variance``, a number
            or one per column; what is missing of them is that of the rows, classes pooled. The
            prior mean of Σ is the diagonal matrix of ``variance``.
        predictive: score by the multivariate Student's t, means and covariances integrated out
            under that prior; neither ridge nor ``ddof`` applies, and rows with nulls are refused
            in training.

    Statistics: class, count, mean, scatter, each a ``(d, d)`` tensor over pairs of features.
    Parameters: class, count, mean (list), covariance (``(d, d)`` tensor); the features and the
    ridge of each class are in the notes. With ``predictive``, mean and covariance are location
    and squared scale of Student's t, a column degrees_of_freedom follows, and the prior is in the
    notes.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "gaussian_full"
    density: ClassVar[type[GaussianFullLikelihood]] = GaussianFullLikelihood

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.ddof = number_option(self.name, "ddof", chosen["ddof"])
        self.ridge = number_option(self.name, "ridge", chosen["ridge"])
        self.on_singular = choice_option(
            self.name, "on_singular", chosen["on_singular"], ("ridge", "error")
        )
        self.prior = ConjugatePrior.read(
            self.name, features.names, chosen["conjugate_prior"], size=len(features)
        )
        self.predictive = read_predictive(self.name, chosen, _DEFAULTS, idle=("ddof", "ridge"))

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        groups = ByClass.group(classes)
        columns = [numeric_column(batch, name) for name in self.features.names]
        return _statistics(groups.labels, cross_moments(columns, groups, weights))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        return _statistics(classes, _moments(parts, classes))

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        moments = _moments(statistics, classes)
        own = _diagonal(moments)
        if self.predictive:
            return self._finalize_predictive(classes, moments, own)
        check_counts(self.features.names, classes, own.count, ddof=0)
        scale = feature_scale(self.features.names, own)
        count = self._sharing(moments.count).sum(axis=1)
        scatter = self._sharing(moments.scatter).sum(axis=1)
        largest = np.abs(self._sharing(own.mean)).max(axis=1)
        means = len(classes) // len(count)
        covariances, ridges = [], []
        for number, owner in enumerate(self._owners(classes)):
            self._check(owner, count[number], scatter[number], means)
            covariance = scatter[number] / (count[number] - self.ddof * means)
            ridge = self.ridge + self._repair(covariance, largest[number], scale, owner)
            covariances.append(covariance + np.diag(ridge * scale))
            ridges.append(ridge)
        parameters = _parameters(
            classes, own.count, own.mean, np.repeat(covariances, means, axis=0)
        )
        return self._noted(parameters, ridge=np.repeat(ridges, means).tolist())

    def _finalize_predictive(self, classes: pa.Array, moments: Moments, own: Moments) -> pa.Table:
        """Student's t of the next row: Murphy 2007, section 9."""
        names, size = self.features.names, len(self.features)
        check_values(names, own.count)
        check_complete(self.name, names, classes, moments.count)
        prior = self.prior.beside(own)
        after = multivariate_normal_posterior(_inverse_wishart(prior), *self._groups(moments, own))
        log_determinant(after.scatter)  # refuses what is singular
        freedom = np.broadcast_to(after.degrees_of_freedom[:, None] - size + 1.0, after.count.shape)
        widening = (after.count + 1.0) / after.count / freedom
        covariance = after.scatter[:, None] * widening[..., None, None]
        parameters = _parameters(
            classes, own.count, after.mean.reshape(-1, size), covariance.reshape(-1, size, size)
        ).append_column("degrees_of_freedom", pa.array(freedom.ravel()))
        return self._noted(parameters, prior=prior_notes(names, prior))

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> GaussianFullLikelihood:
        rows = pa.array(label_codes(classes, parameters["class"].combine_chunks()))
        ordered = parameters.take(rows)
        features = notes_of(parameters)["features"]
        mean = np.array(ordered["mean"].to_pylist(), dtype=np.float64)
        covariance = _tensor(ordered, "covariance")
        if self.predictive:
            freedom = ordered["degrees_of_freedom"].to_numpy()
            return StudentFullLikelihood(features, mean, covariance, freedom)
        return self.density(features, mean, covariance)

    def log_evidence(self, statistics: pa.Table) -> float:
        if not statistics.num_rows:
            return 0.0
        classes = sorted_classes(statistics["class"])
        moments = _moments(statistics, classes)
        own = _diagonal(moments)
        check_complete(self.name, self.features.names, classes, moments.count)
        prior = _inverse_wishart(self.prior.beside(own))
        return float(multivariate_normal_evidence(prior, *self._groups(moments, own)).sum())

    def _sharing(self, values: FloatArray) -> FloatArray:
        """Values by class as ``(s, g, …)``: of s covariances, each is shared by g classes."""
        return values[:, None]

    def _owners(self, classes: pa.Array) -> list[str]:
        """Whose the s covariances are, as messages say it."""
        return [f"class {label!r}" for label in classes.to_pylist()]

    def _groups(self, moments: Moments, own: Moments) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Complete rows as `evidence` takes them: count ``(s, g)``, mean and scatter."""
        parts = own.count.max(axis=1), own.mean, moments.scatter
        count, mean, scatter = (self._sharing(values) for values in parts)
        return count, mean, scatter

    def _check(self, owner: str, count: FloatArray, scatter: FloatArray, means: int) -> None:
        """Refuse what gives no covariance: ``(d, d)`` counts and scatter about so many means."""
        names, rows = self.features.names, float(np.diagonal(count).max())
        if rows <= means and not np.diagonal(scatter).any():
            held = f"{rows:g} row{'s' * (rows != 1)}"
            size = f"{len(names)} feature{'s' * (len(names) != 1)}"
            raise DataError(
                f"{owner} has {held}, which gives no covariance of {size}; "
                "add rows, or use gaussian_diagonal."
            )
        scarce = np.argwhere(count <= self.ddof * means)
        if len(scarce):
            first, second = (names[place] for place in scarce[0])
            held = f"{count[tuple(scarce[0])]:g}"
            what = (
                f"{held} values of column {first!r}"
                if first == second
                else f"{held} rows with both {first!r} and {second!r}"
            )
            raise DataError(
                f"{owner} has {what} and needs more than {self.ddof * means:g} with "
                f"ddof={self.ddof:g}; add rows, or put the columns in different blocks."
            )

    def _repair(
        self, covariance: FloatArray, mean: FloatArray, scale: FloatArray, owner: str
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
                f"{owner}: the covariance of {', '.join(self.features.names)} is singular "
                f"(rank {int((eigenvalues > precision).sum())} of {len(scale)}); drop a feature "
                "that the others determine, or set ridge=1e-6 or on_singular='ridge'."
            )
        return float(_REPAIRED_EIGENVALUE - _scaled_eigenvalues(covariance, scale)[0])

    def _noted(self, parameters: pa.Table, **notes: Any) -> pa.Table:
        return with_notes(
            parameters,
            estimator=self.name,
            features=self.features.names,
            options=self.options,
            **notes,
        )


def _inverse_wishart(prior: NormalPrior) -> NormalPrior:
    """The prior with its scatter as a matrix."""
    return replace(prior, scatter=np.diag(prior.scatter))


def _parameters(
    classes: pa.Array, count: FloatArray, mean: FloatArray, covariance: FloatArray
) -> pa.Table:
    """The table, from counts and means ``(k, d)`` and covariances ``(k, d, d)``."""
    return pa.table(
        {
            "class": classes,
            "count": count.max(axis=1),
            "mean": pa.array(mean.tolist(), pa.list_(pa.float64())),
            "covariance": pa.FixedShapeTensorArray.from_numpy_ndarray(covariance),
        }
    )


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
        traits=Traits(has_evidence=True),
    )
