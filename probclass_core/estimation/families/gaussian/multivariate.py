"""The density of a multivariate normal, compiled for many batches.

It is evaluated through the Cholesky factor of the covariance, Σ = L Lᵀ: the Mahalanobis distance is
|L⁻¹(x − μ)|² and ½ log |Σ| is the sum of log L_jj.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, IntArray, missing_patterns
from probclass_core.arrow.rows import Rows
from probclass_core.estimation import formulas
from probclass_core.estimation.families.gaussian.diagonal import (
    LOG_2PI,
    block_arithmetic,
    numeric_blocks,
)
from probclass_core.estimation.formulas import Case, Column, Condition, Expression, Formula, Named
from probclass_core.estimation.marginals import Curve, derive

_MOST_PATTERNS = 4
"""Up to this many columns a formula sums out nulls: each set of observed columns has a density."""

_MOST_WHITENING = 2**26
"""Bytes of the factors that are kept: each set of observed columns has one."""


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
        if len(columns) > _MOST_PATTERNS:
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
