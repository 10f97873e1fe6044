"""Normal densities: independent features, a covariance per class, or one covariance for all.

Zaki and Meira, *Data Mining and Machine Learning*. Independent features (ch. 18.2, Algorithm 18.2):
f(x | c) is the product over features of N(x_j; μ_cj, σ²_cj), with 2d parameters per class.

A multivariate normal (ch. 18.1.2, Algorithm 18.1 and eq. 18.3) is evaluated through the Cholesky
factor of the covariance, Σ = L Lᵀ: the Mahalanobis distance is |L⁻¹(x − μ)|² and ½ log |Σ| is the
sum of log L_jj. With one covariance it is linear discriminant analysis: Hastie, Tibshirani and
Friedman, *The Elements of Statistical Learning*, section 4.3. The log-likelihoods of two classes
differ by a linear function of the features, because the quadratic term is common to all classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray, label_codes, sorted_classes
from probclass_core.errors import DataError, StoreError
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.evidence import (
    NormalPrior,
    multivariate_normal_evidence,
    normal_evidence,
)
from probclass_core.estimation.families.gaussian.checks import (
    check_complete,
    feature_scale,
    modeled_columns,
    notes_on_classes,
)
from probclass_core.estimation.families.gaussian.densities import (
    DiagonalLikelihood,
    FullLikelihood,
    SharedLikelihood,
)
from probclass_core.estimation.families.gaussian.options import (
    ConjugatePrior,
    NormalOptions,
    conjugate_prior,
)
from probclass_core.estimation.families.gaussian.shrinkage import OAS, oas, shrunk
from probclass_core.estimation.families.scarce import NoLikelihood
from probclass_core.estimation.families.scarce import pooled as pooled_estimates
from probclass_core.estimation.kinds.joint_moments import JointMoments, single_moments, tensor_of
from probclass_core.estimation.kinds.moments import TermMoments
from probclass_core.estimation.moments import (
    Moments,
    merge_moments,
    pooled,
    pooled_variance,
    variance_within,
    without_rounding,
)
from probclass_core.estimation.options import NUMBERS, choice, number
from probclass_core.estimation.parameters import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    ROUNDING,
    check_column,
    check_parameters,
)
from probclass_core.estimation.tidy import dense_arrays, notes_of, tidy_table

_FRACTION_WITHIN = 0.005
"""Default floor of a variance, as a fraction of the feature's variance within the classes."""

_LEAST_FRACTION = 1e-9
"""Least default floor, as a fraction of the feature's variance over all classes."""

_REPAIRED_EIGENVALUE = 1e-9
"""Smallest eigenvalue of a repaired covariance, with features scaled to unit variance."""


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
            mean = np.where(none, pooled(moments).mean, mean)
            notes += notes_on_classes(names, classes, none, alone)
        fields = {"count": moments.count, "mean": mean, "variance": np.maximum(variance, floor)}
        parameters = tidy_table(classes, {"feature": pa.array(names, pa.string())}, fields)
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


