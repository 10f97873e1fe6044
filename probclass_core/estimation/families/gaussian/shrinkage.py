"""Shrinkage of covariances: the options, and the intensity that the rows suggest.

Chen, Wiesel, Eldar and Hero, "Shrinkage algorithms for MMSE covariance estimation" (2010), eq. 23
without its 2 / d, as in scikit-learn, on features that are scaled to unit variance: units do not
matter. With r the correlations, the intensity is the share of chance in their size, where the
variance of r_ij is that of rows from a normal:

    Σ_ij (r_ij² + 1) / (n_ij + 1) / Σ_i≠j r_ij²,  at most 1,

with n_ij the count of the rows that have both features.
"""

from __future__ import annotations

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.moments import without_rounding

OAS = "oas"


def oas(count: FloatArray, mean: FloatArray, scatter: FloatArray) -> float:
    """The intensity of oracle approximating shrinkage of one covariance, from 0 to 1.

    Args:
        count: Σ w, ``(d, d)``, positive.
        mean: ``(d,)``, the largest of the classes in absolute value.
        scatter: Σ w u v of the deviations u and v of two features, ``(d, d)``.
    """
    variance = without_rounding(np.diagonal(scatter) / np.diagonal(count), mean)
    varies = np.flatnonzero(variance > 0.0)  # others have no correlations
    pairs = np.ix_(varies, varies)
    count, width = count[pairs], np.sqrt(variance[varies])
    correlation = scatter[pairs] / count / np.outer(width, width)
    np.fill_diagonal(correlation, 1.0)
    chance = ((correlation**2 + 1.0) / (count + 1.0)).sum()
    distance = ((correlation - np.eye(len(varies))) ** 2).sum()
    return float(min(chance / distance, 1.0)) if distance > 0.0 else 0.0


def shrunk(covariance: FloatArray, intensity: float) -> FloatArray:
    """(1 − intensity) Σ + intensity · diag(Σ), ``(d, d)``."""
    result: FloatArray = covariance * (1.0 - intensity)
    np.fill_diagonal(result, np.diagonal(covariance))
    return result
