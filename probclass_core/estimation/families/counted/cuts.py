"""Cut points for a numeric column: bins of equal width, of equal frequency, or by the classes.

Cut points are ascending: a value below the first is in the first bin, a value at a cut or above it
in the next. No cut divides a cell of the histogram, so a bin's count is the sum of its cells'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.estimation.histogram import Histogram, lower_edges
from probclass_core.estimation.options import OptionPath, parse_table

_MOST_COUNTS, _FEWEST_GROUPS = 4_194_304, 64
"""Counts by class and cell that MDL works on, and groups of cells that there are at least."""

_TIE = 1e-12
"""Relative difference up to which two counts or entropies count as equal: it may be rounding."""


def parse_cuts(path: OptionPath, given: Any) -> dict[str, list[float]]:
    """Ascending cut points by column, from the plain value of an option."""
    cuts = {}
    for column, values in parse_table(path, given).items():
        part = path.part(f"{path.option} of {column!r}")
        listed = isinstance(values, Sequence) and not isinstance(values, str)
        listed = listed and all(
            isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
        )
        if not listed or any(below >= above for below, above in pairwise(values)):
            raise part.error("a list of ascending numbers", values)
        cuts[column] = [float(value) for value in values]
    return cuts


def cut_points(histogram: Histogram, method: str, bins: int, row_weight: float) -> list[float]:
    """The cuts of a column by one of the methods below; none if it has no values."""
    if not len(histogram.values):
        return []
    if method == "mdl":
        cuts = mdl_cuts(histogram, row_weight)
    else:
        cuts = {"width": width_cuts, "frequency": frequency_cuts}[method](histogram, bins)
    return [float(cut) for cut in cuts]


def between_cells(histogram: Histogram) -> FloatArray:
    """The cut between each cell and the next, ``(g − 1,)``.

    Midway between distinct values; for cells on a grid, at the lower edge of the upper cell.
    """
    below, above = histogram.values[:-1], histogram.values[1:]
    if histogram.width:
        return above
    middle = 0.5 * below + 0.5 * above  # their sum could exceed float64
    return np.where(middle > below, middle, above)


def width_cuts(histogram: Histogram, bins: int) -> FloatArray:
    """Bins of equal width between the least and the largest value, fewer if cells are wider."""
    least, largest = histogram.values[0], histogram.values[-1]
    # The range of two doubles can exceed float64, that of their halves cannot.
    with np.errstate(over="ignore"):
        unit = 1.0 if np.isfinite(largest - least) else 2.0
    cuts = unit * np.linspace(least / unit, largest / unit, bins + 1)[1:-1]
    if histogram.width:
        cuts = lower_edges(cuts, int(np.frexp(histogram.width)[1]) - 1)
    inner: FloatArray = np.unique(cuts[cuts > least])
    return inner


def frequency_cuts(histogram: Histogram, bins: int) -> FloatArray:
    """Bins of nearly equal count, all classes together.

    Cut i is above the most cells that contain at most the share i / bins of the rows.
    """
    cumulative = np.cumsum(histogram.counts.sum(axis=0))
    target = np.arange(1, bins) * cumulative[-1] / bins
    below = np.unique(np.searchsorted(cumulative, target * (1.0 + _TIE), side="right"))
    cuts: FloatArray = between_cells(histogram)[below[below > 0] - 1]
    return cuts


def mdl_cuts(histogram: Histogram, row_weight: float = 1.0) -> FloatArray:
    """Cuts that separate the classes, as long as they gain more information than they cost.

    Fayyad and Irani, "Multi-interval discretization of continuous-valued attributes for
    classification learning" (1993): cut where the entropy of the classes drops most, then again on
    either side, while the gain exceeds the length of the cut's description (their minimum
    description length principle). Fewer than two rows cost the same as two.

    Args:
        histogram: counts of the column by class.
        row_weight: weight of a row in these counts.
    """
    counts = histogram.counts / row_weight
    starts = _coarse(counts)
    if len(starts) < counts.shape[1]:
        counts = np.add.reduceat(counts, starts, axis=1)
    before = np.zeros((counts.shape[0], counts.shape[1] + 1))
    np.cumsum(counts, axis=1, out=before[:, 1:])
    splits = _splits(before, _log_patterns(len(counts)))
    return between_cells(histogram)[starts[splits] - 1]


def _coarse(counts: FloatArray) -> IntArray:
    """First cells of groups of cells to be cut between, so that thousands of classes take seconds.

    Groups have nearly equal counts. With up to a thousand classes every cell of the default number
    is a group.

    Args:
        counts: ``(k, m)``.
    """
    classes, cells = counts.shape
    most = max(_MOST_COUNTS // classes, _FEWEST_GROUPS)
    if cells <= most:
        return np.arange(cells)
    of_all = counts.sum(axis=0)
    before = np.cumsum(of_all) - of_all
    group = np.floor(before / of_all.sum() * most)
    return np.flatnonzero(np.append(True, np.diff(group) > 0.0))


def _splits(before: FloatArray, log_patterns: FloatArray) -> IntArray:
    """Number of cells below each cut, ascending.

    Args:
        before: counts before each cell and after the last, ``(k, m + 1)``.
        log_patterns: see `_log_patterns`.
    """
    splits: list[int] = []
    pending = [(0, before.shape[1] - 1)]
    while pending:
        first, last = pending.pop()
        size = _split(before[:, first : last + 1], log_patterns)
        if size:
            splits.append(first + size)
            pending += [(first, first + size), (first + size, last)]
    return np.array(sorted(splits), dtype=np.intp)


def _split(before: FloatArray, log_patterns: FloatArray) -> int:
    """Number of cells below the best cut, or 0 if no cut is worth its cost; see `_splits`."""
    both = before[:, -1:] - before[:, :1]
    present = np.count_nonzero(both)
    if present < 2 or before.shape[1] < 3:
        return 0
    left = before[:, 1:-1] - before[:, :1]
    right = np.maximum(both - left, 0.0)
    bits = float(_bits(both)[0])
    bits_left, bits_right = _bits(left), _bits(right)
    after = bits_left + bits_right
    # The first of the cuts that are equally good up to rounding.
    best = int(np.argmax(after <= after.min() + _TIE * bits))
    # Entropies in bits per row, times the number of classes that are present.
    entropies = present * bits / float(both.sum())
    for part, bits_of_part in ((left, bits_left), (right, bits_right)):
        rows = part[:, best]
        # Rows may be lost among others of far larger weights.
        total = float(rows.sum()) or 1.0
        entropies -= np.count_nonzero(rows) * float(bits_of_part[best]) / total
    cost = math.log2(max(float(both.sum()) - 1.0, 1.0)) + float(log_patterns[present]) - entropies
    return best + 1 if bits - float(after[best]) > cost else 0


def _log_patterns(classes: int) -> FloatArray:
    """log₂(3^c − 2) for c classes, from none (with 0) to all, ``(classes + 1,)``."""
    number = np.arange(classes + 1.0).clip(min=1.0)
    patterns: FloatArray = number * np.log2(3.0) + np.log1p(-2.0 * 3.0**-number) / np.log(2.0)
    return patterns


def _bits(counts: FloatArray) -> FloatArray:
    """Number of rows times the entropy of their classes, in bits: ``(k, m)`` to ``(m,)``."""
    total = counts.sum(axis=0)
    bits: FloatArray = _times_log2(total) - _times_log2(counts).sum(axis=0)
    return np.maximum(bits, 0.0)


def _times_log2(values: FloatArray) -> FloatArray:
    return values * np.log2(np.where(values > 0.0, values, 1.0))
