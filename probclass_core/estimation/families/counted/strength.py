"""Strength of a prior: the number of rows that its mean is worth.

    p = (n + s · mean) / (N + s)

The strength s is given, or the one of a few under which the training rows, each left out of its
counts, are most probable. A prior that all classes share has the mean p(x), the distribution of x
whatever the class:

    p(x | c) = (n_c(x) + s p(x)) / (N_c + s),    p(x) = (Σ_c n_c(x) + α) / (Σ_c N_c + α m)

It is the first level of the hierarchical Dirichlet chains of Petitjean, Buntine, Webb and Zaidi,
"Accurate parameter estimation for Bayesian network classifiers using hierarchical Dirichlet
processes" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.kinds.cells import without_row

Numbers: TypeAlias = FloatArray | float

LEAVE_ONE_OUT = "loo"
"""The word for a strength that is to be chosen."""

_STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Strengths to choose from."""

_SHARED_STRENGTHS = _STRENGTHS[:5]
"""Strengths of a shared prior to choose from. A stronger one would take all that a column tells if
it tells little, which block weights decide better."""

_TIE = 1e-12
"""Relative difference up to which two log-likelihoods count as equal: it may be rounding."""


def best_shared_strength(counts: FloatArray, alpha: FloatArray, row_weight: float) -> float:
    """The strength of the prior that all classes share.

    Args:
        counts: by class and value, ``(k, m)``.
        alpha: pseudo-count of each value, ``(m,)``.
        row_weight: average weight of a row, see `Estimator`.
    """
    row, column = np.nonzero(counts)
    cells, total = counts[row, column], counts.sum(keepdims=True).ravel()
    sums = cells, counts.sum(axis=1)[row], counts.sum(axis=0)[column], total
    others, rest, values, all_others = (without_row(each / row_weight) for each in sums)
    mean = smoothed(values, all_others, alpha[column], float(alpha.sum()))
    return best_strength(cells, others, rest, mean, _SHARED_STRENGTHS)


def best_strength(
    counts: FloatArray,
    others: FloatArray,
    rest: FloatArray,
    mean: FloatArray,
    strengths: Sequence[float] = _STRENGTHS,
) -> float:
    """The strength under which training rows are most probable, each left out of its counts.

    Args:
        counts: of cells, ``(n,)``.
        others: the same without one row.
        rest: sum of the counts that the cell's is a share of, without this row.
        mean: mean of the prior without this row.
        strengths: those to choose from, ascending.
    """
    with np.errstate(divide="ignore"):
        scores = np.array(
            [
                counts @ np.log(smoothed(others, rest, strength * mean, strength))
                for strength in strengths
            ]
        )
    best = scores.max()
    tolerance = _TIE * abs(best) if np.isfinite(best) else 0.0
    return strengths[int(np.argmax(scores >= best - tolerance))]


def smoothed(counts: FloatArray, totals: Numbers, mass: Numbers, total_mass: Numbers) -> FloatArray:
    """(n + mass) / (N + total mass); 0 if the numerator is 0."""
    numerator, denominator = counts + mass, totals + total_mass
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(numerator > 0.0, numerator / denominator, 0.0)


def log_share(
    counts: FloatArray, totals: FloatArray, alpha: Numbers, total_alpha: Numbers
) -> FloatArray:
    """log (n + α) / (N + Σα); −inf if the numerator is 0."""
    numerator, denominator = counts + alpha, totals + total_alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.log(numerator) - np.log(denominator)
    return np.where(numerator > 0.0, shares, -np.inf)
