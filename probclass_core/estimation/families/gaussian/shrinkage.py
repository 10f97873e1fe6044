"""Shrinkage of covariances: the options, and the intensity that the rows suggest.

Chen, Wiesel, Eldar and Hero, "Shrinkage algorithms for MMSE covariance estimation" (2010), eq. 23
without its 2 / d, as in scikit-learn, on features that are scaled so that the target has unit
variances: units do not matter. With s the entries of the scaled covariance, t those of the target,
the intensity is the share of chance in their distance, where the variance of s_ij is that of rows
from a normal:

    Σ_ij (s_ij² + s_ii s_jj) / (n_ij + 1) / Σ_ij (s_ij − t_ij)²,  at most 1,

with n_ij the count of the rows that have both features.

The target is the diagonal of the covariance; or, for the covariance of a class, that within all
classes, as in Friedman, "Regularized discriminant analysis" (1989). The rows of the class are part
of this target, which reduces the distance that is chance by their share of the rows (Schäfer and
Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", 2005, eq. 6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.moments import without_rounding

OAS = "oas"

_FEW_ROWS = 2
"""Up to this number, deviations of rows are equal but for the sign: every correlation is ±1."""


class Target(NamedTuple):
    """The covariance within all classes, as the target of the covariance of a class.

    Attributes:
        covariance: ``(d, d)``.
        rows: Σ w of the rows of all classes.
    """

    covariance: FloatArray
    rows: float


def oas(
    count: FloatArray, mean: FloatArray, scatter: FloatArray, target: Target | None = None
) -> float:
    """The intensity of oracle approximating shrinkage of one covariance, from 0 to 1.

    Args:
        count: Σ w, ``(d, d)``, positive.
        mean: ``(d,)``, the largest of the classes in absolute value.
        scatter: Σ w u v of the deviations u and v of two features, ``(d, d)``.
        target: the covariance within all classes; None for the diagonal of this one.
    """
    variance = without_rounding(np.diagonal(scatter) / np.diagonal(count), mean)
    scale = variance if target is None else np.diagonal(target.covariance)
    # A feature without variance has no correlations.
    varies = np.flatnonzero(scale > 0.0)
    pairs = np.ix_(varies, varies)
    count, width = count[pairs], np.sqrt(scale[varies])
    unit = width[:, None] * width
    covariance = scatter[pairs] / count / unit
    variance = np.diagonal(covariance)
    chance = ((covariance**2 + variance[:, None] * variance) / (count + 1.0)).sum()
    if target is None:
        goal = np.diag(variance)
    else:
        if count.max(initial=0.0) <= _FEW_ROWS:
            return 1.0
        goal = target.covariance[pairs] / unit
        chance *= max(1.0 - count.max(initial=0.0) / target.rows, 0.0)
    distance = ((covariance - goal) ** 2).sum()
    return float(min(chance / distance, 1.0)) if distance > 0.0 else 0.0


def shrunk(covariance: FloatArray, intensity: float, target: Target | None = None) -> FloatArray:
    """(1 − intensity) Σ + intensity · target, ``(d, d)``; without a target, towards diag(Σ)."""
    if target is not None:
        mixed: FloatArray = (1.0 - intensity) * covariance + intensity * target.covariance
        return mixed
    result: FloatArray = covariance * (1.0 - intensity)
    np.fill_diagonal(result, np.diagonal(covariance))
    return result
