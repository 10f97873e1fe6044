"""Counts of a numeric column by class, on the finest grid with a bounded number of cells.

A column with few distinct values is counted exactly. With more, each value is rounded down to the
lower edge of its cell on the grid of width 2^e, ⌊x / 2^e⌋ · 2^e, with the smallest exponent e for
which few enough cells are occupied.

A histogram depends on its rows only, not on the order in which parts were merged. Every cell of
width 2^e is the union of two cells of width 2^(e−1), so a coarser grid never occupies more cells,
and the coarse cell of a value is that of the lower edge of its finer cell. So the smallest exponent
that fits is well defined, and can be found from cells as well as from values. It never decreases
when rows are added: no part is coarser than the whole, and merging the parts in any order gives
the exponent and the counts of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray, distinct

FEWEST_CELLS = 4
"""The coarsest grid, of width 2^1023, the largest power of two that is a double, has four cells."""

_LEAST, _LARGEST = -1074, 1023
"""Exponents of the powers of two that are doubles; every double is a multiple of the least."""

_LOWEST = -float(np.finfo(np.float64).max)

_CELLS_PER_VALUE = 4
"""Cells of a range, for all classes together, that are counted in a table, per value."""

_ALIGNED = 4.0
"""A table begins at a multiple of so many cells, so that they can be joined twice as they are."""


@dataclass(frozen=True)
class Histogram:
    """Weighted counts of one column by class.

    Attributes:
        values: distinct values, or lower edges of the occupied cells, ascending, ``(g,)``. The edge
            −2^1024, which is not a double, is given as the lowest double.
        width: width of a cell, a power of two, in the unit of the column; 0 for distinct values.
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
    cells: float,
) -> Histogram:
    """The histogram of rows, or of the cells of other histograms, which merges them.

    Args:
        values: finite values of rows, or lower edges of cells, ``(n,)``.
        width: 0 for rows; for cells, the largest width among their histograms.
        group: class of each value, ``(n,)``.
        weights: weight of each value, ``(n,)``, or None for weights of 1.
        groups: number of classes, ``k``.
        cells: largest number of occupied cells, at least `FEWEST_CELLS`; infinity for no bound.
    """
    if len(values) > cells:  # a grid that is too fine for some values is too fine for all of them
        width = _width(values[:: -(-len(values) // int(2 * cells))], width, cells)
    counted = _on_grid(values, _exponent(width), group, weights, groups, cells) if width else None
    if counted is not None:
        return counted
    too_fine = _exponent(width) if width else _LEAST
    if width:
        values = lower_edges(values, too_fine)
    found, position = distinct(values + 0.0)  # −0.0 becomes 0.0
    if len(found) > cells:
        exponent = _finest(found, cells, too_fine)
        width = float(np.ldexp(1.0, exponent))
        edges = lower_edges(found, exponent)  # ascending, as the values are
        found = _unique(edges)
        position = np.searchsorted(found, edges)[position]
    size = len(found)
    counts = np.bincount(group * size + position, weights, minlength=groups * size)
    return Histogram(found, width, counts.astype(np.float64).reshape(groups, size))


def _on_grid(
    values: FloatArray,
    exponent: int,
    group: IntArray,
    weights: FloatArray | None,
    groups: int,
    cells: float,
) -> Histogram | None:
    """The histogram by a table of all cells of the range, or None if it has too many to count.

    The exponent is of a grid that is not coarser than that of the histogram; see it for the others.
    """
    if not len(values) or not -_LARGEST <= exponent < _LARGEST:  # the scale has all its digits
        return None
    with np.errstate(over="ignore"):
        low, high = _cell_numbers(np.array([values.min(), values.max()]), exponent).tolist()
        low -= low % _ALIGNED
        size = high - low + 1.0
        size += -size % _ALIGNED
        is_small = size * groups <= _CELLS_PER_VALUE * len(values)
    if not is_small:
        return None
    code = group * int(size)
    code += (_cell_numbers(values, exponent) - low).astype(np.intp)
    counts = np.bincount(code, weights, minlength=groups * int(size)).reshape(groups, -1)
    return _joined(counts, low, exponent, cells)


def _joined(counts: np.ndarray, low: float, exponent: int, cells: float) -> Histogram:
    """The histogram of a table of counts, whose cells are joined two by two until few are occupied.

    Args:
        counts: ``(k, m)``, of all cells of a range.
        low: number of the first one.
        exponent: of their width, which is not coarser than that of the histogram.
        cells: largest number of occupied cells.
    """
    while np.count_nonzero(occupied := counts.any(axis=0)) > cells:
        before = int(low % 2.0)  # the grid of twice the width has its first cell at an even one
        after = (before + counts.shape[1]) % 2
        if before or after:
            counts = np.pad(counts, ((0, 0), (before, after)))
        low, exponent = (low - before) / 2.0, exponent + 1
        counts = counts[:, ::2] + counts[:, 1::2]
    place = np.flatnonzero(occupied)
    width = float(np.ldexp(1.0, exponent))
    return Histogram(_edges(low, place, exponent), width, counts[:, place].astype(np.float64))


def _width(values: FloatArray, width: float, cells: float) -> float:
    """The width of the histogram of rows or cells; see `histogram`."""
    found = np.unique(values)
    if width:
        found = _unique(lower_edges(found, _exponent(width)))
    if len(found) <= cells:
        return width
    return float(np.ldexp(1.0, _finest(found, cells, _exponent(width) if width else _LEAST)))


def _unique(values: FloatArray) -> FloatArray:
    """The distinct ones of ascending values."""
    is_first = np.ones(len(values), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]


def _edges(low: float, place: IntArray, exponent: int) -> FloatArray:
    """Lower edges of cells, given their place after the first one of a table."""
    with np.errstate(over="ignore"):
        edges: FloatArray = np.maximum(np.ldexp(low + place, exponent), _LOWEST) + 0.0
    return edges


def _cell_numbers(values: FloatArray, exponent: int) -> FloatArray:
    """⌊x / 2^e⌋, for an exponent whose power of two and its inverse have all their digits."""
    # An integer, unlike a small fraction, is not 0 after scaling.
    scaled = _scaled(np.floor(values) if exponent > 0 else values, -exponent)
    return np.floor(scaled, out=scaled)


def lower_edges(values: FloatArray, exponent: int) -> FloatArray:
    """⌊x / 2^e⌋ · 2^e, exact for all finite doubles; the lowest double instead of −2^1024."""
    with np.errstate(over="ignore"):
        # An integer, unlike a small fraction, is not 0 after scaling.
        edges = _scaled(np.floor(values) if exponent > 0 else values, -exponent)
        largest = max(-edges.min(initial=0.0), edges.max(initial=0.0))
        # From 2^52 widths on, a double is a multiple of the width, and scaling it may overflow.
        large = np.abs(edges) >= 2.0**52 if largest >= 2.0**52 else None
        # In place: new memory would take longer than the arithmetic.
        np.floor(edges, out=edges)
        _scaled(edges, exponent, out=edges)
        np.maximum(edges, _LOWEST, out=edges)
    return edges if large is None else np.where(large, values, edges)


def _scaled(values: FloatArray, exponent: int, out: FloatArray | None = None) -> FloatArray:
    """x · 2^e, rounded only if it is beyond the doubles or very small."""
    scaled: FloatArray
    if abs(exponent) < _LARGEST:  # a product takes less time than numpy.ldexp
        scaled = np.multiply(values, np.ldexp(1.0, exponent), out=out)
    else:
        scaled = np.ldexp(values, exponent, out=out)
    return scaled


def _finest(values: FloatArray, cells: float, too_fine: int) -> int:
    """The smallest exponent whose grid has few enough occupied cells.

    Args:
        values: distinct values, ascending, more than ``cells``.
        cells: largest number of occupied cells.
        too_fine: an exponent whose grid has more occupied cells.
    """

    def fits(exponent: int) -> bool:
        edges = lower_edges(values, exponent)
        return bool(np.count_nonzero(edges[1:] != edges[:-1]) < cells)

    # A range of r widths touches fewer than r + 2 cells. Most columns fill much of their range, so
    # the answer is near that exponent: steps from there double, and the last one is bisected.
    with np.errstate(over="ignore"):
        reach = (values[-1] - values[0]) / (cells - 2)
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
    """The exponent of a power of two."""
    return int(np.frexp(width)[1]) - 1
