"""The maximum likelihood of Student's t for values that stand for many rows.

    f(x) = Γ((ν + 1) / 2) / (Γ(ν / 2) √(νπ) σ) · (1 + z² / ν)^−(ν + 1) / 2,    z = (x − μ) / σ

Lange, Little and Taylor, "Robust statistical modeling using the t distribution" (1989). With ν free
the likelihood has no maximum where more than half of the rows share a value and ν may go below 1
(there σ → 0 pays without end), so ν is at least 1 and σ has a floor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from probclass_core.authoring import FloatArray

LEAST_FREEDOM, MOST_FREEDOM = 1.0, 200.0
"""From Cauchy's distribution to what is normal for all that rows can tell."""

_NORMAL_IQR = 1.3489795003921634
"""Interquartile range of the standard normal."""

_FAR, _LARGEST = 1e140, 1e300
"""Beyond which a standardized value, and a scale, are not told apart, lest a square overflow."""

_LEAST_LOG = float(np.log(1e-12))
"""Of a scale beside that of the quartiles, where more than half of the rows share a value."""


class Fit(NamedTuple):
    """A fitted density: location and scale in the column's unit, degrees of freedom."""

    location: float
    scale: float
    degrees_of_freedom: float


def quartiles(values: FloatArray, counts: FloatArray) -> FloatArray:
    """The least values below or at which a quarter, half and three quarters of the rows lie.

    Args:
        values: ascending, ``(n,)``.
        counts: of each, above 0.
    """
    below = np.cumsum(counts)
    place = np.searchsorted(below, np.array([0.25, 0.5, 0.75]) * below[-1])
    found: FloatArray = values[np.minimum(place, len(values) - 1)]
    return found


def robust_scale(values: FloatArray, counts: FloatArray) -> tuple[float, float]:
    """The median, and the scale of the normal of this interquartile range; without it, the range.

    Args:
        values: ascending, ``(n,)``.
        counts: of each, above 0.
    """
    low, median, high = quartiles(values, counts)
    with np.errstate(over="ignore"):
        spread = (high - low) / _NORMAL_IQR or values[-1] - values[0]
    return float(median), float(min(spread, _LARGEST))


def fit(values: FloatArray, counts: FloatArray, floor: float, freedom: float | None) -> Fit:
    """The most likely density.

    Args:
        values: ascending, ``(n,)``.
        counts: of each, above 0.
        floor: the smallest scale, above 0.
        freedom: degrees of freedom; none where they are to be found, too.
    """
    location, scale = robust_scale(values, counts)
    if scale <= floor:
        return Fit(location, max(scale, floor), freedom or LEAST_FREEDOM)
    with np.errstate(over="ignore"):
        z = np.clip((values - location) / scale, -_FAR, _FAR)
    weights = counts / counts.sum()
    at = freedom or 4.0
    bounds = [
        (z[0], z[-1]),
        (max(np.log(floor) - np.log(scale), _LEAST_LOG), np.log(max(1.0, z[-1] - z[0])) + 1.0),
        (np.log(LEAST_FREEDOM), np.log(MOST_FREEDOM)) if freedom is None else (np.log(at),) * 2,
    ]
    found = minimize(
        _loss, [0.0, 0.0, np.log(at)], args=(z, weights), jac=True, method="L-BFGS-B",
        bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
    )  # fmt: skip
    shift, log_scale, log_freedom = found.x
    chosen = freedom or float(np.exp(log_freedom))
    return Fit(location + scale * shift, max(scale * float(np.exp(log_scale)), floor), chosen)


def log_normalizer(freedom: FloatArray) -> FloatArray:
    """log Γ((ν + 1) / 2) − log Γ(ν / 2) − log(νπ) / 2."""
    half = freedom / 2.0
    result: FloatArray = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(np.pi * freedom)
    return result


def log_kernel(distance: FloatArray, scale: FloatArray, freedom: FloatArray) -> FloatArray:
    """log(1 + z² / ν) with z = distance / scale, in logarithms, where no square overflows."""
    with np.errstate(divide="ignore"):
        size = np.log(np.abs(distance)) - np.log(scale)
    result: FloatArray = np.logaddexp(0.0, 2.0 * size - np.log(freedom))
    return result


def _loss(at: FloatArray, z: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    """Minus the mean log-likelihood and its slope in μ, log σ and log ν."""
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
    slope = np.array([-(weights @ pull) / scale, 1.0 - weights @ (pull * u), -freedom * in_freedom])
    return float(loss), slope
