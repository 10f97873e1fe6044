"""Columns of rows as levels: what they tell of the class, and which depend on each other within it.

How much two columns say about each other once the class is known is their conditional mutual
information I(x; y | class), in nats (Friedman, Geiger and Goldszmidt, "Bayesian network
classifiers", 1997). The estimate from counts is too large by about (levels of x − 1)(levels of
y − 1) / 2n for each class, half the mean of the χ² statistic of independent columns, which is
subtracted: otherwise columns with many levels would come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray

_MOST_CELLS = 400_000_000
"""Rows times pairs of columns to count: a few seconds."""


@dataclass(frozen=True)
class Levels:
    """The level of each row in each of some columns: a bin, a category, or null.

    Attributes:
        codes: level of each row, ``(n,)``, by column.
        sizes: number of levels of each column.
        truth: class of each row as a code, ``(n,)``.
        counts: weight of each row, ``(n,)``.
        classes: number of classes.
    """

    codes: Sequence[IntArray]
    sizes: Sequence[int]
    truth: IntArray
    counts: FloatArray
    classes: int

    def of(self, columns: Sequence[int]) -> Levels:
        """Some of the columns, by place."""
        codes = [self.codes[place] for place in columns]
        return replace(self, codes=codes, sizes=[self.sizes[place] for place in columns])

    def shape(self, columns: Sequence[int]) -> list[int]:
        """Number of levels of each of some columns, then of classes."""
        return [*(self.sizes[place] for place in columns), self.classes]

    def cells(self, columns: Sequence[int]) -> IntArray:
        """A number for the levels that each row has in some columns, ``(n,)``."""
        cells = np.zeros_like(self.truth)
        for place in columns:
            cells *= self.sizes[place]
            cells += self.codes[place]
        return cells

    def table(self, columns: Sequence[int]) -> FloatArray:
        """Σ w of the rows by the level of each of some columns, then by class."""
        shape, cells = self.shape(columns), self.cells(columns)
        cells *= self.classes
        cells += self.truth
        table = np.bincount(cells, self.counts, math.prod(shape))
        return table.astype(np.float64, copy=False).reshape(shape)

    @cached_property
    def of_class(self) -> FloatArray:
        """Σ w of each class, ``(k,)``."""
        return self.table(())

    def log_loss(self) -> float:
        """Log loss of the class given the columns, Σ over the rows in nats, each row left out."""
        table = self.table(range(len(self.sizes))).reshape(-1, self.classes)
        return left_out_log_loss(table[table.any(axis=1)])


def bins_with_null(numbers: FloatArray, cuts: Sequence[float]) -> IntArray:
    """The bin of each number, and one more for null, which is NaN: ``(n,)``."""
    bins = np.searchsorted(np.array(cuts), numbers, side="right").astype(np.intp)
    bins[np.isnan(numbers)] = len(cuts) + 1
    return bins


def left_out_log_loss(counts: FloatArray) -> float:
    """Log loss of the class given the level, Σ over the rows in nats, each row left out.

    Args:
        counts: rows by level and class, ``(m, k)``.
    """
    levels, total = len(counts), counts.sum(axis=0)
    with np.errstate(divide="ignore"):
        log_prior = np.log(total / total.sum())
    log_likelihood = np.log(counts + 1.0) - np.log(total + levels)
    without = np.log(np.maximum(counts - 1.0, 0.0) + 1.0)
    without -= np.log(np.maximum(total - 1.0, 0.0) + levels)
    loss = 0.0
    for place in np.flatnonzero(total):
        scores = log_likelihood + log_prior
        scores[:, place] = without[:, place] + log_prior[place]
        peak = scores.max(axis=1)
        log_sum = peak + np.log(np.exp(scores - peak[:, None]).sum(axis=1))
        loss += float(counts[:, place] @ (log_sum - scores[:, place]))
    return loss


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


def dependent_pairs(levels: Levels, most: int, errors: float = 0.0) -> list[Pair]:
    """The pairs of columns that depend on each other most; ties go to the first columns.

    Args:
        levels: the columns.
        most: largest number of pairs.
        errors: least information, in standard errors of that of independent columns.
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
            free = float(np.maximum(seen[first] - 1.0, 0.0) @ np.maximum(seen[second] - 1.0, 0.0))
            information = joint[first] + joint[second] - entropy - of_class - free / (2.0 * total)
            if information > errors * np.sqrt(free / 2.0) / total:
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
