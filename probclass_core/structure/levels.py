"""Columns of rows as levels, from which pairs and groups of columns are counted."""

from __future__ import annotations

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

    @cached_property
    def of_class(self) -> FloatArray:
        """Σ w of each class, ``(k,)``."""
        return np.bincount(self.truth, self.counts, self.classes).astype(np.float64, copy=False)
