"""The densities of the normal families, compiled for many batches: normal, and Student's t.

A normal density with estimated parameters is the plug-in rule of the textbook; with the parameters
integrated out under a conjugate prior it becomes Student's t, whose tails know how few rows there
were (Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007, sections 5 and 9).
Both are evaluated from the same standardized distances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray, missing_patterns
from probclass_core.arrow.row_blocks import block_arithmetic, numeric_blocks
from probclass_core.estimation.contract import POINT_MASS_WIDTH

_LOG_2PI = math.log(2.0 * math.pi)

_FAR = 1e8
"""Beyond it 1 + r² is r² to the last digit."""


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
        self.mean = mean
        point_mass: BoolArray = variance == 0.0
        self.point_masses = [np.flatnonzero(of_class) for of_class in point_mass]
        width = np.sqrt(np.where(point_mass, 1.0, variance))
        self.precision = np.where(point_mass, 0.0, 1.0 / width)
        self.log_peak = -0.5 * _LOG_2PI - np.log(np.where(point_mass, POINT_MASS_WIDTH, width))

    # A square beyond float64 is a likelihood of 0, and so is ∞ · 0, off a point mass.
    @block_arithmetic()
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
            np.subtract(block, mean[:, None], out=deviation)
            deviation *= precision[:, None]
            if some_missing:
                deviation[missing] = 0.0
            result[number] -= self._fall(number, deviation)
            masses = self.point_masses[number]
            if len(masses):
                off = (block[masses] != mean[masses, None]) & ~missing[masses]
                result[number, off.any(axis=0)] = -np.inf

    def _fall(self, number: int, deviation: FloatArray) -> FloatArray:
        """How far a class's log density is below its peak: standardized ``(d, m)`` to ``(m,)``."""
        fall: FloatArray = 0.5 * np.einsum("dn,dn->n", deviation, deviation)
        return fall


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

    def _fall(self, number: int, deviation: FloatArray) -> FloatArray:
        freedom = self.degrees_of_freedom[number]
        fall: FloatArray = (
            0.5
            * (freedom + 1.0)
            @ _log_one_plus_square(np.abs(deviation) / np.sqrt(freedom)[:, None])
        )
        return fall


class GaussianFullLikelihood:
    """log N(x; μ_c, Σ_c); where features are null, of the marginal over the others.

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

    @block_arithmetic()
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
        fall = np.empty((len(self.mean), part.shape[1]))
        deviation, distance = np.empty((2, *part.shape))
        for number, mean in enumerate(self.mean[:, kept]):
            np.subtract(part, mean[:, None], out=deviation)
            np.matmul(whiten[number], deviation, out=distance)
            fall[number] = self._fall(number, distance)
        # A distance beyond float64, be it ∞ or ∞ − ∞, is a likelihood of 0.
        fall[np.isnan(fall)] = np.inf
        return log_peak[:, None] - fall

    def _fall(self, number: int, distance: FloatArray) -> FloatArray:
        """How far a class's log density is below its peak: whitened ``(d', m')`` to ``(m',)``."""
        fall: FloatArray = 0.5 * np.einsum("dn,dn->n", distance, distance)
        return fall

    def _standard_peak(self, size: int) -> FloatArray:
        """Log density at the center of ``size`` features of unit scale, ``(k,)``."""
        return np.full(len(self.mean), -0.5 * size * _LOG_2PI)

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
            self._whitening[key] = whiten, self._standard_peak(len(kept)) - log_width.sum(axis=1)
        return self._whitening[key]


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

    def _fall(self, number: int, distance: FloatArray) -> FloatArray:
        freedom = self.degrees_of_freedom[number]
        # By the largest entry, so that the squares of a far row stay within float64.
        largest = np.abs(distance).max(axis=0, initial=0.0)
        shares = distance / np.where(largest > 0.0, largest, 1.0)
        radius = largest * np.sqrt(np.einsum("dn,dn->n", shares, shares))
        fall: FloatArray = _log_one_plus_square(radius / np.sqrt(freedom))
        return 0.5 * float(freedom + len(distance)) * fall

    def _standard_peak(self, size: int) -> FloatArray:
        return _log_student_peak(self.degrees_of_freedom, size)


def _log_student_peak(degrees_of_freedom: FloatArray, size: int) -> FloatArray:
    """Log density at the center of Student's t of ``size`` features of unit scale.

    log Γ((ν + d) / 2) − log Γ(ν / 2) − d/2 log νπ, with the ratio of Γ as a beta function, which
    keeps its digits where ν is large.
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