class GaussianFull(Estimator):
    """A multivariate normal per class.

    With nulls, each mean uses the rows that have the feature, each covariance the rows that have
    both features; without nulls this is the textbook's estimate.

    Statistics: class, count, mean, scatter, each a ``(d, d)`` tensor over pairs of features.
    Parameters: class, count, mean (list), covariance (``(d, d)`` tensor); the features, and the
    ridge and shrinkage of each class, are in the notes.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "gaussian_full"
    models = NUMBERS
    density: ClassVar[type[FullLikelihood]] = FullLikelihood

    class Options(NormalOptions):
        """Options of `GaussianFull` and `GaussianShared`."""

        ridge: float = number(
            0.0,
            doc="Added to every covariance, as a fraction of each feature's pooled variance.",
        )
        shrinkage: float | str | None = number(
            None,
            [OAS],
            at_most=1.0,
            doc="Share by which a covariance is moved towards its diagonal, before the ridge: a "
            "number from 0 to 1, or 'oas' for the share that the rows suggest.",
        )
        on_singular: str = choice(
            "ridge",
            ("ridge", "error"),
            doc="If a covariance is not positive definite to working precision, 'ridge' adds the "
            "smallest ridge that raises its least eigenvalue (features scaled to unit pooled "
            "variance) to 1e-9, 'error' refuses.",
        )
        conjugate_prior: ConjugatePrior = conjugate_prior(
            joint=True,
            doc="Normal–inverse-Wishart prior, for the evidence, which needs rows without nulls: "
            "count κ₀ (default 1), degrees_of_freedom ν₀ (d + 2), mean and variance, each a number "
            "or one per column. Missing values are those of the rows, classes pooled. The prior "
            "mean of Σ is the diagonal matrix of variance.",
        )

    options: Options

    @property
    def kind(self) -> JointMoments:
        return JointMoments(self.features.names)

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        moments = self.kind.arrays(statistics, classes)
        names, single, notes = modeled_columns(self.features.names, single_moments(moments))
        if len(names) < len(self.features):
            positions = [self.features.names.index(name) for name in names]
            moments = moments.map(lambda values: _of(values, positions))
        about = {"modeled": names} if len(names) < len(self.features) else {}
        if not names:
            nothing = np.empty((len(classes), 0))
            unknown = self._parameters(classes, names, nothing, nothing, nothing[:, :, None])
            return self.annotate(unknown, scarce=notes, **about)
        scale = feature_scale(names, single)
        count = self._by_covariance(moments.count).sum(axis=1)
        scatter = self._by_covariance(moments.scatter).sum(axis=1)
        mean = np.where(single.count > 0.0, single.mean, pooled(single).mean)
        largest = np.abs(self._by_covariance(mean)).max(axis=1)
        means = len(classes) // len(count)
        intensity = self.options.shrinkage if isinstance(self.options.shrinkage, float) else 0.0
        of_all = _covariance_of_all(moments)
        instead = _covariance_within(moments, of_all)
        none = np.asarray(self._by_covariance(single.count == 0.0).all(axis=1))
        alone, apart = np.zeros((2, len(count), len(names)), dtype=bool)
        covariances, ridges, intensities = [], [], []
        for index, owner in enumerate(self._owners(classes)):
            least = self.options.ddof * means
            enough = count[index] > least
            if count[index].max(initial=0.0) <= means and not np.diagonal(scatter[index]).any():
                enough[:] = False
            divisor = np.where(enough, count[index] - least, 1.0)
            covariance = np.where(enough, scatter[index] / divisor, instead)
            absent = none[index][:, None] | none[index]
            covariance = np.where(absent, of_all, covariance)
            alone[index] = ~np.diagonal(enough) & ~none[index]
            apart[index] = ~(enough | absent).all(axis=1) & ~alone[index]
            if self.options.shrinkage == OAS:
                intensity = 1.0  # too few rows to tell a correlation
                if (enough & ~absent).all():
                    intensity = oas(count[index], largest[index], scatter[index])
            covariance = shrunk(covariance, intensity)
            intensities.append(intensity)
            ridge = self.options.ridge + self._repair(covariance, largest[index], scale, owner)
            covariances.append(covariance + np.diag(ridge * scale))
            ridges.append(ridge)
        notes += self._notes(names, classes, single.count == 0.0, alone, apart)
        covariance = np.repeat(covariances, means, axis=0)
        parameters = self._parameters(classes, names, single.count, mean, covariance)
        chosen = {"ridge": ridges}
        if self.options.shrinkage is not None:
            chosen["shrinkage"] = intensities
        by_class = {name: np.repeat(values, means).tolist() for name, values in chosen.items()}
        return self.annotate(parameters, scarce=notes, **by_class, **about)

    def _parameters(
        self,
        classes: pa.Array,
        names: Sequence[str],
        count: FloatArray,
        mean: FloatArray,
        covariance: FloatArray,
    ) -> pa.Table:
        """The parameters table, with NaN for columns that are not modeled.

        Args:
            classes: ``k`` labels.
            names: names of the ``d`` columns that are modeled.
            count: ``(k, d)``.
            mean: ``(k, d)``.
            covariance: ``(k, d, d)``.
        """
        size, positions = len(self.features), [self.features.names.index(name) for name in names]
        means = np.full((len(classes), size), np.nan)
        means[:, positions] = mean
        covariances = np.full((len(classes), size, size), np.nan)
        covariances[np.ix_(np.arange(len(classes)), positions, positions)] = covariance
        return pa.table(
            {
                "class": classes,
                "count": count.max(axis=1, initial=0.0),
                "mean": pa.array(means.tolist(), pa.list_(pa.float64())),
                "covariance": pa.FixedShapeTensorArray.from_numpy_ndarray(covariances),
            }
        )

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        _, mean, covariance = self._modeled(parameters)
        check_parameters(parameters, classes, {}, {"count": COUNT})
        FINITE.check("mean", pa.array(mean.ravel()))
        FINITE.check("covariance", pa.array(covariance.ravel()))
        width = np.sqrt(np.maximum(np.einsum("kii->ki", covariance), 0.0))
        scale = width[:, :, None] * width[:, None, :]
        if (np.abs(covariance - covariance.transpose(0, 2, 1)) > ROUNDING * scale).any():
            raise StoreError("a covariance is not symmetric.")
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                np.linalg.cholesky(covariance / scale)
        except np.linalg.LinAlgError as error:
            raise StoreError("a covariance is not positive definite.") from error

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> FullLikelihood | NoLikelihood:
        rows = pa.array(label_codes(classes, parameters["class"].combine_chunks()))
        ordered = parameters.take(rows)
        features, mean, covariance = self._modeled(ordered)
        if not features:
            return NoLikelihood(len(classes))
        return self.density(features, mean, covariance)

    def _modeled(self, parameters: pa.Table) -> tuple[list[str], FloatArray, FloatArray]:
        """Names, means and covariances of the ``d`` columns that have values.

        Raises:
            StoreError: if the table is not of the columns of the block.
        """
        names, size = self.features.names, len(self.features)
        modeled = notes_of(parameters).get("modeled", names)
        check_column(parameters, "mean", pa.list_(pa.float64()))
        mean, covariance = parameters["mean"].combine_chunks(), tensor_of(parameters, "covariance")
        shape = len(parameters), size, size
        if covariance.shape != shape or set(mean.value_lengths().to_pylist()) != {size}:
            raise StoreError(f"mean or covariance are not those of {size} columns.")
        at = [names.index(name) for name in modeled]
        return modeled, mean.flatten().to_numpy().reshape(-1, size)[:, at], _of(covariance, at)

    def log_evidence(self, statistics: pa.Table) -> float:
        if not statistics.num_rows:
            return 0.0
        classes = sorted_classes(statistics["class"])
        moments = self.kind.arrays(statistics, classes)
        single = single_moments(moments)
        check_complete(self.name, self.features.names, classes, moments.count)
        names = self.features.names
        prior = _inverse_wishart(self.options.conjugate_prior.complete(single, names))
        return float(multivariate_normal_evidence(prior, *self._groups(moments, single)).sum())

    def _by_covariance(self, values: FloatArray) -> FloatArray:
        """Values by class as ``(s, g, …)``: s covariance matrices, each shared by g classes."""
        return values[:, None]

    def _owners(self, classes: pa.Array) -> list[str]:
        """What each of the s covariance matrices belongs to, for messages."""
        return [f"class {label!r}" for label in classes.to_pylist()]

    def _notes(
        self,
        names: Sequence[str],
        classes: pa.Array,
        none: BoolArray,
        alone: BoolArray,
        apart: BoolArray,
    ) -> list[str]:
        """Sentences about classes without values, and with too few for a covariance.

        Args:
            names: names of the ``d`` columns.
            classes: ``k`` labels.
            none: class and column without a value, ``(k, d)``.
            alone: covariance and column with too few rows for a variance, ``(s, d)``.
            apart: covariance and column with too few rows that have another column too, ``(s, d)``.
        """
        instead = "the covariances there are pooled over the classes"
        return [
            *notes_on_classes(names, classes, none, alone),
            *pooled_estimates("too few rows for covariances", names, classes, apart, instead),
        ]

    def _groups(
        self, moments: Moments, single: Moments
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Complete rows as `evidence` expects them: count ``(s, g)``, mean and scatter."""
        values = single.count.max(axis=1), single.mean, moments.scatter
        count, mean, scatter = map(self._by_covariance, values)
        return count, mean, scatter

    def _repair(
        self, covariance: FloatArray, mean: FloatArray, scale: FloatArray, owner: str
    ) -> float:
        """The ridge that makes a covariance positive definite; 0 if it is already."""
        covariance = covariance + np.diag(self.options.ridge * scale)
        variance = without_rounding(np.diagonal(covariance), mean)
        # Rank is a matter of correlations: a class may be narrow compared with the distance to
        # the others.
        eigenvalues = _scaled_eigenvalues(covariance, np.where(variance > 0.0, variance, scale))
        precision = len(scale) * np.finfo(np.float64).eps * max(eigenvalues[-1], 1e-300)
        if eigenvalues[0] > precision:
            return 0.0
        if self.options.on_singular == "error":
            raise DataError(
                f"{owner}: the covariance of {', '.join(self.features.names)} is singular "
                f"(rank {int((eigenvalues > precision).sum())} of {len(scale)}); drop a feature "
                "that the others determine, or set ridge=1e-6 or on_singular='ridge'."
            )
        return float(_REPAIRED_EIGENVALUE - _scaled_eigenvalues(covariance, scale)[0])


