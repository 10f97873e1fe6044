"""The densities of the normal families, compiled for many batches: normal, and Student's t.

A normal density with estimated parameters is the plug-in rule of the textbook; with the parameters
integrated out under a conjugate prior it becomes Student's t, whose tails are the heavier the fewer
rows there were (Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007, sections
5 and 9). Both are evaluated from the same standardized distances.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from probclass_core.arrow.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    missing_patterns,
)
from probclass_core.arrow.compiled import kernels
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.contract import POINT_MASS_WIDTH
from probclass_core.estimation.formulas import (
    IMPOSSIBLE,
    Case,
    Column,
    Condition,
    Distance,
    Expression,
    Formula,
    Named,
    Square,
    as_expression,
    if_known,
    ln,
    log_one_plus,
    log_one_plus_square,
    positive,
    square,
    within,
)
from probclass_core.estimation.marginals import Curve, derive

_LOG_2PI = math.log(2.0 * math.pi)

_MOST_PATTERNS = 4
"""Up to this many columns a formula sums out nulls: each set of observed columns has a density."""

_MOST_WHITENING = 2**26
"""Bytes of the factors that are kept: each set of observed columns has one."""

_FAR = 1e8
"""For larger r, 1 + r² equals r² in float64."""

_BLOCK_ROWS = 2304
"""Rows of a block: two copies of a block with 20 features fit the processor's cache."""

_BUFFER = 1024
"""Size of NumPy's buffer for arithmetic on blocks, in numbers. In a broadcast, NumPy copies rows of
up to half of the buffer (8192 by default) into it, which takes as long as the arithmetic itself."""


@contextmanager
def _block_arithmetic() -> Iterator[None]:
    """Speed up arithmetic on blocks; overflow gives ∞ or NaN, which the caller must check."""
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.setbufsize(_BUFFER)
        try:
            yield
        finally:
            np.setbufsize(before)


