"""Multivariate normals: a covariance per class, or one covariance for all classes.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.1.2, Algorithm 18.1 and eq. 18.3. With
one covariance it is linear discriminant analysis: Hastie, Tibshirani and Friedman, *The Elements of
Statistical Learning*, section 4.3. The log-likelihoods of two classes differ by a linear function
of the features, because the quadratic term is common to all classes.

The density is evaluated through the Cholesky factor of the covariance, Σ = L Lᵀ: the Mahalanobis
distance is |L⁻¹(x − μ)|² and ½ log |Σ| is the sum of log L_jj.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray, missing_patterns
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, StoreError
from probclass_core.estimation import formulas, moments, tidy
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.evidence import multivariate_normal_evidence
from probclass_core.estimation.families import scarce
from probclass_core.estimation.families.gaussian import normal
from probclass_core.estimation.families.gaussian.diagonal import (
    LOG_2PI,
    block_arithmetic,
    numeric_blocks,
)
from probclass_core.estimation.formulas import Case, Column, Condition, Expression, Formula, Named
from probclass_core.estimation.kinds.moments import JointMoments, single_moments, tensor_of
from probclass_core.estimation.marginals import Curve, derive
from probclass_core.estimation.options import NUMBERS, choice, number

OAS = "oas"

_REPAIRED_EIGENVALUE = 1e-9
"""Smallest eigenvalue of a repaired covariance, with features scaled to unit variance."""

_REORDERED = 1e-9
"""More than the relative difference of sums of the same weights in different orders."""

MOST_PATTERNS = 4
"""Up to this many columns a formula sums out nulls: each set of observed columns has a density."""

_MOST_WHITENING = 2**26
"""Bytes of the factors that are kept: each set of observed columns has one."""


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

    class Options(normal.NormalOptions):
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
        outliers: float = number(
            0.0,
            at_most=0.5,
            doc="Share ε of the rows that may be far from those of a class: no class is less "
            "probable than ε times a normal of all classes together, at least twice as wide as "
            "each. Far from all rows the classes are equally probable.",
        )
        conjugate_prior: normal.ConjugatePrior = normal.conjugate_prior(
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
        crossed = self.kind.arrays(statistics, classes)
        names, single, notes = normal.modeled_columns(self.features.names, single_moments(crossed))
        about = {"modeled": names} if len(names) < len(self.features) else {}
        if not names:
            count = np.zeros(len(classes))
            return self.annotate(
                pa.table({"class": classes, "count": count}), scarce=notes, **about
            )
        at = [self.features.names.index(name) for name in names]
        crossed = crossed.map(lambda values: values[:, at][:, :, at])
        scale = normal.feature_scale(names, single)
        count = self._by_covariance(crossed.count).sum(axis=1)
        scatter = self._by_covariance(crossed.scatter).sum(axis=1)
        mean = np.where(single.count > 0.0, single.mean, moments.pooled(single).mean)
        largest = np.abs(self._by_covariance(mean)).max(axis=1)
        means = len(classes) // len(count)
        least = self.options.ddof * means
        varies = np.einsum("sii->si", scatter).any(axis=1) | (count.max(axis=(1, 2)) > means)
        enough = (count > least) & varies[:, None, None]
        none: BoolArray = np.all(self._by_covariance(single.count == 0.0), axis=1)
        absent = none[:, :, None] | none[:, None, :]
        of_all = _covariance_of_all(crossed)
        own = scatter / np.where(enough, count - least, 1.0)
        covariance = np.where(enough, own, _covariance_within(crossed, of_all))
        covariance = np.where(absent, of_all, covariance)
        alone = ~np.einsum("sii->si", enough) & ~none
        apart = ~(enough | absent).all(axis=2) & ~alone
        notes += self._notes(names, classes, single.count == 0.0, alone, apart)
        ridges, intensities = [], []
        for index, owner in enumerate(self._owners(classes)):
            intensity = self.options.shrinkage or 0.0
            if isinstance(intensity, str):
                intensity = 1.0  # too few rows to tell a correlation
                if (enough & ~absent)[index].all():
                    intensity = oas(count[index], largest[index], scatter[index])
            covariance[index] = shrunk(covariance[index], intensity)
            ridge = self.options.ridge
            ridge += self._repair(covariance[index], largest[index], scale, owner)
            covariance[index] += np.diag(ridge * scale)
            ridges.append(ridge)
            intensities.append(intensity)
        chosen = {"ridge": ridges}
        if self.options.shrinkage is not None:
            chosen["shrinkage"] = intensities
        by_class = {name: np.repeat(values, means).tolist() for name, values in chosen.items()}
        covariances = np.repeat(covariance, means, axis=0)
        table = {
            "class": classes,
            "count": single.count.max(axis=1),
            "mean": pa.array(mean.tolist(), pa.list_(pa.float64())),
            "covariance": pa.FixedShapeTensorArray.from_numpy_ndarray(covariances),
        }
        return self.annotate(pa.table(table), scarce=notes, **by_class, **about)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        _, mean, covariance = self._read(parameters)
        tidy.check_parameters(parameters, classes, {}, {"count": tidy.COUNT})
        tidy.FINITE.check("mean", pa.array(mean.ravel()))
        tidy.FINITE.check("covariance", pa.array(covariance.ravel()))
        width = np.sqrt(np.maximum(np.einsum("kii->ki", covariance), 0.0))
        scale = width[:, :, None] * width[:, None, :]
        if (np.abs(covariance - covariance.transpose(0, 2, 1)) > tidy.ROUNDING * scale).any():
            raise StoreError("a covariance is not symmetric.")
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                np.linalg.cholesky(covariance / scale)
        except np.linalg.LinAlgError as error:
            raise StoreError("a covariance is not positive definite.") from error

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> FullLikelihood:
        rows = pa.array(arrays.label_codes(classes, parameters["class"].combine_chunks()))
        normals = self._read(parameters.take(rows))
        if self.options.outliers:
            return FlooredLikelihood(*normals, self.options.outliers)
        return FullLikelihood(*normals)

    def _read(self, parameters: pa.Table) -> tuple[list[str], FloatArray, FloatArray]:
        """Names, means and covariances of the ``d`` columns that have values.

        Raises:
            StoreError: if the table is not of the columns of the block.
        """
        names = tidy.notes_of(parameters).get("modeled", self.features.names)
        rows, size = len(parameters), len(names)
        if not size:
            return names, np.zeros((rows, 0)), np.zeros((rows, 0, 0))
        tidy.check_column(parameters, "mean", pa.list_(pa.float64()))
        mean, covariance = parameters["mean"].combine_chunks(), tensor_of(parameters, "covariance")
        sizes = {*mean.value_lengths().to_pylist()}
        is_of_block = set(names) <= set(self.features.names)
        if not is_of_block or covariance.shape != (rows, size, size) or sizes != {size}:
            raise StoreError(f"mean or covariance are not those of {size} columns.")
        return names, mean.flatten().to_numpy().reshape(rows, size), covariance

    def log_evidence(self, statistics: pa.Table) -> float:
        if not statistics.num_rows:
            return 0.0
        classes, names = arrays.sorted_classes(statistics["class"]), self.features.names
        crossed = self.kind.arrays(statistics, classes)
        single = single_moments(crossed)
        check_complete(self.name, names, classes, crossed.count)
        prior = self.options.conjugate_prior.complete(single, names)
        prior = replace(prior, scatter=np.diag(prior.scatter))
        rows = single.count.max(axis=1), single.mean, crossed.scatter
        return float(multivariate_normal_evidence(prior, *map(self._by_covariance, rows)).sum())

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
            *normal.notes_on_classes(names, classes, none, alone),
            *scarce.pooled("too few rows for covariances", names, classes, apart, instead),
        ]

    def _repair(
        self, covariance: FloatArray, mean: FloatArray, scale: FloatArray, owner: str
    ) -> float:
        """The ridge that makes a covariance positive definite; 0 if it is already."""
        covariance = covariance + np.diag(self.options.ridge * scale)
        variance = moments.without_rounding(np.diagonal(covariance), mean)
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
    one row is fine, because it needs no covariance of its own.
    The conjugate prior is an inverse Wishart for the one Σ, and given Σ a normal mean for each
    class; the degrees of freedom count the rows of all classes.

    Options, statistics and parameters are those of `GaussianFull`, with the covariance repeated for
    every class.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "gaussian_shared"

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
        notes = scarce.pooled("no value", names, classes, none, of_all)
        if alone.any() or apart.any():
            notes.append(
                f"the rows are too few for the shared covariance of {', '.join(names)}: it is that "
                "of all rows about their mean."
            )
        return notes


def _covariance_within(crossed: moments.Moments, otherwise: FloatArray) -> FloatArray:
    """Covariance within the classes that vary, ``(d, d)``, from cross moments ``(k, d, d)``.

    Where no class varies, it is ``otherwise``, ``(d, d)``.
    """
    varies = np.diagonal(crossed.scatter, axis1=1, axis2=2) > 0.0
    both = varies[:, :, None] & varies[:, None, :]
    count = np.where(both, crossed.count, 0.0).sum(axis=0)
    scatter = np.where(both, crossed.scatter, 0.0).sum(axis=0)
    divisor = np.where(count > 0.0, count, 1.0)
    within: FloatArray = np.where(count > 0.0, scatter / divisor, otherwise)
    return within


def _covariance_of_all(crossed: moments.Moments) -> FloatArray:
    """Covariance of all rows about their mean, ``(d, d)``, from cross moments ``(k, d, d)``."""
    total = moments.merge_moments(
        np.zeros(len(crossed.count), dtype=np.intp), 1, crossed, crossed=True
    )
    covariance: FloatArray = total.scatter[0] / np.where(total.count[0] > 0.0, total.count[0], 1.0)
    return covariance


def _scaled_eigenvalues(covariance: FloatArray, scale: FloatArray) -> FloatArray:
    """Eigenvalues, ascending, with each feature divided by the root of its scale."""
    width = np.sqrt(scale)
    return np.linalg.eigvalsh(covariance / np.outer(width, width))


def check_complete(
    estimator: str, features: Sequence[str], classes: pa.Array, count: FloatArray
) -> None:
    """Refuse rows with only some of their features: their integrals have no closed form.

    Args:
        estimator: name of the estimator, for messages.
        features: ``d`` names.
        classes: ``k`` labels.
        count: ``(k, d, d)`` weighted counts of rows that have both features.

    Raises:
        DataError: naming the columns, the class and the counts.
    """
    for label, pairs in zip(classes.to_pylist(), count, strict=True):
        most = pairs.max()
        if pairs.min() >= most * (1.0 - _REORDERED):
            continue
        # If a single column is the least complete one, it is so in all its pairs.
        other = np.where(np.eye(len(pairs), dtype=bool), np.inf, pairs)
        first, second = sorted(map(int, np.unravel_index(np.argmin(other), pairs.shape)))
        raise DataError(
            f"{estimator}: class {label!r} has {pairs[first, first]:g} values of column "
            f"{features[first]!r}, {pairs[second, second]:g} of {features[second]!r} and "
            f"{pairs[first, second]:g} rows with both; with nulls the evidence has no closed "
            "form: use gaussian_diagonal, or drop the rows with nulls."
        )


def oas(count: FloatArray, mean: FloatArray, scatter: FloatArray) -> float:
    """The intensity of oracle approximating shrinkage of one covariance, from 0 to 1.

    Chen, Wiesel, Eldar and Hero, "Shrinkage algorithms for MMSE covariance estimation" (2010), eq.
    23 without its 2 / d, as in scikit-learn, on features that are scaled to unit variance: units do
    not matter. With r the correlations, the intensity is the share of chance in their size, where
    the variance of r_ij is that of rows from a normal:

        Σ_ij (r_ij² + 1) / (n_ij + 1) / Σ_i≠j r_ij²,  at most 1,

    with n_ij the count of the rows that have both features.

    Args:
        count: Σ w, ``(d, d)``, positive.
        mean: ``(d,)``, the largest of the classes in absolute value.
        scatter: Σ w u v of the deviations u and v of two features, ``(d, d)``.
    """
    variance = moments.without_rounding(np.diagonal(scatter) / np.diagonal(count), mean)
    varies = np.flatnonzero(variance > 0.0)  # others have no correlations
    pairs = np.ix_(varies, varies)
    count, width = count[pairs], np.sqrt(variance[varies])
    correlation = scatter[pairs] / count / np.outer(width, width)
    np.fill_diagonal(correlation, 1.0)
    chance = ((correlation**2 + 1.0) / (count + 1.0)).sum()
    distance = ((correlation - np.eye(len(varies))) ** 2).sum()
    return float(min(chance / distance, 1.0)) if distance > 0.0 else 0.0


def shrunk(covariance: FloatArray, intensity: float) -> FloatArray:
    """(1 − intensity) Σ + intensity · diag(Σ), ``(d, d)``."""
    result: FloatArray = covariance * (1.0 - intensity)
    np.fill_diagonal(result, np.diagonal(covariance))
    return result


class FullLikelihood:
    """log f(x | c) of a multivariate normal; if features are null, of the others.

    Args:
        features: names of the columns, ``d`` of them.
        mean: μ, ``(k, d)``.
        covariance: Σ, ``(k, d, d)``, positive definite.
    """

    normalized = True

    def __init__(self, features: Sequence[str], mean: FloatArray, covariance: FloatArray) -> None:
        self.features = list(features)
        self.mean = mean
        self.covariance = covariance
        kept = 1 + _MOST_WHITENING // max(covariance.nbytes, 1)
        self._whitened = functools.lru_cache(kept)(self._whitening)

    @block_arithmetic()
    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.empty((len(self.mean), len(rows)))
        every = np.arange(len(self.features))
        gaps, incomplete = [], []
        for part, block in numeric_blocks(rows, self.features):
            missing = np.isnan(block)
            if missing.any():
                gap = missing.any(axis=0)
                gaps.append(part.start + np.flatnonzero(gap))
                incomplete.append(block[:, gap])
                result[:, part][:, ~gap] = self._density(block[:, ~gap], every)
            else:
                result[:, part] = self._density(block, every)
        if gaps:  # all at once: a pattern costs as much as many rows
            places, values = np.concatenate(gaps), np.concatenate(incomplete, axis=1)
            for mask, columns in missing_patterns(values):
                observed = np.flatnonzero(mask)
                density = self._density(values[:, columns][observed], observed)
                result[:, places[columns]] = density
        return result.T

    def marginal(self, column: str) -> Curve | None:
        if column not in self.features:
            return None
        at, schema = self.features.index(column), [(name, pa.float64()) for name in self.features]
        mean, variance = self.mean[:, at], self.covariance[:, at, at]
        return derive(self, column, pa.schema(schema), mean=mean, variance=variance)

    def formula(self) -> Formula:
        columns = [Column(name) for name in self.features]
        places = range(len(columns))
        if not columns:
            return Formula([])
        of_all = self._formula_of(np.array(places), columns)
        if len(columns) > MOST_PATTERNS:
            return Formula([formulas.if_known(columns, of_all)], complete=self.features)
        branches: list[tuple[Condition, Expression]] = []
        for size in places:
            for observed in itertools.combinations(places, size):
                nulls = [columns[at].is_null for at in places if at not in observed]
                condition = functools.reduce(operator.and_, nulls)
                density = self._formula_of(np.array(observed, dtype=np.intp), columns)
                branches.append((condition, density))
        return Formula([Case(branches, of_all)])

    def _formula_of(self, observed: IntArray, columns: Sequence[Column]) -> Expression:
        """log f of some columns that are not null."""
        if not len(observed):
            return formulas.as_expression(0.0)
        whiten, log_peak = self._whitened(tuple(observed.tolist()))
        width = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)[:, observed])
        factor = whiten * width[:, None, :]  # of columns in units of their width
        units: list[Expression] = [
            Named(formulas.Distance(columns[at], self.mean[:, at], 1.0 / width[:, place]))
            for place, at in enumerate(observed.tolist())
        ]
        # Products of larger distances would exceed float64, and their differences be NaN.
        far = _beyond(units, 1e300 / (np.abs(factor).max() * len(units)))
        return Case([(far, formulas.IMPOSSIBLE)], log_peak - 0.5 * _squared_length(factor, units))

    def _density(self, values: FloatArray, observed: IntArray) -> FloatArray:
        """Log densities ``(k, m')`` of the observed features ``(d', m')`` alone."""
        whiten, log_peak = self._whitened(tuple(observed.tolist()))
        drop = np.empty((len(self.mean), values.shape[1]))
        deviation, distance = np.empty((2, *values.shape))
        for place, mean in enumerate(self.mean[:, observed]):
            np.subtract(values, mean[:, None], out=deviation)
            np.matmul(whiten[place], deviation, out=distance)
            drop[place] = 0.5 * np.einsum("dn,dn->n", distance, distance)
        # A distance beyond float64, either ∞ or ∞ − ∞, means a likelihood of 0.
        drop[np.isnan(drop)] = np.inf
        return log_peak[:, None] - drop

    def _whitening(self, observed: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """L⁻¹ ``(k, d', d')`` and log density at the mean ``(k,)`` of the observed features."""
        # Scaling to unit variance first keeps the factor accurate for unlike units.
        at = np.array(observed, dtype=np.intp)
        covariance = self.covariance[:, at[:, None], at]
        width = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        factor = np.linalg.cholesky(covariance / (width[:, :, None] * width[:, None, :]))
        whiten = np.linalg.inv(factor) / width[:, None, :]
        log_width = np.log(np.diagonal(factor, axis1=1, axis2=2)) + np.log(width)
        return whiten, -0.5 * len(observed) * LOG_2PI - log_width.sum(axis=1)


class FlooredLikelihood(FullLikelihood):
    """max( N(x; μ_c, Σ_c), ε N(x; μ, Σ) ): a share ε of the rows may be far from those of a class.

    μ is the mean of the μ_c, and Σ = 4 Σ_c [Σ_c + (μ_c − μ)(μ_c − μ)ᵀ] at least twice as wide as
    each Σ_c in every direction: far from all rows the classes are equally probable, where normals
    alone would differ without bound.

    Args:
        features: names of the columns, ``d`` of them.
        mean: μ_c, ``(k, d)``.
        covariance: Σ_c, ``(k, d, d)``, positive definite.
        share: ε, above 0.
    """

    normalized = False  # its integral is between 1 and 1 + ε

    def __init__(
        self, features: Sequence[str], mean: FloatArray, covariance: FloatArray, share: float
    ) -> None:
        super().__init__(features, mean, covariance)
        self.log_share = np.log(share)
        self.wide = self._wide(1)

    def _wide(self, copies: int) -> FullLikelihood:
        """The normal of all classes, as that of some equal ones."""
        center = self.mean.mean(axis=0)
        between = self.mean - center
        covariance = 4.0 * (self.covariance.sum(axis=0) + between.T @ between)  # twice as wide
        of_all = np.tile(center, (copies, 1)), np.tile(covariance, (copies, 1, 1))
        return FullLikelihood(self.features, *of_all)

    def _formula_of(self, observed: IntArray, columns: Sequence[Column]) -> Expression:
        own = Named(super()._formula_of(observed, columns))
        wide = self._wide(len(self.mean))._formula_of(observed, columns)
        floor = Named(float(self.log_share) + wide)
        return Case([(own < floor, floor)], own)

    def _density(self, values: FloatArray, observed: IntArray) -> FloatArray:
        floor = self.log_share + self.wide._density(values, observed)
        density: FloatArray = np.maximum(super()._density(values, observed), floor)
        return density


def _squared_length(factor: FloatArray, distances: Sequence[Expression]) -> Expression:
    """The squared length of a product of lower triangular ``(k, d, d)`` and ``d`` distances."""
    factor = np.where(np.abs(factor) < 1e-150, 0.0, factor)
    products = (
        functools.reduce(
            operator.add,
            [factor[:, row, column] * distances[column] for column in range(row + 1)],
        )
        for row in range(len(distances))
    )
    return functools.reduce(operator.add, map(formulas.square, products))


def _beyond(distances: Sequence[Expression], limit: float) -> Condition:
    """Whether one of the distances is larger."""
    sides = [(distance > limit) | (distance < -limit) for distance in distances]
    return functools.reduce(operator.or_, sides)
