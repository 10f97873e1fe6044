"""Columns of rows as levels, from which what they tell of the class is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray


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
