"""Whether probabilities mean what they say: the rows told 0.8 should be right four times in five.

Predicted probabilities are cut into bins of equal width; in each, the mean probability stands
beside the share of rows in which what was predicted came true (DeGroot and Fienberg, "The
comparison and evaluation of forecasters", 1983). The expected calibration error is the mean
distance of the two, weighted by rows: Σ_b n_b/n |frequency_b − probability_b| (Guo, Pleiss, Sun and
Weinberger, "On calibration of modern neural networks", 2017).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, IntArray

BINS = 15
"""Bins of equal width, each with its upper edge and without its lower; the first has 0, too."""

_EDGES = np.linspace(0.0, 1.0, BINS + 1)


def bin_sums(probability: FloatArray, truth: IntArray) -> FloatArray:
    """What rows add to each bin: rows, Σ probability, Σ [it came true].

    Args:
        probability: P(c | x), ``(n, k)``.
        truth: the true class of each row, as a position, ``(n,)``.

    Returns:
        ``(1 + k, BINS, 3)``, to be added up: first for the most probable class of each row,
        whichever it is, then for each class.
    """
    rows, classes = probability.shape
    best = probability.argmax(axis=1)
    sums = np.empty((1 + classes, BINS, 3))
    sums[0] = _sums(probability[np.arange(rows), best], best == truth)
    for place in range(classes):
        sums[1 + place] = _sums(probability[:, place], truth == place)
    return sums


def _sums(probability: FloatArray, came_true: np.ndarray) -> FloatArray:
    # A probability may exceed 1 by a rounding.
    bins = np.clip(np.searchsorted(_EDGES, probability, side="left") - 1, 0, BINS - 1)
    columns = (None, probability, came_true)
    return np.stack([np.bincount(bins, weights=each, minlength=BINS) for each in columns], axis=1)


def reliability_table(sums: FloatArray, class_names: Sequence[str]) -> pa.Table:
    """Bins as a table; a bin without rows is left out.

    Returns:
        class (null for the most probable class of each row, whichever it is), lower, upper, rows,
        probability (mean predicted), frequency (share that came true).
    """
    place, number = np.nonzero(sums[:, :, 0])
    rows, probability, came_true = sums[place, number].T
    return pa.table(
        {
            "class": pa.array([None, *class_names], pa.string()).take(pa.array(place)),
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
