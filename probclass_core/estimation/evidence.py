"""Closed-form marginal likelihoods: the probability of data with the parameters integrated out.

Each function takes raw statistics and a conjugate prior and returns log p(data) in nats, including
all constants, as float64 and vectorized over leading axes. Sources: Murphy, "Conjugate Bayesian
analysis of the Gaussian distribution" (2007), for the normal families; Gelman et al., *Bayesian
Data Analysis*, chapters 2 and 3, for counts.

A count may be a sum of weights. The log evidence of no rows is 0. A prior parameter of 0 means the
limit: data that it rules out have log evidence −inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError

_LOG_PI = math.log(math.pi)
_STIRLING_FROM = 20.0
"""Smallest argument for which Stirling's series is used."""


@dataclass(frozen=True)
class NormalPrior:
    """A conjugate prior of normal means and variances, or its posterior.

    Normal–inverse-Wishart: Σ ~ IW(ν, Ψ) and μ | Σ ~ N(m, Σ / κ). For single features it is the
    normal–inverse-χ² with σ₀² = Ψ / ν, or the normal–inverse-gamma with a = ν / 2, b = Ψ / 2.

    Attributes:
        count: κ, number of rows that the prior mean is worth.
        degrees_of_freedom: ν, number of rows that the prior scatter is worth.
        mean: m, in the unit of the feature.
        scatter: Ψ, in the unit squared.
    """

    count: FloatArray
    degrees_of_freedom: FloatArray
    mean: FloatArray
    scatter: FloatArray


def normal_evidence(
    prior: NormalPrior, count: FloatArray, mean: FloatArray, scatter: FloatArray
) -> FloatArray:
    """log p(rows) of single normal features: Murphy 2007, eq. 171.

    Args:
        prior: as for `normal_posterior`, like the other arguments.
        count: Σ w.
        mean: mean of the rows.
        scatter: Σ w (x − mean)².

    Returns:
        Log evidence in the shape of the statistics.
    """
    of_block = replace(
        prior, mean=prior.mean[..., None, None], scatter=prior.scatter[..., None, None]
    )
    rows = count[..., None], mean[..., None, None], scatter[..., None, None, None]
    return multivariate_normal_evidence(of_block, *rows)


def multivariate_normal_posterior(
    prior: NormalPrior, count: FloatArray, mean: FloatArray, scatter: FloatArray
) -> NormalPrior:
    """The posterior of the parameters of groups of normal rows with different means and one Σ.

    Murphy 2007, section 9, for one group. Further groups add to ν and Ψ in the same way, because
    μ_g is independent of the other groups given Σ.

    Args:
        prior: count and degrees of freedom are numbers, mean is ``(d,)``, scatter ``(d, d)``.
        count: Σ w, ``(…, g)``.
        mean: mean of the rows, ``(…, g, d)``; any number if the count is 0.
        scatter: Σ w (x − mean)(x − mean)ᵀ, ``(…, g, d, d)``.

    Returns:
        Count ``(…, g)``, degrees of freedom ``(…,)``, mean ``(…, g, d)``, scatter ``(…, d, d)``.
    """
    total = prior.count + count
    deviation = mean - prior.mean
    share = (prior.count * count / total)[..., None, None]
    between = share * deviation[..., :, None] * deviation[..., None, :]
    return NormalPrior(
        count=total,
        degrees_of_freedom=prior.degrees_of_freedom + count.sum(axis=-1),
        mean=prior.mean + (count / total)[..., None] * deviation,
        scatter=prior.scatter + (scatter + between).sum(axis=-3),
    )


