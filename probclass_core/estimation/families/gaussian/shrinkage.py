"""Shrinkage of covariances towards their diagonal: the option, and Ledoit and Wolf's intensity.

Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance matrices" (2004),
on features that are scaled to unit variance, so that units do not matter. With the correlations r,
the target is the identity, and the intensity is the share of chance in their distance from it:

    Σ_ij Var(r_ij) / Σ_ij (r_ij − δ_ij)²,  at most 1,
    Var(r_ij) = (Σ w u² v² / (n σ_i² σ_j²) − r_ij²) / n,

with u and v the deviations of features i and j from the mean of their class. With nulls, n and the
sums of each pair are those of the rows that have both features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError
from probclass_core.estimation.moments import without_rounding
from probclass_core.estimation.options import OptionPath, option

LEDOIT_WOLF = "ledoit_wolf"

_LEAST_VARIANCE, _LARGEST_VARIANCE = 1e-145, 1e150
"""Bounds of variances whose squares, over many rows, are within float64."""


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

    return option(None, parse, expected=expected, doc=doc, omit_default=True)


def ledoit_wolf(
    features: Sequence[str],
    count: FloatArray,
    mean: FloatArray,
    scatter: FloatArray,
    fourth: FloatArray,
) -> float:
    """The intensity of shrinkage of one covariance, from 0 to 1.

    Args:
        features: ``d`` names.
        count: Σ w, ``(d, d)``, positive.
        mean: ``(d,)``, the largest of the classes in absolute value.
        scatter: Σ w u v, ``(d, d)``.
        fourth: Σ w u² v², ``(d, d)``.

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
    # A feature without variance has no correlations.
    varies = np.flatnonzero(variance)
    pairs = np.ix_(varies, varies)
    count, width = count[pairs], np.sqrt(variance[varies])
    correlation = scatter[pairs] / count / width[:, None] / width
    square = width * width
    spread = fourth[pairs] / count / square[:, None] / square - correlation * correlation
    chance = (np.maximum(spread, 0.0) / count).sum()
    np.fill_diagonal(correlation, 0.0)  # 1 of itself and 1 of the target
    distance = (correlation * correlation).sum()
    return float(min(chance / distance, 1.0)) if distance > 0.0 else 0.0


def shrunk(covariance: FloatArray, intensity: float) -> FloatArray:
    """(1 − intensity) Σ + intensity diag(Σ), ``(d, d)``."""
    result: FloatArray = covariance * (1.0 - intensity)
    np.fill_diagonal(result, np.diagonal(covariance))
    return result