class GaussianDiagonalLikelihood:
    """log f(x | c) = −½ Σ_j [log 2πσ²_cj + ((x_j − μ_cj) / σ_cj)²], over the observed features.

    Args:
        features: names of the columns, ``d`` of them.
        mean: ``(k, d)``.
        variance: ``(k, d)``; 0 is a point mass: −inf off its point.
    """

    normalized = True

    def __init__(self, features: Sequence[str], mean: FloatArray, variance: FloatArray) -> None:
        self.features = list(features)
        self.mean = np.ascontiguousarray(mean)
        self.variance = variance
        point_mass: BoolArray = variance == 0.0
        self.point_masses = [np.flatnonzero(row) for row in point_mass]
        width = np.sqrt(np.where(point_mass, 1.0, variance))
        self.precision = np.ascontiguousarray(np.where(point_mass, 0.0, 1.0 / width))
        self.log_peak = -0.5 * _LOG_2PI - np.log(np.where(point_mass, POINT_MASS_WIDTH, width))

    # A square beyond float64 means a likelihood of 0, and so does ∞ · 0 away from a point mass.
    @_block_arithmetic()
    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.empty((len(self.mean), len(rows)))
        for part, block in _numeric_blocks(rows, self.features):
            self._fill(block, result[:, part])
        return result.T

    def marginal(self, column: str) -> Curve | None:
        if column not in self.features:
            return None
        at = self.features.index(column)
        mean, variance = self._moments(at)
        alone = self._of([column], np.array([at]))
        return derive(alone, column, mean=mean, variance=variance)

    def _moments(self, place: int) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of one column, ``(k,)``."""
        return self.mean[:, place], self.variance[:, place]

    def _of(self, features: Sequence[str], places: IntArray) -> GaussianDiagonalLikelihood:
        """The likelihood of some of the columns."""
        return GaussianDiagonalLikelihood(features, self.mean[:, places], self.variance[:, places])

    def formula(self) -> Formula:
        return Formula([self._factor(place, name) for place, name in enumerate(self.features)])

    def _factor(self, place: int, name: str) -> Expression:
        """log f(x_j | c) of one column, 0 if it is null."""
        column, mean, precision = Column(name), self.mean[:, place], self.precision[:, place]
        is_mass = precision == 0.0
        precision = np.where(is_mass, 1.0, precision)
        density = self._density(column, place, mean, precision)
        if is_mass.any():
            at_mass = as_expression(is_mass).equals(1.0)
            point = as_expression(self.log_peak[:, place])
            off_point = at_mass & column.differs(mean)
            density = Case([(off_point, IMPOSSIBLE), (at_mass, point)], density)
        return if_known([column], density)

    def _density(
        self, column: Column, place: int, mean: FloatArray, precision: FloatArray
    ) -> Expression:
        """log f(x_j | c) of a column that is not null and not a point mass."""
        half = Square(Distance(column, mean, precision * math.sqrt(0.5)))
        return self.log_peak[:, place] - half

    def _fill(self, block: FloatArray, result: FloatArray) -> None:
        """Write the log-likelihoods ``(k, m)`` of features ``(d, m)`` into ``result``."""
        missing = np.isnan(block)
        if missing.any():
            result[:] = self.log_peak @ (~missing).astype(np.float64)
        else:
            result[:] = self.log_peak.sum(axis=1)[:, None]
        self._subtract_drops(block, missing, result)
        for masses, mean, of_class in zip(self.point_masses, self.mean, result, strict=True):
            if len(masses):
                off = (block[masses] != mean[masses, None]) & ~missing[masses]
                of_class[off.any(axis=0)] = -np.inf

    def _subtract_drops(self, block: FloatArray, missing: BoolArray, result: FloatArray) -> None:
        """Subtract from each ``(k, m)`` the drop of the log density below its peak."""
        if (compiled := kernels(block.shape[1])) is not None:
            compiled.subtract_half_squares(block, self.mean, self.precision, result)
            return
        for of_class, deviation in zip(result, self._deviations(block, missing), strict=True):
            of_class -= 0.5 * np.einsum("dn,dn->n", deviation, deviation)

    def _deviations(self, block: FloatArray, missing: BoolArray) -> Iterator[FloatArray]:
        """Features standardized by each class, 0 for a null: ``(d, m)``, in the same memory."""
        deviation, any_missing = np.empty_like(block), bool(missing.any())
        for mean, precision in zip(self.mean[..., None], self.precision[..., None], strict=True):
            np.subtract(block, mean, out=deviation)
            deviation *= precision
            if any_missing:
                deviation[missing] = 0.0
            yield deviation


class StudentDiagonalLikelihood(GaussianDiagonalLikelihood):
    """The product of Student's t densities over the observed features.

    Args:
        features: names of the columns, ``d`` of them.
        mean: locations, ``(k, d)``.
        variance: squared scales, ``(k, d)``, positive.
        degrees_of_freedom: ``(k, d)``.
    """

    def __init__(
        self,
        features: Sequence[str],
        mean: FloatArray,
        variance: FloatArray,
        degrees_of_freedom: FloatArray,
    ) -> None:
        super().__init__(features, mean, variance)
        self.degrees_of_freedom = degrees_of_freedom
        self.log_peak += 0.5 * _LOG_2PI + _log_student_peak(degrees_of_freedom, 1)

    def _moments(self, place: int) -> tuple[FloatArray, FloatArray]:
        freedom = self.degrees_of_freedom[:, place]
        return self.mean[:, place], _student_variance(self.variance[:, place], freedom)

    def _of(self, features: Sequence[str], places: IntArray) -> StudentDiagonalLikelihood:
        mean, variance = self.mean[:, places], self.variance[:, places]
        freedom = self.degrees_of_freedom[:, places]
        return StudentDiagonalLikelihood(features, mean, variance, freedom)

    def _fill(self, block: FloatArray, result: FloatArray) -> None:
        super()._fill(block, result)
        far = np.isneginf(result).any(axis=0)  # a distance is beyond float64, its logarithm is not
        if far.any():
            result[:, far] = self._far(block[:, far])

    def _far(self, block: FloatArray) -> FloatArray:
        """The log-likelihoods ``(k, m)`` of features ``(d, m)``, from logarithms of distances."""
        log_width = np.log(0.5 * np.sqrt(self.degrees_of_freedom) / self.precision)
        with np.errstate(divide="ignore"):
            log_half = np.log(np.abs(0.5 * block - 0.5 * self.mean[:, :, None]))
        kernel = np.logaddexp(0.0, 2.0 * (log_half - log_width[:, :, None]))
        drop = 0.5 * (self.degrees_of_freedom + 1.0)[:, :, None] * kernel
        total: FloatArray = np.nansum(self.log_peak[:, :, None] - drop, axis=1)
        return total

    def _subtract_drops(self, block: FloatArray, missing: BoolArray, result: FloatArray) -> None:
        deviations = self._deviations(block, missing)
        by_class = zip(result, self.degrees_of_freedom, deviations, strict=True)
        for of_class, freedom, deviation in by_class:
            kernel = _log_one_plus_square(np.abs(deviation) / np.sqrt(freedom)[:, None])
            of_class -= 0.5 * (freedom + 1.0) @ kernel

    def _density(
        self, column: Column, place: int, mean: FloatArray, precision: FloatArray
    ) -> Expression:
        freedom = self.degrees_of_freedom[:, place]
        kernel = log_one_plus_square(column, mean, np.sqrt(freedom) / precision)
        return self.log_peak[:, place] - 0.5 * (freedom + 1.0) * kernel


class GaussianFullLikelihood:
    """log N(x; μ_c, Σ_c); if features are null, the marginal density of the others.

    Args:
        features: names of the columns, ``d`` of them.
        mean: ``(k, d)``.
        covariance: ``(k, d, d)``, positive definite.
    """

    normalized = True

    def __init__(self, features: Sequence[str], mean: FloatArray, covariance: FloatArray) -> None:
        self.features = list(features)
        self.mean = mean
        self.covariance = covariance
        self._whitening: dict[bytes, tuple[FloatArray, FloatArray]] = {}

    @_block_arithmetic()
    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.empty((len(self.mean), len(rows)))
        every = np.arange(len(self.features))
        gaps, incomplete = [], []
        for part, block in _numeric_blocks(rows, self.features):
            missing = np.isnan(block)
            if missing.any():
                gap = missing.any(axis=0)
                gaps.append(part.start + np.flatnonzero(gap))
                incomplete.append(block[:, gap])
                result[:, part][:, ~gap] = self._marginal(block[:, ~gap], every)
            else:
                result[:, part] = self._marginal(block, every)
        if gaps:  # all at once: a pattern costs as much as many rows
            places, values = np.concatenate(gaps), np.concatenate(incomplete, axis=1)
            for mask, columns in missing_patterns(values):
                observed = np.flatnonzero(mask)
                density = self._marginal(values[:, columns][observed], observed)
                result[:, places[columns]] = density
        return result.T

    def marginal(self, column: str) -> Curve | None:
        if column not in self.features:
            return None
        at = self.features.index(column)
        own = self.covariance[:, [at]][..., [at]]
        alone = self._of([column], self.mean[:, [at]], own)
        curve = derive(alone, column, mean=self.mean[:, at])
        if curve is None:
            return None
        deviation = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        correlation = self.covariance[:, at] / (deviation[:, [at]] * deviation)
        others = {
            name: correlation[:, other]
            for other, name in enumerate(self.features)
            if name != column
        }
        return replace(curve, variance=self._variance(own[:, 0, 0]), correlation=others)

    def _variance(self, scale: FloatArray) -> FloatArray:
        """Variance of a column from its entry of Σ, ``(k,)``."""
        return scale

    def _of(
        self, features: Sequence[str], mean: FloatArray, covariance: FloatArray
    ) -> GaussianFullLikelihood:
        """The likelihood of some of the columns."""
        return GaussianFullLikelihood(features, mean, covariance)

    def formula(self, missing: Sequence[str] = ()) -> Formula:
        """See `FormulaLikelihood`.

        Args:
            missing: columns that are null in every row: those that a conditional sums out.
        """
        places = [at for at, name in enumerate(self.features) if name not in missing]
        if not places:
            return Formula([])
        columns = {at: Column(self.features[at]) for at in places}
        if len(places) > _MOST_PATTERNS:
            names = [self.features[at] for at in places]
            density = self._formula_of(np.array(places), columns)
            return Formula([if_known(list(columns.values()), density)], complete=names)
        branches: list[tuple[Condition, Expression]] = []
        for size in range(len(places)):
            for observed in itertools.combinations(places, size):
                nulls = [columns[at].is_null for at in places if at not in observed]
                condition = functools.reduce(operator.and_, nulls)
                density = self._formula_of(np.array(observed, dtype=np.intp), columns)
                branches.append((condition, density))
        return Formula([Case(branches, self._formula_of(np.array(places), columns))])

    def _formula_of(self, observed: IntArray, columns: Mapping[int, Column]) -> Expression:
        """log f of some columns that are not null."""
        if not len(observed):
            return as_expression(0.0)
        whiten, log_peak = self._whitened(observed)
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)[:, observed]
        width = np.sqrt(variance)
        scaled = whiten * width[:, None, :]  # of columns in units of their width

        def distances(unit: float) -> list[Expression]:
            """Distances from the means in units of so many widths."""
            precision = 1.0 / (unit * width)
            return [
                Named(Distance(columns[at], self.mean[:, at], precision[:, place]))
                for place, at in enumerate(observed.tolist())
            ]

        return self._formula_drop(distances, scaled, log_peak)

    def _formula_drop(
        self,
        distances: Callable[[float], list[Expression]],
        factor: FloatArray,
        log_peak: FloatArray,
    ) -> Expression:
        """Log density from distances in units of widths, whitened by ``(k, d, d)``."""
        units = distances(1.0)
        # Products of larger distances would exceed float64, and their differences be NaN.
        far = _beyond(units, 1e300 / (np.abs(factor).max() * len(units)))
        squares = [square(entry) for entry in _products(factor, units)]
        total = functools.reduce(operator.add, squares)
        return Case([(far, IMPOSSIBLE)], log_peak - 0.5 * total)

    def _marginal(self, values: FloatArray, observed: IntArray) -> FloatArray:
        """Log densities ``(k, m')`` of the observed features ``(d', m')`` alone."""
        whiten, log_peak = self._whitened(observed)
        drop = np.empty((len(self.mean), values.shape[1]))
        deviation, distance = np.empty((2, *values.shape))
        for number, mean in enumerate(self.mean[:, observed]):
            np.subtract(values, mean[:, None], out=deviation)
            np.matmul(whiten[number], deviation, out=distance)
            drop[number] = self._drop(number, distance)
        # A distance beyond float64, either ∞ or ∞ − ∞, means a likelihood of 0.
        drop[np.isnan(drop)] = np.inf
        return log_peak[:, None] - drop

    def _drop(self, number: int, distance: FloatArray) -> FloatArray:
        """Drop of a class's log density below its peak: whitened ``(d', m')`` to ``(m',)``."""
        drop: FloatArray = 0.5 * np.einsum("dn,dn->n", distance, distance)
        return drop

    def _standard_peak(self, size: int) -> FloatArray:
        """Log density at the center of ``size`` features of unit scale, ``(k,)``."""
        return np.full(len(self.mean), -0.5 * size * _LOG_2PI)

    def _whitened(self, observed: IntArray) -> tuple[FloatArray, FloatArray]:
        """L⁻¹ ``(k, d', d')`` and log density at the mean ``(k,)`` of the observed features."""
        key = observed.tobytes()
        whitened = self._whitening.get(key)
        if whitened is None:
            # Scaling to unit variance first keeps the factor accurate for unlike units.
            covariance = self.covariance[:, observed[:, None], observed]
            width = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            factor = np.linalg.cholesky(covariance / (width[:, :, None] * width[:, None, :]))
            whiten = np.linalg.inv(factor) / width[:, None, :]
            log_width = np.log(np.diagonal(factor, axis1=1, axis2=2)) + np.log(width)
            log_peak = self._standard_peak(len(observed)) - log_width.sum(axis=1)
            whitened = whiten, log_peak
            if len(self._whitening) * self.covariance.nbytes > _MOST_WHITENING:
                self._whitening.clear()
            self._whitening[key] = whitened
        return whitened


class GaussianSharedLikelihood(GaussianFullLikelihood):
    """log N(x; μ_c, Σ): a quadratic form common to all classes, and a linear form for each."""

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """w_c = Σ⁻¹ μ_c and b_c = −½ μ_cᵀ Σ⁻¹ μ_c, through Σ = L Lᵀ."""
        whiten, _ = self._whitened(np.arange(len(self.features)))
        centers = np.einsum("kij,kj->ki", whiten, self.mean)
        weights = np.einsum("kij,ki->kj", whiten, centers)
        return self.features, weights, -0.5 * np.einsum("ki,ki->k", centers, centers)


class StudentFullLikelihood(GaussianFullLikelihood):
    """log t(x; μ_c, Σ_c, ν_c), multivariate; the marginal over fewer features keeps ν_c.

    Args:
        features: names of the columns, ``d`` of them.
        mean: locations, ``(k, d)``.
        covariance: squared scales Σ, ``(k, d, d)``, positive definite.
        degrees_of_freedom: ``(k,)``.
    """

    def __init__(
        self,
        features: Sequence[str],
        mean: FloatArray,
        covariance: FloatArray,
        degrees_of_freedom: FloatArray,
    ) -> None:
        super().__init__(features, mean, covariance)
        self.degrees_of_freedom = degrees_of_freedom

    def _variance(self, scale: FloatArray) -> FloatArray:
        return _student_variance(scale, self.degrees_of_freedom)

    def _of(
        self, features: Sequence[str], mean: FloatArray, covariance: FloatArray
    ) -> StudentFullLikelihood:
        return StudentFullLikelihood(features, mean, covariance, self.degrees_of_freedom)

    def _drop(self, number: int, distance: FloatArray) -> FloatArray:
        freedom = self.degrees_of_freedom[number]
        # Divide by the largest entry, so that the squares of a far row are within float64.
        largest = np.abs(distance).max(axis=0, initial=0.0)
        shares = distance / np.where(largest > 0.0, largest, 1.0)
        radius = largest * np.sqrt(np.einsum("dn,dn->n", shares, shares))
        kernel = _log_one_plus_square(radius / np.sqrt(freedom))
        return 0.5 * float(freedom + len(distance)) * kernel

    def _marginal(self, values: FloatArray, observed: IntArray) -> FloatArray:
        result = super()._marginal(values, observed)
        far = np.isneginf(result).any(axis=0)  # a distance is beyond float64, its logarithm is not
        if far.any():
            result[:, far] = self._far(values[:, far], observed)
        return result

    def _far(self, values: FloatArray, observed: IntArray) -> FloatArray:
        """Log densities ``(k, m)`` of features ``(d', m)``, from logarithms of distances."""
        whiten, log_peak = self._whitened(observed)
        half = 0.5 * values - 0.5 * self.mean[:, observed, None]
        largest = np.abs(half).max(axis=1, initial=5e-324)
        distance = np.einsum("kij,kjn->kin", whiten, half / largest[:, None, :])
        longest = np.abs(distance).max(axis=1, initial=5e-324)
        shares = distance / longest[:, None, :]
        log_radius = math.log(2.0) + np.log(largest) + np.log(longest)
        log_radius += 0.5 * np.log(np.einsum("kin,kin->kn", shares, shares))
        freedom = self.degrees_of_freedom[:, None]
        kernel = np.logaddexp(0.0, 2.0 * log_radius - np.log(freedom))
        density: FloatArray = log_peak[:, None] - 0.5 * (freedom + len(values)) * kernel
        return density

    def _standard_peak(self, size: int) -> FloatArray:
        return _log_student_peak(self.degrees_of_freedom, size)

    def _formula_drop(
        self,
        distances: Callable[[float], list[Expression]],
        factor: FloatArray,
        log_peak: FloatArray,
    ) -> Expression:
        freedom, units = self.degrees_of_freedom, distances(1.0)
        clipped = [Named(within(unit, -1e100, 1e100)) for unit in units]
        near = functools.reduce(operator.add, map(square, _products(factor, clipped)))
        small = functools.reduce(operator.add, map(square, _products(factor, distances(1e200))))
        log_square = ln(positive(small)) + (400.0 * math.log(10.0) - np.log(freedom))
        kernel = Case([(_beyond(units, 1e100), log_square)], log_one_plus(near * (1.0 / freedom)))
        return log_peak - 0.5 * (freedom + float(len(units))) * kernel


def _products(factor: FloatArray, distances: Sequence[Expression]) -> list[Expression]:
    """The products of lower triangular matrices ``(k, d, d)`` and ``d`` distances."""
    factor = np.where(np.abs(factor) < 1e-150, 0.0, factor)
    return [
        functools.reduce(
            operator.add,
            [factor[:, row, column] * distances[column] for column in range(row + 1)],
        )
        for row in range(len(distances))
    ]


def _beyond(distances: Sequence[Expression], limit: float) -> Condition:
    """Whether one of the distances is larger."""
    sides = [(distance > limit) | (distance < -limit) for distance in distances]
    return functools.reduce(operator.or_, sides)


def _student_variance(scale: FloatArray, freedom: FloatArray) -> FloatArray:
    """σ² ν / (ν − 2) of squared scales; infinite for ν up to 2."""
    finite = freedom > 2.0
    return np.where(finite, scale * freedom / np.where(finite, freedom - 2.0, 1.0), np.inf)


def _log_student_peak(degrees_of_freedom: FloatArray, size: int) -> FloatArray:
    """Log density at the center of Student's t of ``size`` features of unit scale.

    log Γ((ν + d) / 2) − log Γ(ν / 2) − d/2 log νπ, with the ratio of Γ as a beta function, which
    is accurate for large ν as well.
    """
    from scipy.special import betaln, gammaln

    if not size:
        return np.zeros(degrees_of_freedom.shape)
    ratio = gammaln(0.5 * size) - betaln(0.5 * degrees_of_freedom, 0.5 * size)
    peak: FloatArray = ratio - 0.5 * size * np.log(degrees_of_freedom * math.pi)
    return peak


def _log_one_plus_square(radius: FloatArray) -> FloatArray:
    """log(1 + r²), also where r² is beyond float64."""
    near = np.minimum(radius, _FAR)
    result: FloatArray = np.log1p(near * near)
    far = radius > _FAR
    result[far] = 2.0 * np.log(radius[far])
    return result


def _numeric_blocks(rows: Rows, columns: Sequence[str]) -> Iterator[tuple[slice, FloatArray]]:
    """`Rows.matrix` in blocks of rows that fit the processor's cache.

    Yields:
        ``(part, block)``: positions of the rows, and their ``(d, m)`` features, which the caller
        may overwrite and which are only valid until the next block.

    Raises:
        DataError: as `Rows.numbers`.
    """
    if 0 < len(rows) <= _BLOCK_ROWS:
        yield slice(0, len(rows)), rows.matrix(columns)
        return
    values = [rows.numbers(name) for name in columns]
    memory = np.empty(len(columns) * min(_BLOCK_ROWS, len(rows)))
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = slice(start, min(start + _BLOCK_ROWS, len(rows)))
        size = part.stop - start
        block = memory[: len(columns) * size].reshape(len(columns), size)
        for row, column in zip(block, values, strict=True):
            row[:] = column[part]
        yield part, block
