"""Pairs of columns that depend on each other within the classes.

How much two columns say about each other once the class is known is their conditional mutual
information I(x; y | class), in nats (Friedman, Geiger and Goldszmidt, "Bayesian network
classifiers", 1997). The estimate from counts is too large by about (levels of x − 1)(levels of
y − 1) / 2n for each class, half the mean of the χ² statistic of independent columns, which is
subtracted: otherwise columns with many levels would come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.structure.levels import Levels

_MOST_CELLS = 400_000_000
"""Rows times pairs of columns to count: a few seconds."""


@dataclass(frozen=True)
class Pair:
    """A column and the column that it is given.

    Attributes:
        child: place of the column.
        parent: place of the column that tells more of the class.
        information: I(child; parent | class) without its bias, in nats.
    """

    child: int
    parent: int
    information: float


def dependent_pairs(levels: Levels, most: int) -> list[Pair]:
    """The pairs of columns that depend on each other most; ties go to the first columns.

    Args:
        levels: the columns.
        most: largest number of pairs.
    """
    truth, counts, classes = levels.truth, levels.counts, levels.classes
    total = counts.sum()
    singles = [levels.table((place,)) for place in range(len(levels.sizes))]
    of_class = _entropy(levels.of_class, total)
    joint = [_entropy(single, total) for single in singles]
    own = [
        _entropy(single.sum(axis=1), total) + of_class - entropy
        for single, entropy in zip(singles, joint, strict=True)
    ]
    seen = np.array([(single > 0.0).sum(axis=0) for single in singles], dtype=np.float64)
    pairs = []
    columns = _affordable(own, len(truth))
    for place, first in enumerate(columns):
        of_first = levels.codes[first] * classes + truth
        for second in columns[:place]:
            size = levels.sizes[first] * levels.sizes[second] * classes
            cells = levels.codes[second] * (levels.sizes[first] * classes) + of_first
            entropy = _entropy(_count(cells, counts, size), total)
            bias = float(np.maximum(seen[first] - 1.0, 0.0) @ np.maximum(seen[second] - 1.0, 0.0))
            information = joint[first] + joint[second] - entropy - of_class - bias / (2.0 * total)
            if information > 0.0:
                child, parent = (second, first) if own[first] > own[second] else (first, second)
                pairs.append(Pair(child, parent, information))
    # Rounded, so that ties are ties on every machine.
    pairs.sort(key=lambda pair: (-round(pair.information, 9), pair.child, pair.parent))
    return pairs[:most]


def _affordable(own: Sequence[float], rows: int) -> list[int]:
    """The places of the columns to pair, ascending: those that say most about the class."""
    pairs = _MOST_CELLS / max(rows, 1)
    most = int(np.sqrt(2.0 * pairs)) + 1
    order = sorted(range(len(own)), key=lambda place: (-round(own[place], 9), place))
    return sorted(order[:most])


def _count(cells: IntArray, counts: FloatArray, size: int) -> FloatArray:
    """Weights by cell, without the cells that no row has if the cells are many."""
    if size > 4 * len(cells):
        _, cells = np.unique(cells, return_inverse=True)
        size = 0
    return np.bincount(cells, counts, size).astype(np.float64, copy=False)


def _entropy(counts: FloatArray, total: float) -> float:
    """Entropy of a distribution, in nats, from its counts."""
    positive = counts[counts > 0.0]
    return float(np.log(total) - positive @ np.log(positive) / total)
