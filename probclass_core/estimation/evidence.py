"""Closed-form marginal likelihoods: how probable the data are, with the parameters integrated out.

Each function takes raw statistics and a conjugate prior and gives log p(data) in nats, all
constants included, float64, vectorized over leading axes. Sources: Murphy, "Conjugate Bayesian
analysis of the Gaussian distribution" (2007), for the normal families; Gelman et al., *Bayesian
Data Analysis*, chapters 2 and 3, for counts.

A count may be a sum of weights. No rows give 0. A prior parameter of 0 stands for the limit: what
it rules out has log evidence −inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError

_LOG_PI = math.log(math.pi)
_STIRLING_FROM = 20.0


@dataclass(frozen=True)
class NormalPrior:
    """A conjugate prior of normal means and variances, or what data made of it.

    Normal–inverse-Wishart: Σ ~ IW(ν, Ψ) and μ | Σ ~ N(m, Σ / κ). Of single features it is the
    normal–inverse-χ² with σ₀² = Ψ / ν, and the normal–inverse-gamma with a = ν / 2, b = Ψ / 2.

    Attributes:
        count: κ, how many rows the prior mean is worth.
        degrees_of_freedom: ν, how many rows the prior scatter is worth.
        mean: m, in the feature's unit.
        scatter: Ψ, in the unit squared.
    """

    count: FloatArray
    degrees_of_freedom: FloatArray
    mean: FloatArray
    scatter: FloatArray


def normal_posterior(
    prior: NormalPrior, count: FloatArray, mean: FloatArray, scatter: FloatArray
) -> NormalPrior:
    """The prior after rows of single features: Murphy 2007, section 5.

    Args:
        prior: broadcasts against the statistics.
        count: Σ w, any shape.
        mean: of the rows, the same shape; any number where the count is 0.
        scatter: Σ w (x − mean)², the same shape.
    """
    total = prior.count + count
    deviation = mean - prior.mean
    return NormalPrior(
        count=total,
        degrees_of_freedom=prior.degrees_of_freedom + count,
        mean=prior.mean + count / total * deviation,
        scatter=prior.scatter + scatter + prior.count * count / total * deviation * deviation,
    )


def normal_evidence(
    prior: NormalPrior, count: FloatArray, mean: FloatArray, scatter: FloatArray
) -> FloatArray:
    """log p(rows) of single normal features: Murphy 2007, eq. 171.

    Arguments as `normal_posterior`; the result has the shape of the statistics.
    """
    from scipy.special import gammaln

    after = normal_posterior(prior, count, mean, scatter)
    evidence: FloatArray = (
        gammaln(0.5 * after.degrees_of_freedom)
        - gammaln(0.5 * prior.degrees_of_freedom)
        + 0.5 * (np.log(prior.count) - np.log(after.count))
        + 0.5 * prior.degrees_of_freedom * np.log(prior.scatter)
        - 0.5 * after.degrees_of_freedom * np.log(after.scatter)
        - 0.5 * count * _LOG_PI
    )
    return evidence


def multivariate_normal_posterior(
    prior: NormalPrior, count: FloatArray, mean: FloatArray, scatter: FloatArray
) -> NormalPrior:
    """The prior after rows of several groups, each with a mean of its own and all with one Σ.

    Murphy 2007, section 9, for one group. Further groups add to ν and Ψ alike, because
    μ_g is independent of the other groups given Σ.

    Args:
        prior: count and degrees of freedom are numbers, mean is ``(d,)``, scatter ``(d, d)``.
        count: ``(…, g)``.
        mean: ``(…, g, d)``; any number where the count is 0.
        scatter: ``(…, g, d, d)``, Σ w (x − mean)(x − mean)ᵀ.

    Returns:
        count ``(…, g)``, degrees of freedom ``(…,)``, mean ``(…, g, d)``, scatter ``(…, d, d)``.
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
    """log p(rows) of normal groups that share Σ: Murphy 2007, eq. 266, for one group.

    Arguments as `multivariate_normal_posterior`; the result is ``(…,)``.

    Raises:
        DataError: Ψ is singular to working precision beside the rows.
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
    """Of positive definite matrices ``(…, d, d)``, through Cholesky: ``(…,)``.

    Raises:
        DataError: one is singular to working precision.
    """
    # Scaling to a unit diagonal first keeps the factor accurate for unlike units.
    width = np.sqrt(np.diagonal(scatter, axis1=-2, axis2=-1))
    try:
        factor = np.linalg.cholesky(scatter / (width[..., :, None] * width[..., None, :]))
    except np.linalg.LinAlgError as error:
        raise DataError(
            "the scatter of a normal block is singular to working precision: its prior variance "
            "vanishes beside the data; give conjugate_prior a larger variance."
        ) from error
    heights = np.diagonal(factor, axis1=-2, axis2=-1)
    log_determinant: FloatArray = 2.0 * (np.log(heights) + np.log(width)).sum(axis=-1)
    return log_determinant


def dirichlet_categorical(counts: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """log p(values in their order) under a Dirichlet prior of their probabilities.

    log Γ(Σα) / Γ(Σα + n) + Σ_v log Γ(α_v + n_v) / Γ(α_v).

    Args:
        counts: n, ``(…, m)`` over the values.
        alpha: the prior's pseudo-counts, which broadcast against the counts.

    Returns:
        ``(…,)``; −inf where a value with a pseudo-count of 0 was seen.
    """
    seen, prior = np.broadcast_arrays(_floats(counts), _floats(alpha))
    possible = np.where(prior > 0.0, seen, 0.0).sum(axis=-1)
    evidence: FloatArray = log_rising(prior, seen).sum(axis=-1)
    evidence -= log_rising(prior.sum(axis=-1), possible)
    return evidence


def beta_bernoulli(
    successes: ArrayLike, failures: ArrayLike, a: ArrayLike, b: ArrayLike
) -> FloatArray:
    """log p(trials in their order) under a Beta(a, b) prior of the probability of success.

    Args:
        successes: Σ w of them, any shape; all arguments broadcast.
        failures: the same.
        a: the prior's pseudo-count of successes.
        b: the same of failures.

    Returns:
        In the common shape.
    """
    good, bad, prior_good, prior_bad = np.broadcast_arrays(
        _floats(successes), _floats(failures), _floats(a), _floats(b)
    )
    return dirichlet_categorical(
        np.stack([good, bad], axis=-1), np.stack([prior_good, prior_bad], axis=-1)
    )


def gamma_poisson(
    total: ArrayLike, rows: ArrayLike, log_factorials: ArrayLike, shape: ArrayLike, rate: ArrayLike
) -> FloatArray:
    """log p(counts) of Poisson rows under a Gamma(shape, rate) prior of their mean.

    a log b − log Γ(a) + log Γ(a + S) − (a + S) log(b + n) − Σ w log x!, with a the shape, b the
    rate, S the total and n the rows.

    Args:
        total: S = Σ w x, any shape; all arguments broadcast.
        rows: n = Σ w.
        log_factorials: Σ w log x!.
        shape: a, the prior's own total.
        rate: b, how many rows the prior is worth.

    Returns:
        In the common shape.
    """
    from scipy.special import xlog1py, xlogy

    seen, size, constant, a, b = np.broadcast_arrays(
        *map(_floats, (total, rows, log_factorials, shape, rate))
    )
    with np.errstate(divide="ignore"):
        worth = np.divide(size, b, out=np.zeros(size.shape), where=size > 0.0)
    # a log b − a log(b + n) as one term: the difference of two large ones would lose digits.
    evidence: FloatArray = (
        log_rising(a, seen) - xlog1py(a, worth) - xlogy(seen, b + size) - constant
    )
    return evidence


def log_rising(start: FloatArray, by: FloatArray) -> FloatArray:
    """log Γ(start + by) / Γ(start), elementwise; where start is 0: 0 for by = 0, else −inf."""
    from scipy.special import gammaln

    # Two log Γ of a large start agree in their first digits: Stirling's series of the ratio keeps
    # the rest (Abramowitz and Stegun, 6.1.40; four terms are 2e-15 off at 20).
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