class GaussianShared(GaussianFull):
    """A multivariate normal per class, with one covariance pooled within the classes.

    Σ = Σ_c scatter_c / (Σ_c count_c − ddof · k), over the rows that have both features. A class of
    one row is fine, because it needs no covariance of its own. The likelihood has a linear form.
    The conjugate prior is an inverse Wishart for the one Σ, and given Σ a normal mean for each
    class; the degrees of freedom count the rows of all classes.

    Options, statistics and parameters are those of `GaussianFull`, with the covariance repeated for
    every class.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "gaussian_shared"
    density: ClassVar[type[FullLikelihood]] = SharedLikelihood

    def _by_covariance(self, values: FloatArray) -> FloatArray:
        return values[None]

    def _owners(self, classes: pa.Array) -> list[str]:
        return ["the pooled sample"]

    def _notes(
        self,
        names: Sequence[str],
        classes: pa.Array,
        none: BoolArray,
        alone: BoolArray,
        apart: BoolArray,
    ) -> list[str]:
        of_all = "the mean there is that of all classes together"
        notes = pooled_estimates("no value", names, classes, none, of_all)
        if alone.any() or apart.any():
            notes.append(
                f"the rows are too few for the shared covariance of {', '.join(names)}: it is that "
                "of all rows about their mean."
            )
        return notes


def _inverse_wishart(prior: NormalPrior) -> NormalPrior:
    """The prior with its scatter as a matrix."""
    return replace(prior, scatter=np.diag(prior.scatter))


def _covariance_within(moments: Moments, otherwise: FloatArray) -> FloatArray:
    """Covariance within the classes that vary, ``(d, d)``, from cross moments ``(k, d, d)``.

    Where no class varies, it is ``otherwise``, ``(d, d)``.
    """
    varies = np.diagonal(moments.scatter, axis1=1, axis2=2) > 0.0
    both = varies[:, :, None] & varies[:, None, :]
    count = np.where(both, moments.count, 0.0).sum(axis=0)
    scatter = np.where(both, moments.scatter, 0.0).sum(axis=0)
    divisor = np.where(count > 0.0, count, 1.0)
    within: FloatArray = np.where(count > 0.0, scatter / divisor, otherwise)
    return within


def _covariance_of_all(moments: Moments) -> FloatArray:
    """Covariance of all rows about their mean, ``(d, d)``, from cross moments ``(k, d, d)``."""
    total = merge_moments(np.zeros(len(moments.count), dtype=np.intp), 1, moments, crossed=True)
    covariance: FloatArray = total.scatter[0] / np.where(total.count[0] > 0.0, total.count[0], 1.0)
    return covariance


def _of(values: FloatArray, positions: Sequence[int]) -> FloatArray:
    """The cross moments of some columns, out of ``(…, d, d)``."""
    columns: FloatArray = values[..., positions, :][..., positions]
    return columns


def _scaled_eigenvalues(covariance: FloatArray, scale: FloatArray) -> FloatArray:
    """Eigenvalues, ascending, with each feature divided by the root of its scale."""
    width = np.sqrt(scale)
    return np.linalg.eigvalsh(covariance / np.outer(width, width))
