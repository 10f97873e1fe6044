"""Maximum likelihood of Student's t for values with counts.

    f(x) = Γ((ν + 1) / 2) / (Γ(ν / 2) √(νπ) σ) · (1 + z² / ν)^−(ν + 1) / 2,    z = (x − μ) / σ

Lange, Little and Taylor, "Robust statistical modeling using the t distribution" (1989). If more
than half of the rows share a value and ν may be below 1, the likelihood has no maximum: it grows
without bound as σ → 0. So ν is at least 1 and σ has a floor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from probclass_core.authoring import FloatArray

LEAST_FREEDOM, MOST_FREEDOM = 1.0, 200.0
"""From Cauchy's distribution to one that rows cannot distinguish from a normal one."""

_NORMAL_IQR = 1.3489795003921634
"""Interquartile range of the standard normal."""

_FAR, _LARGEST = 1e140, 1e300
"""Largest standardized value and largest scale, so that no square overflows."""

_LEAST_LOG = float(np.log(1e-12))
"""Log of the least scale, relative to that of the quartiles, for rows that mostly share a value."""


class Fit(NamedTuple):
    """A fitted density: location and scale in the column's unit, degrees of freedom."""

    location: float
    scale: float
    degrees_of_freedom: float


def quartiles(values: FloatArray, counts: FloatArray) -> FloatArray:
    """The least values that at least a quarter, half and three quarters of the rows do not exceed.

    Args:
        values: ascending, ``(n,)``.
        counts: count of each value, above 0.
    """
    cumulative = np.cumsum(counts)
    position = np.searchsorted(cumulative, np.array([0.25, 0.5, 0.75]) * cumulative[-1])
    result: FloatArray = values[np.minimum(position, len(values) - 1)]
    return result


def robust_scale(values: FloatArray, counts: FloatArray) -> tuple[float, float]:
    """The median, and the standard deviation of a normal with the same interquartile range.

    If the interquartile range is 0, the scale is the range.

    Args:
        values: ascending, ``(n,)``.
        counts: count of each value, above 0.
    """
    low, median, high = quartiles(values, counts)
    with np.errstate(over="ignore"):
        spread = (high - low) / _NORMAL_IQR or values[-1] - values[0]
    return float(median), float(min(spread, _LARGEST))


def fit(values: FloatArray, counts: FloatArray, floor: float, freedom: float | None) -> Fit:
    """The most likely density.

    Args:
        values: ascending, ``(n,)``.
        counts: count of each value, above 0.
        floor: smallest scale, above 0.
        freedom: degrees of freedom; None estimates them as well.
    """
    location, scale = robust_scale(values, counts)
    if scale <= floor:
        return Fit(location, max(scale, floor), freedom or LEAST_FREEDOM)
    with np.errstate(over="ignore"):
        z = np.clip((values - location) / scale, -_FAR, _FAR)
    weights = counts / counts.sum()
    start = freedom or 4.0
    bounds = [
        (z[0], z[-1]),
        (max(np.log(floor) - np.log(scale), _LEAST_LOG), np.log(max(1.0, z[-1] - z[0])) + 1.0),
        (np.log(LEAST_FREEDOM), np.log(MOST_FREEDOM)) if freedom is None else (np.log(start),) * 2,
    ]
    optimum = minimize(
        _loss, [0.0, 0.0, np.log(start)], args=(z, weights), jac=True, method="L-BFGS-B",
        bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
    )  # fmt: skip
    shift, log_scale, log_freedom = optimum.x
    freedom = freedom or float(np.exp(log_freedom))
    return Fit(location + scale * shift, max(scale * float(np.exp(log_scale)), floor), freedom)


def log_normalizer(freedom: FloatArray) -> FloatArray:
    """log Γ((ν + 1) / 2) − log Γ(ν / 2) − log(νπ) / 2."""
    half = freedom / 2.0
    result: FloatArray = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(np.pi * freedom)
    return result


def log_kernel(distance: FloatArray, scale: FloatArray, freedom: FloatArray) -> FloatArray:
    """log(1 + z² / ν) with z = distance / scale, computed in logs, so that no square overflows."""
    with np.errstate(divide="ignore"):
        size = np.log(np.abs(distance)) - np.log(scale)
    result: FloatArray = np.logaddexp(0.0, 2.0 * size - np.log(freedom))
    return result


def _loss(at: FloatArray, z: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    """Minus the mean log-likelihood, and its gradient in μ, log σ and log ν."""
    shift, log_scale, log_freedom = at
    scale, freedom = np.exp(log_scale), np.exp(log_freedom)
    u = (z - shift) / scale
    kernel = log_kernel(z - shift, scale, freedom)
    pull = (freedom + 1.0) * (u / freedom) / (1.0 + (u / freedom) * u)  # −d log f / du
    normalizer = log_normalizer(np.asarray(freedom))
    loss = log_scale - normalizer + 0.5 * (freedom + 1.0) * (weights @ kernel)
    half = freedom / 2.0
    in_freedom = 0.5 * (
        digamma(half + 0.5) - digamma(half) - 1.0 / freedom
        - weights @ kernel + (weights @ (pull * u)) / freedom
    )  # fmt: skip
    gradient = np.array(
        [-(weights @ pull) / scale, 1.0 - weights @ (pull * u), -freedom * in_freedom]
    )
    return float(loss), gradient
