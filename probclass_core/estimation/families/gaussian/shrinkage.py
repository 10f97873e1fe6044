"""Shrinkage of covariances: the options, and the intensity that the rows suggest.

Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices" (2004), on
features that are scaled so that the target has unit variances: units do not matter. With s the
entries of the scaled covariance, t those of the target, the intensity is the share of chance in
their distance:

    Σ_ij Var(s_ij) / Σ_ij (s_ij − t_ij)²,  at most 1,
    Var(s_ij) = (Σ w u² v² / n − s_ij²) / n,

with u and v the scaled deviations of features i and j from the mean of their class. With nulls, n
and the sums of each pair are those of the rows that have both features.

The target is the diagonal of the covariance; or, for the covariance of a class, that within all
classes, as in Friedman, "Regularized discriminant analysis" (1989). The rows of the class are part
of this target, which reduces the distance that is chance by their share of the rows (Schäfer and
Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", 2005, eq. 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError
from probclass_core.estimation.moments import without_rounding
from probclass_core.estimation.options import OptionPath, option

LEDOIT_WOLF = "ledoit_wolf"

_FEW_ROWS = 2
"""Up to this number, the deviations of rows are equal but for the sign, and show no chance."""

_LEAST_VARIANCE, _LARGEST_VARIANCE = 1e-145, 1e150
"""Bounds of variances whose squares, over many rows, are within float64."""


class Target(NamedTuple):
    """The covariance within all classes, as the target of the covariance of a class.

    Attributes:
        covariance: ``(d, d)``.
        rows: Σ w of the rows of all classes.
    """

    covariance: FloatArray
    rows: float


def shrinkage(doc: str) -> Any:
    """Declare the option ``shrinkage``."""
    expected = f"{LEDOIT_WOLF!r}, a number from 0 to 1, or None"

    def parse(path: OptionPath, value: Any) -> float | str | None:
        if value is None or value == LEDOIT_WOLF:
            return value  # type: ignore[no-any-return]  # it is None or text
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not (is_number and 0.0 <= value <= 1.0):
            raise path.error(expected, value)
        return float(value)

    return option(None, parse, expected=expected, doc=doc)


def ledoit_wolf(
    features: Sequence[str],
    count: FloatArray,
    mean: FloatArray,
    scatter: FloatArray,
    fourth: FloatArray,
    target: Target | None = None,
) -> float:
    """The intensity of shrinkage of one covariance, from 0 to 1.

    Args:
        features: ``d`` names.
        count: Σ w, ``(d, d)``, positive.
        mean: ``(d,)``, the largest of the classes in absolute value.
        scatter: Σ w u v, ``(d, d)``.
        fourth: Σ w u² v², ``(d, d)``.
        target: the covariance within all classes; None for the diagonal of this one.

    Raises:
        DataError: if fourth powers of a feature are too large or too small for float64.
    """
    variance = without_rounding(np.diagonal(scatter) / np.diagonal(count), mean)
    for feature, value in zip(features, variance.tolist(), strict=True):
        if not value <= _LARGEST_VARIANCE:
            raise DataError(
                f"column {feature!r} has values too large for shrinkage={LEDOIT_WOLF!r} (beyond "
                "1e75); divide it by a power of ten, or give shrinkage a number."
            )
        if 0.0 < value < _LEAST_VARIANCE:
            raise DataError(
                f"column {feature!r} has values too small for shrinkage={LEDOIT_WOLF!r} (within "
                "1e-72); multiply it by a power of ten, or give shrinkage a number."
            )
    scale = variance if target is None else np.diagonal(target.covariance)
    # A feature without variance has no correlations.
    varies = np.flatnonzero(scale > 0.0)
    pairs = np.ix_(varies, varies)
    count, square = count[pairs], scale[varies]
    unit = np.sqrt(square[:, None]) * np.sqrt(square)
    covariance = scatter[pairs] / count / unit
    spread = fourth[pairs] / count / square[:, None] / square - covariance * covariance
    chance = (np.maximum(spread, 0.0) / count).sum()
    if target is None:
        goal = np.diag(np.diagonal(covariance))
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
