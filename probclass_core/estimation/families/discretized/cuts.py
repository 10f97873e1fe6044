"""Where to cut a numeric column into bins: of equal width, of equal frequency, or by the classes.

But for `bin_name`, each function takes a histogram and gives cut points, ascending: a value below
the first is in the first bin, one at a cut or above it in the next. No cut divides a cell, so a
bin's count is the sum of its cells'.
"""

from __future__ import annotations

import math

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.histogram import Histogram, lower_edges

_TIE = 1e-12
"""Relative difference up to which two counts or entropies are the same but for rounding."""


def bin_name(lower: float, upper: float) -> str:
    """A bin as text; it has its lower bound and not its upper one."""
    if math.isinf(lower):
        return "any" if math.isinf(upper) else f"below {upper:g}"
    return f"from {lower:g}" if math.isinf(upper) else f"{lower:g} to {upper:g}"


def between_cells(histogram: Histogram) -> FloatArray:
    """The cut between each cell and the next, ``(g − 1,)``.

    Midway between distinct values; at the lower edge of the upper cell, where they are cells.
    """
    below, above = histogram.values[:-1], histogram.values[1:]
    if histogram.width:
        return above
    middle = 0.5 * below + 0.5 * above  # their sum may be beyond float64
    return np.where(middle > below, middle, above)


def width_cuts(histogram: Histogram, bins: int) -> FloatArray:
    """Bins of equal width between the least and the largest value, fewer where cells are wider."""
    least, largest = histogram.values[0], histogram.values[-1]
    # The range of doubles is beyond float64, that of their halves is not.
    with np.errstate(over="ignore"):
        unit = 1.0 if np.isfinite(largest - least) else 2.0
    cuts = unit * np.linspace(least / unit, largest / unit, bins + 1)[1:-1]
    if histogram.width:
        cuts = lower_edges(cuts, int(np.frexp(histogram.width)[1]) - 1)
    inner: FloatArray = np.unique(cuts[cuts > least])
    return inner


def frequency_cuts(histogram: Histogram, bins: int) -> FloatArray:
    """Bins of nearly equal count, all classes together.

    Below cut i are as many cells as hold no more than the share i / bins of the rows.
    """
    reached = np.cumsum(histogram.counts.sum(axis=0))
    wanted = np.arange(1, bins) * reached[-1] / bins
    below = np.unique(np.searchsorted(reached, wanted * (1.0 + _TIE), side="right"))
    cuts: FloatArray = between_cells(histogram)[below[below > 0] - 1]
    return cuts


def mdl_cuts(histogram: Histogram) -> FloatArray:
    """Cuts that tell the classes apart, as long as they are worth their description.

    Fayyad and Irani, "Multi-interval discretization of continuous-valued attributes for
    classification learning" (1993): cut where the entropy of the classes falls most, and again on
    either side, while the gain is more than the cut costs to write down (their minimum description
    length principle). A weight is a number of rows; less than two rows cost what two do.
    """
    cells = histogram.counts.shape[1]
    start = np.zeros((len(histogram.counts), 1))
    cumulative = np.concatenate([start, np.cumsum(histogram.counts, axis=1)], axis=1)
    places: list[int] = []
    waiting = [(0, cells)]
    while waiting:
        first, last = waiting.pop()
        place = _split(histogram.counts[:, first:last], cumulative[:, first : last + 1])
        if place:
            places.append(first + place)
            waiting += [(first, first + place), (first + place, last)]
    return between_cells(histogram)[np.array(sorted(places), dtype=np.intp) - 1]


def _split(counts: FloatArray, cumulative: FloatArray) -> int:
    """How many of some cells to cut off, 0 for none.

    Args:
        counts: ``(k, m)``.
        cumulative: before each cell and after the last, ``(k, m + 1)``.
    """
    present = int((counts > 0.0).any(axis=1).sum())
    if present < 2 or counts.shape[1] < 2:
        return 0
    left = cumulative[:, 1:-1] - cumulative[:, :1]
    whole = cumulative[:, -1:] - cumulative[:, :1]
    right = np.maximum(whole - left, 0.0)
    bits = float(_bits(whole)[0])
    bits_left, bits_right = _bits(left), _bits(right)
    after = bits_left + bits_right
    # Of cuts that are equally good but for rounding, the first.
    best = int(np.argmax(after <= after.min() + _TIE * bits))
    total, share = float(whole.sum()), float(left[:, best].sum())
    one = int((counts[:, : best + 1] > 0.0).any(axis=1).sum())
    other = int((counts[:, best + 1 :] > 0.0).any(axis=1).sum())
    # In bits per row: entropies times the number of classes that a side can still tell apart.
    entropies = present * bits / total
    entropies -= one * float(bits_left[best]) / share
    entropies -= other * float(bits_right[best]) / (total - share)
    log_patterns = present * math.log2(3.0) + math.log1p(-2.0 * 3.0**-present) / math.log(2.0)
    cost = math.log2(max(total - 1.0, 1.0)) + log_patterns - entropies
    return best + 1 if bits - float(after[best]) > cost else 0


def _bits(counts: FloatArray) -> FloatArray:
    """Rows times the entropy of their classes, in bits: ``(k, m)`` to ``(m,)``."""
    total = counts.sum(axis=0)
    bits: FloatArray = _times_log2(total) - _times_log2(counts).sum(axis=0)
    return np.maximum(bits, 0.0)


def _times_log2(values: FloatArray) -> FloatArray:
    return values * np.log2(np.where(values > 0.0, values, 1.0))
