"""Whether predicted probabilities match observed frequencies.

Predicted probabilities are cut into bins of equal width; each bin compares its mean probability
with the share of its rows in which the prediction came true (DeGroot and Fienberg, "The comparison
and evaluation of forecasters", 1983). The expected calibration error is the mean difference of the
two, weighted by rows: Σ_b n_b/n |frequency_b − probability_b| (Guo, Pleiss, Sun and Weinberger, "On
calibration of modern neural networks", 2017).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, IntArray

BINS = 15
"""Number of bins. Each includes its upper edge and not its lower one; the first also includes 0."""

_EDGES = np.linspace(0.0, 1.0, BINS + 1)


def bin_sums(probability: FloatArray, truth: IntArray) -> FloatArray:
    """Sums by bin: rows, Σ probability, Σ [came true].

    Args:
        probability: P(c | x), ``(n, k)``.
        truth: position of the true class of each row, ``(n,)``.

    Returns:
        ``(1 + k, BINS, 3)``, to be added up over batches: first for the most probable class of each
        row, then for each class.
    """
    rows, classes = probability.shape
    best = probability.argmax(axis=1)
    sums = np.empty((1 + classes, BINS, 3))
    sums[0] = _sums(probability[np.arange(rows), best], best == truth)
    for position in range(classes):
        sums[1 + position] = _sums(probability[:, position], truth == position)
    return sums


def _sums(probability: FloatArray, came_true: np.ndarray) -> FloatArray:
    # Rounding can bring a probability above 1.
    bins = np.clip(np.searchsorted(_EDGES, probability, side="left") - 1, 0, BINS - 1)
    summands = (None, probability, came_true)
    return np.stack([np.bincount(bins, weights=each, minlength=BINS) for each in summands], axis=1)


def reliability_table(sums: FloatArray, class_names: Sequence[str]) -> pa.Table:
    """One row per bin that has rows.

    Returns:
        class (null for the most probable class of each row), lower, upper, rows, probability (mean
        predicted), frequency (share that came true).
    """
    position, number = np.nonzero(sums[:, :, 0])
    rows, probability, came_true = sums[position, number].T
    return pa.table(
        {
            "class": pa.array([None, *class_names], pa.string()).take(pa.array(position)),
            "lower": _EDGES[number],
            "upper": _EDGES[number + 1],
            "rows": rows.astype(np.int64),
            "probability": probability / rows,
            "frequency": came_true / rows,
        }
    )


def calibration_errors(sums: FloatArray) -> FloatArray:
    """Expected calibration errors, ``(1 + k,)``: of the most probable class, then of each class."""
    gaps = np.abs(sums[:, :, 1] - sums[:, :, 2]).sum(axis=1)
    errors: FloatArray = gaps / sums[:, :, 0].sum(axis=1)
    return errors
