"""Functions that keep their digits where densities are narrow."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from probclass_core.authoring import FloatArray

_LARGE = 1e3
"""From here on Stirling's series is exact to the last digit."""


def log_minus(x: Any, log_x: Any, center: FloatArray) -> Any:
    """log(x / c) − (x / c − 1), 0 or less, with all its digits near x = c.

    Args:
        x: values above 0, or a column of a query.
        log_x: their logarithms, as exact as the caller knows them.
        center: c above 0.
    """
    t = (x - center) / center
    return np.where(t < -0.5, log_x - np.log(center) - t, log1p_minus(np.maximum(t, -0.5)))


def log1p_minus(t: Any) -> Any:
    """log(1 + t) − t for t > −1, 0 or less."""
    direct = np.log1p(np.minimum(t, 1e300)) - t  # not ∞ − ∞
    near = np.minimum(np.maximum(t, -1e-3), 1e-3)
    rest = 0.5 - near * (1.0 / 3.0 - near * (0.25 - near * (0.2 - near / 6.0)))
    return np.where(np.absolute(t) < 1e-3, -np.square(near) * rest, direct)


def stirling_rest(a: FloatArray) -> FloatArray:
    """a log a − a − log Γ(a) for a > 0: ½ log(a / 2π) and small terms, without cancellation."""
    large = np.maximum(a, _LARGE)
    small = np.minimum(a, _LARGE)
    series = 0.5 * np.log(large / (2.0 * np.pi)) - 1.0 / (12.0 * large) + 1.0 / (360.0 * large**3)
    direct = small * np.log(small) - small - special.gammaln(small)
    values: FloatArray = np.where(a > _LARGE, series, direct)
    return values


def gamma_shape(gap: FloatArray) -> FloatArray:
    """The a > 0 with log a − ψ(a) = gap, for gap > 0: the maximum likelihood of a gamma's shape.

    Newton's method on log a from Minka's start ("Estimating a Gamma distribution", 2002). For a
    narrow density the left side is 1 / 2a + 1 / 12a² up to the last digit.
    """
    wide = np.maximum(gap, 1e-6)
    shape = (3.0 - wide + np.sqrt((wide - 3.0) ** 2 + 24.0 * wide)) / (12.0 * wide)
    for _ in range(30):
        value = np.log(shape) - special.digamma(shape) - wide
        slope = 1.0 - shape * special.polygamma(1, shape)  # by log a; below 0
        shape = shape * np.exp(np.clip(-value / slope, -2.0, 2.0))
    narrow = (1.0 + np.sqrt(1.0 + 4.0 * gap / 3.0)) / (4.0 * gap)
    values: FloatArray = np.where(gap < 1e-6, narrow, shape)
    return values


def concentration(spread: FloatArray) -> FloatArray:
    """The κ ≥ 0 with I₁(κ) / I₀(κ) = 1 − spread: the maximum likelihood of a von Mises density.

    Newton's method on the ratio of exponentially scaled Bessel functions, from the start of Best
    and Fisher (1981). For a narrow density 1 − I₁ / I₀ is 1 / 2κ + 1 / 8κ² up to terms of κ⁻³.
    """
    wide = np.clip(spread, 1e-4, 1.0)
    r = 1.0 - wide
    with np.errstate(divide="ignore"):
        middle = -0.4 + 1.39 * r + 0.43 / (1.0 - r)
        high = 1.0 / (r**3 - 4.0 * r**2 + 3.0 * r)
    kappa = np.where(r < 0.53, 2.0 * r + r**3 + 5.0 * r**5 / 6.0, np.where(r < 0.85, middle, high))
    for _ in range(20):
        ratio = special.i1e(kappa) / special.i0e(kappa)
        safe = np.where(kappa > 0.0, kappa, 1.0)
        slope = np.where(kappa > 0.0, 1.0 - ratio / safe - ratio**2, 0.5)
        kappa = np.maximum(kappa - (ratio - r) / slope, 0.0)
    narrow = (1.0 + np.sqrt(1.0 + 2.0 * spread)) / (4.0 * np.maximum(spread, 1e-300))
    values: FloatArray = np.where(spread < 1e-4, narrow, kappa)
    return values
