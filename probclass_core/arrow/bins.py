"""The bin of each number: how many ascending cuts are not above it.

Numbers are looked up in a guide table (Chen and Asau, "On generating random variates from an
empirical distribution", 1974): equal cells on the line, each with the number of cuts before it. A
number's place on the line never falls while numbers rise, rounding included, so its bin begins with
the cuts before its cell, and the few cuts in the cell are compared with the number itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray

_CELLS = 4096
"""Cells of a guide table, so that it stays in the processor's cache."""

_OUTLYING = (0, 1, 2, 4, 8)
"""Numbers of cuts at both ends that the cells may leave out, because they may be far away."""

_MOST_IN_A_CELL = 16
"""Up to this many cuts in one cell, the table is faster than a binary search."""

_FEW_IN_A_CELL = 2
"""With so few cuts in a cell, a table is good enough."""

_LEAST_VALUES = 1024
"""Below this number of values, a binary search takes no longer than making a table."""

_BLOCK = 16_384
"""Values that are looked up at once, so that they stay in the processor's cache."""


def bins_of(values: FloatArray, cuts: Sequence[float]) -> IntArray:
    """Number of cuts that are not above a value: its bin, from 0; any number for NaN: ``(n,)``.

    Args:
        values: ``n`` numbers.
        cuts: ascending.
    """
    guide = _guide(tuple(cuts)) if len(cuts) and len(values) >= _LEAST_VALUES else None
    if guide is None or guide.most > _MOST_IN_A_CELL:
        return np.searchsorted(np.asarray(cuts, np.float64), values, side="right")
    bins = np.empty(len(values), np.intp)
    with np.errstate(over="ignore"):  # numbers may be far from the cells
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            bins[block] = guide.bins(values[block])
    return bins


@dataclass(frozen=True)
class _Guide:
    """A guide table.

    Attributes:
        low: the number at which the cells begin.
        scale: cells per unit.
        cuts: the cuts, then infinity.
        before: number of cuts before each cell.
        most: largest number of cuts in a cell.
    """

    low: float
    scale: float
    cuts: FloatArray
    before: IntArray
    most: int

    def bins(self, values: FloatArray) -> IntArray:
        """See `bins_of`."""
        bins: IntArray = self.before.take(_cells(values, self.low, self.scale))
        for _ in range(self.most):
            bins += values >= self.cuts.take(bins)
        return bins


@functools.lru_cache(maxsize=1024)
def _guide(cuts: tuple[float, ...]) -> _Guide | None:
    """A table with few cuts in each cell; None if the cuts are too near or too far."""
    best: _Guide | None = None
    for left_out in _OUTLYING[: 1 + len(cuts) // 4]:
        low, high = cuts[left_out], cuts[-1 - left_out]
        scale = (_CELLS - 1) / ((high - low) or 1.0)
        if 0.0 < scale < math.inf:
            occupied = _cells(np.array(cuts), low, scale)
            most = int(np.bincount(occupied).max())
            if best is None or most < best.most:
                before = np.searchsorted(occupied, np.arange(_CELLS))
                best = _Guide(low, scale, np.array([*cuts, math.inf]), before, most)
            if most <= _FEW_IN_A_CELL:
                break
    return best


def _cells(values: FloatArray, low: float, scale: float) -> IntArray:
    """The cell of each number, the first or the last if it is beyond them; NaN in the first."""
    places = values - low
    places *= scale
    np.fmax(places, 0.0, out=places)
    np.fmin(places, _CELLS - 1, out=places)
    return places.astype(np.int32)
