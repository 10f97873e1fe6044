"""Probabilities from counts without one row: leave-one-out in closed form.

A row of weight w adds w to its own cell and to the total of its own class, and to nothing else. So
its probability by all other rows is (n − w + α) / (N − w + Σα).
"""

from __future__ import annotations

import numpy as np

from probclass_core.arrow.arrays import FloatArray

_ROUNDING = 1e-9
"""Share of a row's weight below which a difference of sums is 0 up to rounding."""


def without_row(counts: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Counts that include a row, without it, ``(n,)``: not negative, 0 where only rounding is left.

    Args:
        counts: sums of weights that include the row's own, ``(n,)``.
        weights: weight of the row, ``(n,)``; None means 1.
    """
    weight = 1.0 if weights is None else weights
    left = counts - weight
    return np.where(left > _ROUNDING * weight, left, 0.0)


def log_share(
    counts: FloatArray, totals: FloatArray, alpha: FloatArray | float, total_alpha: float
) -> FloatArray:
    """log (n + α) / (N + Σα), ``(n,)``; −inf if the numerator is 0."""
    numerator, denominator = counts + alpha, totals + total_alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.log(numerator) - np.log(denominator)
    return np.where(numerator > 0.0, shares, -np.inf)
