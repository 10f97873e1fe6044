"""Counts of a numeric column by class, on a grid that is as fine as a bound on its cells allows.

While a column has few distinct values they are kept as they are. Beyond, each value is moved to the
lower edge of its cell on the grid of width 2^e, ⌊x / 2^e⌋ · 2^e, with the smallest exponent e for
which the occupied cells are few enough.

A histogram depends on its rows alone, not on the order in which they were merged. Every cell of
width 2^e is the union of two of width 2^(e−1), so a coarser grid never occupies more cells, and the
coarse cell of a value is that of the lower edge of its finer cell: the smallest exponent that fits
is well defined and can be found from cells as well as from the values. It is no smaller for more
rows than for some of them, so no part is ever coarser than the whole, and merging parts of one
whole in any order ends at its exponent and its counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray

FEWEST_CELLS = 4
"""A grid of the largest power of two that is a double, 2^1023, has four cells."""

_LEAST, _LARGEST = -1074, 1023
"""Exponents of powers of two that are doubles; every double is a multiple of the least one."""

_LOWEST = -float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Histogram:
    """Weighted counts of one column by class.

    Attributes:
        values: the distinct values, or the lower edges of the occupied cells; ascending, ``(g,)``.
            An edge below all doubles, −2^1024, stands as the lowest double.
        width: 0 for distinct values, else that of a cell, a power of two; in the column's unit.
        counts: Σ w, ``(k, g)``.
    """

    values: FloatArray
    width: float
    counts: FloatArray


def histogram(
    values: FloatArray,
    width: float,
    group: IntArray,
    weights: FloatArray | None,
    groups: int,
    cells: int,
) -> Histogram:
    """The histogram of rows, or of the cells of other histograms: there is no other merge.

    Args:
        values: ``(n,)``, finite: of rows, or of cells.
        width: 0 for rows, the largest width of the histograms for cells.
        group: class of each, ``(n,)``.
        weights: of each, ``(n,)``; none means 1.
        groups: ``k``, how many classes there are.
        cells: how many occupied cells there may be, at least `FEWEST_CELLS`.
    """
    values = values + 0.0  # −0.0 becomes 0.0
    if width:
        values = lower_edges(values, _exponent(width))
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) > cells:
        exponent = _finest(distinct, cells, _exponent(width) if width else _LEAST)
        width = float(np.ldexp(1.0, exponent))
        edges = lower_edges(distinct, exponent)  # ascending, as the values are
        first = np.append(True, edges[1:] != edges[:-1])
        distinct, place = edges[first], (np.cumsum(first) - 1)[place]
    size = len(distinct)
    counts = np.bincount(group * size + place, weights, minlength=groups * size)
    return Histogram(distinct, width, counts.astype(np.float64).reshape(groups, size))


def lower_edges(values: FloatArray, exponent: int) -> FloatArray:
    """⌊x / 2^e⌋ · 2^e, exactly, for any finite doubles; −2^1024 as the lowest double."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(values, -exponent)
        # A negative number that is too small to be scaled is still below 0.
        index = np.where((scaled == 0.0) & (values < 0.0), -1.0, np.floor(scaled))
        edges: FloatArray = np.maximum(np.ldexp(index, exponent), _LOWEST)
    # From 2^52 widths on a double is a multiple of the width, and need not survive the scaling.
    return np.where(np.abs(scaled) >= 2.0**52, values, edges)


def _finest(distinct: FloatArray, cells: int, too_fine: int) -> int:
    """The smallest exponent whose grid has few enough occupied cells, above one that has not.

    Args:
        distinct: ascending, more than ``cells`` of them.
        cells: how many may be occupied.
        too_fine: an exponent at which more are.
    """

    def fits(exponent: int) -> bool:
        return bool(np.count_nonzero(np.diff(lower_edges(distinct, exponent))) < cells)

    # A range of r widths touches less than r + 2 cells. Most columns fill much of their range, so
    # that the answer is near: steps double from there, and the last one is bisected.
    with np.errstate(over="ignore"):
        reach = (distinct[-1] - distinct[0]) / (cells - 2)
    enough = int(np.frexp(reach)[1]) if np.isfinite(reach) else _LARGEST
    enough = min(max(enough, too_fine + 1), _LARGEST)
    step = 1
    while enough - step > too_fine:
        if not fits(enough - step):
            too_fine = enough - step
            break
        enough -= step
        step *= 2
    while enough - too_fine > 1:
        middle = (enough + too_fine) // 2
        if fits(middle):
            enough = middle
        else:
            too_fine = middle
    return enough


def _exponent(width: float) -> int:
    """Of a power of two."""
    return int(np.frexp(width)[1]) - 1