def multivariate_normal_evidence(
    prior: NormalPrior, count: FloatArray, mean: FloatArray, scatter: FloatArray
) -> FloatArray:
    """log p(rows) of groups of normal rows that share Σ: Murphy 2007, eq. 266, for one group.

    Args:
        prior: as for `multivariate_normal_posterior`, like the other arguments.
        count: Σ w.
        mean: mean of the rows.
        scatter: Σ w (x − mean)(x − mean)ᵀ.

    Returns:
        Log evidence, ``(…,)``.

    Raises:
        DataError: if Ψ, or its sum with the scatter, is singular to working precision.
    """
    from scipy.special import multigammaln

    after = multivariate_normal_posterior(prior, count, mean, scatter)
    size = mean.shape[-1]
    # Murphy prints Γ_d with its factor π^(d(d−1)/4), as scipy does; it cancels in the ratio.
    evidence: FloatArray = (
        multigammaln(0.5 * after.degrees_of_freedom, size)
        - multigammaln(0.5 * prior.degrees_of_freedom, size)
        + 0.5 * size * (np.log(prior.count) - np.log(after.count)).sum(axis=-1)
        + 0.5 * prior.degrees_of_freedom * log_determinant(prior.scatter)
        - 0.5 * after.degrees_of_freedom * log_determinant(after.scatter)
        - 0.5 * size * count.sum(axis=-1) * _LOG_PI
    )
    return evidence


def log_determinant(scatter: FloatArray) -> FloatArray:
    """log |S| of positive definite matrices ``(…, d, d)``, by Cholesky factorization: ``(…,)``.

    Raises:
        DataError: if a matrix is singular to working precision.
    """
    # Scaling to a unit diagonal first keeps the factor accurate if units differ widely.
    width = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))
    try:
        factor = np.linalg.cholesky(scatter / (width[..., :, None] * width[..., None, :]))
    except np.linalg.LinAlgError as error:
        raise DataError(
            "the scatter of a normal block is singular to working precision: its prior variance "
            "is negligible compared with the data; set a larger variance in conjugate_prior."
        ) from error
    heights = np.diagonal(factor, axis1=-2, axis2=-1)
    log_determinant: FloatArray = 2.0 * (np.log(heights) + np.log(width)).sum(axis=-1)
    return log_determinant


def dirichlet_categorical(counts: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """log p(values in order) under a Dirichlet prior of their probabilities.

    log Γ(Σα) / Γ(Σα + n) + Σ_v log Γ(α_v + n_v) / Γ(α_v).

    Args:
        counts: n, counts of the values, ``(…, m)``.
        alpha: pseudo-counts of the prior, which broadcast against the counts.

    Returns:
        Log evidence, ``(…,)``; −inf if a value with a pseudo-count of 0 occurs.
    """
    seen, prior = np.broadcast_arrays(_floats(counts), _floats(alpha))
    possible = np.where(prior > 0.0, seen, 0.0).sum(axis=-1)
    evidence: FloatArray = log_rising(prior, seen).sum(axis=-1)
    evidence -= log_rising(prior.sum(axis=-1), possible)
    return evidence


def log_rising(start: FloatArray, by: FloatArray) -> FloatArray:
    """log Γ(start + by) / Γ(start), elementwise; if start is 0: 0 for by = 0, else −inf."""
    from scipy.special import gammaln

    # For a large start, the two log Γ agree in their leading digits, and Stirling's series of the
    # ratio keeps the others (Abramowitz and Stegun, 6.1.40; the error of 4 terms is 2e-15 at 20).
    large = np.maximum(start, _STIRLING_FROM)
    tall = (large - 0.5) * np.log1p(by / large) + by * (np.log(large + by) - 1.0)
    tall += _stirling_rest(large + by) - _stirling_rest(large)
    small = np.where(start > 0.0, np.minimum(start, _STIRLING_FROM), 1.0)
    ratio = np.where(start < _STIRLING_FROM, gammaln(small + by) - gammaln(small), tall)
    rising: FloatArray = np.where((start > 0.0) | (by <= 0.0), ratio, -np.inf)
    return np.where(by > 0.0, rising, 0.0)


def _stirling_rest(value: FloatArray) -> FloatArray:
    """log Γ(z) − (z − ½) log z + z − ½ log 2π, for z of at least 20."""
    inverse = 1.0 / value
    square = inverse * inverse
    rest: FloatArray = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680)))
    return rest


def _floats(values: ArrayLike) -> FloatArray:
    return np.asarray(values, dtype=np.float64)
