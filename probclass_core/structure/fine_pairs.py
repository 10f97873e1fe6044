"""Pairs of numbers in finer bins than each of them has alone.

The bins of a number are those that tell the classes apart by it alone. Where classes differ by two
numbers together, as two arcs that lie in each other do, such bins are too coarse: the pair is cut
into 8, 16 or 32 bins of equal weight along each number. What a pair tells is measured by the
class that the other rows of its cell, and one more row that the classes share as the prior says,
give to each row; it is compared with the bins that the numbers have alone, and with the product of
the two, as if they were independent::

    P(c | cell) = (n_c(cell) − 1 + P(c)) / n(cell)         for a row of class c

Its blocks have twice as many bins, and each row is shared out among its own and those next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.formulas import MOST_LOOKUPS
from probclass_core.structure.levels import Levels, bins_with_null

BINS = (8, 16, 32)
"""Numbers of bins of each number that are tried."""

WINDOW = 2
"""Bins of a block for each bin that is tried; its rows are shared out among as many."""

_ROWS_OF_CELL = 2.0
"""Rows for each cell, on average. Only rows count that a second class is there for: of 1,000 rows
of which 20 are of the rare class, 40."""

_MOST_COLUMNS = 24
"""Columns that are paired: those whose own bins tell most."""


Cuts = tuple[float, ...]


@dataclass(frozen=True)
class FinePair:
    """Two numbers and the cut points that are tried.

    Attributes:
        first: place of a number.
        second: place of another.
        cuts: ascending cut points of the first and of the second for `WINDOW` times each number of
            bins that is tried.
    """

    first: int
    second: int
    cuts: Sequence[tuple[Cuts, Cuts]]


def fine_pairs(
    values: Sequence[FloatArray], levels: Levels, most: int, own: FloatArray | None = None
) -> list[FinePair]:
    """The pairs of numbers that gain most by finer bins, the best first; none that loses.

    Args:
        values: numbers of each row, NaN for null, ``(n,)``, by column.
        levels: the same columns in the bins that each of them has alone.
        most: largest number of pairs.
        own: weight that is left out of the cells of each row, ``(n,)``; by default that of one row.
    """
    of_class = levels.of_class
    contrasted = np.minimum(of_class, of_class.sum() - of_class).sum()
    tried = [
        bins
        for bins in BINS
        if contrasted >= _ROWS_OF_CELL * bins**2
        and levels.classes * (WINDOW * bins + 2) ** 2 <= MOST_LOOKUPS  # with nulls and new values
    ]
    if not tried:
        return []
    own = np.minimum(levels.counts, 1.0) if own is None else own
    alone = [_loss(levels, own, place) for place in range(len(values))]
    columns = sorted(range(len(values)), key=lambda place: (round(alone[place], 9), place))
    columns = sorted(columns[:_MOST_COLUMNS])
    coarse = levels.of(columns)
    of_blocks = [WINDOW * bins for bins in tried]
    cuts = [equal_cuts(values[place], levels.counts, [*tried, *of_blocks]) for place in columns]
    finer = []
    for number in range(len(tried)):
        codes = [
            bins_with_null(values[place], of_column[number])
            for place, of_column in zip(columns, cuts, strict=True)
        ]
        finer.append(replace(coarse, codes=codes, sizes=[int(each.max()) + 1 for each in codes]))
    # Independent numbers lose (bins² − 1)(classes − 1) / 2n by being counted together; half of that
    # is too little for numbers that do not depend on each other.
    chance = [(bins**2 - 1) * (levels.classes - 1) / (4.0 * of_class.sum()) for bins in tried]
    found = []
    for pair in combinations(range(len(columns)), 2):
        losses = [_loss(fine, own, *pair) for fine in finer]
        gain = round(_loss(coarse, own, *pair) - min(losses), 9)  # so that ties are ties
        if gain > 0.0 and any(
            loss - _loss_if_independent(fine, *pair) <= allowed
            for loss, fine, allowed in zip(losses, finer, chance, strict=True)
        ):
            found.append((-gain, *pair))
    return [
        FinePair(
            columns[first],
            columns[second],
            [*zip(cuts[first][len(tried) :], cuts[second][len(tried) :], strict=True)],
        )
        for _, first, second in sorted(found)[:most]
    ]


def _loss(levels: Levels, own: FloatArray, *columns: int) -> float:
    """Mean log loss of the class of each row by the other rows of its cell, in nats.

    Args:
        levels: the rows.
        own: weight of each row that is left out of its cell, ``(n,)``.
        columns: places of the columns whose levels are the cells.
    """
    cells = levels.cells(columns)
    both = cells * levels.classes + levels.truth
    with_class = np.bincount(both, levels.counts)[both] - own
    in_cell = np.bincount(cells, levels.counts)[cells] - own
    prior = levels.of_class[levels.truth] / levels.of_class.sum()
    losses = np.log(in_cell + 1.0) - np.log(np.maximum(with_class, 0.0) + prior)
    return float(losses @ levels.counts / levels.of_class.sum())


def _loss_if_independent(levels: Levels, first: int, second: int) -> float:
    """Mean log loss if two columns, by place, are independent within the classes, in nats."""
    from scipy.special import logsumexp

    scores = np.log(np.maximum(levels.of_class, np.finfo(np.float64).tiny))
    for place, axis in ((first, 1), (second, 0)):
        smooth = levels.table((place,)) + 0.5
        scores = scores + np.expand_dims(np.log(smooth / smooth.sum(axis=0)), axis)
    losses = logsumexp(scores, axis=2, keepdims=True) - scores
    return float((levels.table((first, second)) * losses).sum() / levels.of_class.sum())


def equal_cuts(values: FloatArray, counts: FloatArray, tried: Sequence[int]) -> list[Cuts]:
    """Cut points between bins of about the same weight, for some numbers of bins.

    They are fewer where values repeat. If the least value alone has the weight of a bin, it is a
    bin of its own.
    """
    known = ~np.isnan(values)
    order = np.argsort(values[known], kind="stable")
    ascending, weights = values[known][order], np.cumsum(counts[known][order])
    if not len(ascending):
        return [()] * len(tried)
    least = ascending[0]
    above = ascending[np.searchsorted(ascending, least, side="right") :][:1]
    found = []
    for bins in tried:
        cuts = ascending[np.searchsorted(weights, weights[-1] * np.arange(1, bins) / bins)]
        cuts = np.where(cuts == least, above, cuts) if len(above) else cuts
        found.append(tuple(np.unique(cuts[cuts > least]).tolist()))
    return found
