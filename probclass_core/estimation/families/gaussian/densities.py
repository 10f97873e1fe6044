"""The densities of the normal families, compiled for many batches."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray, missing_patterns
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
    square,
)
from probclass_core.estimation.marginals import Curve, derive

_LOG_2PI = math.log(2.0 * math.pi)

_MOST_PATTERNS = 4
"""Up to this many columns a formula sums out nulls: each set of observed columns has a density."""

_MOST_WHITENING = 2**26
"""Bytes of the factors that are kept: each set of observed columns has one."""

_BLOCK_ROWS = 2304
"""Rows of a block: two copies of a block with 20 features fit the processor's cache."""

_BUFFER = 1024
"""Size of NumPy's buffer for arithmetic on blocks, in numbers. In a broadcast, NumPy copies rows of
up to half of the buffer (8192 by default) into it, which takes as long as the arithmetic itself."""


@contextmanager
def _block_arithmetic() -> Iterator[None]:
    """Speed up arithmetic on blocks; overflow gives ∞ or NaN, which the caller must check."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        before = np.setbufsize(_BUFFER)
        try:
            yield
        finally:
            np.setbufsize(before)


class DiagonalLikelihood:
    """log f(x | c) = Σ_j log N(x_j; μ_cj, σ²_cj) over the observed features.

    Args:
        features: names of the columns, ``d`` of them.
        mean: μ, ``(k, d)``.
        variance: σ², ``(k, d)``; 0 is a point mass: −inf off its point.
        columns: all columns of the block, also those without values; by default the features.
    """

    normalized = True

    def __init__(
        self,
        features: Sequence[str],
        mean: FloatArray,
        variance: FloatArray,
        *,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.features = list(features)
        self.columns = self.features if columns is None else columns
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

    def log_factors(self, rows: Rows) -> Iterator[FloatArray]:
        """log f(x_j | c) of each column, ``(n, k)``."""
        for name in self.columns:
            if name in self.features:
                yield self._alone(name).log_likelihood(rows)
            else:
                yield np.zeros((len(rows), len(self.mean)))

    def _alone(self, column: str) -> DiagonalLikelihood:
        """The likelihood of one column."""
        at = [self.features.index(column)]
        return DiagonalLikelihood([column], self.mean[:, at], self.variance[:, at])

    def marginal(self, column: str) -> Curve | None:
        if column not in self.features:
            return None
        alone = self._alone(column)
        return derive(alone, column, mean=alone.mean[:, 0], variance=alone.variance[:, 0])

    def formula(self) -> Formula:
        return Formula([self._factor(place, name) for place, name in enumerate(self.features)])

    def _factor(self, place: int, name: str) -> Expression:
        """log f(x_j | c) of one column, 0 if it is null."""
        column, mean, precision = Column(name), self.mean[:, place], self.precision[:, place]
        peak, is_mass = self.log_peak[:, place], precision == 0.0
        precision = np.where(is_mass, 1.0, precision)
        density: Expression = peak - Square(Distance(column, mean, precision * math.sqrt(0.5)))
        if is_mass.any():
            at_mass = as_expression(is_mass).equals(1.0)
            off_point = at_mass & column.differs(mean)
            density = Case([(off_point, IMPOSSIBLE), (at_mass, as_expression(peak))], density)
        return if_known([column], density)

    def _fill(self, block: FloatArray, result: FloatArray) -> None:
        """Write the log-likelihoods ``(k, m)`` of features ``(d, m)`` into ``result``."""
        missing = np.isnan(block)
        if missing.any():
            result[:] = self.log_peak @ (~missing).astype(np.float64)
        else:
            result[:] = self.log_peak.sum(axis=1)[:, None]
        if (compiled := kernels(block.shape[1])) is not None:
            compiled.subtract_half_squares(block, self.mean, self.precision, result)
        else:
            self._subtract_half_squares(block, missing, result)
        for masses, mean, of_class in zip(self.point_masses, self.mean, result, strict=True):
            if len(masses):
                off = (block[masses] != mean[masses, None]) & ~missing[masses]
                of_class[off.any(axis=0)] = -np.inf

    def _subtract_half_squares(
        self, block: FloatArray, missing: BoolArray, result: FloatArray
    ) -> None:
        deviation, any_missing = np.empty_like(block), bool(missing.any())
        by_class = zip(self.mean[..., None], self.precision[..., None], result, strict=True)
        for mean, precision, of_class in by_class:
            np.subtract(block, mean, out=deviation)
            deviation *= precision
            if any_missing:
                deviation[missing] = 0.0
            of_class -= 0.5 * np.einsum("dn,dn->n", deviation, deviation)


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
        at = self.features.index(column)
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)
        alone = DiagonalLikelihood([column], self.mean[:, [at]], variance[:, [at]])
        return alone.marginal(column)

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
        whiten, log_peak = self._whitened(tuple(observed.tolist()))
        width = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)[:, observed])
        factor = whiten * width[:, None, :]  # of columns in units of their width
        units: list[Expression] = [
            Named(Distance(columns[at], self.mean[:, at], 1.0 / width[:, place]))
            for place, at in enumerate(observed.tolist())
        ]
        # Products of larger distances would exceed float64, and their differences be NaN.
        far = _beyond(units, 1e300 / (np.abs(factor).max() * len(units)))
        return Case([(far, IMPOSSIBLE)], log_peak - 0.5 * _squared_length(factor, units))

    def _density(self, values: FloatArray, observed: IntArray) -> FloatArray:
        """Log densities ``(k, m')`` of the observed features ``(d', m')`` alone."""
        whiten, log_peak = self._whitened(tuple(observed.tolist()))
        drop = np.empty((len(self.mean), values.shape[1]))
        deviation, distance = np.empty((2, *values.shape))
        for number, mean in enumerate(self.mean[:, observed]):
            np.subtract(values, mean[:, None], out=deviation)
            np.matmul(whiten[number], deviation, out=distance)
            drop[number] = 0.5 * np.einsum("dn,dn->n", distance, distance)
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
        return whiten, -0.5 * len(observed) * _LOG_2PI - log_width.sum(axis=1)


class SharedLikelihood(FullLikelihood):
    """log N(x; μ_c, Σ): a quadratic form common to all classes, and a linear form for each."""

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """w_c = Σ⁻¹ μ_c and b_c = −½ μ_cᵀ Σ⁻¹ μ_c, through Σ = L Lᵀ."""
        whiten, _ = self._whitened(tuple(range(len(self.features))))
        centers = np.einsum("kij,kj->ki", whiten, self.mean)
        weights = np.einsum("kij,ki->kj", whiten, centers)
        return self.features, weights, -0.5 * np.einsum("ki,ki->k", centers, centers)


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
    return functools.reduce(operator.add, map(square, products))


def _beyond(distances: Sequence[Expression], limit: float) -> Condition:
    """Whether one of the distances is larger."""
    sides = [(distance > limit) | (distance < -limit) for distance in distances]
    return functools.reduce(operator.or_, sides)


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
