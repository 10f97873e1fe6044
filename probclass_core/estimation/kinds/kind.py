"""What all kinds of statistics have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows

Part = TypeVar("Part")


class Kind(Protocol):
    """A kind of sufficient statistics, kept as a table with a column ``class``.

    It may have a method ``aggregates`` as well; see `Estimator.aggregates`.

    Attributes:
        sums: columns that are proportional to the weights of the rows: numbers, or lists or tensors
            of them.
    """

    @property
    def sums(self) -> Sequence[str]: ...

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Statistics of one batch; see `Estimator.summarize`."""
        ...

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Statistics of all parts together; see `Estimator.merge`."""
        ...

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        ...


def without_each(parts: Sequence[Part], merge: Callable[[Part, Part], Part]) -> Iterator[Part]:
    """For each of at least two parts, all others merged: those before it with those after it.

    Nothing is subtracted, so a count that only one part has is exactly 0 without it.
    """
    before = list(accumulate(parts[:-1], merge))
    after = list(accumulate(reversed(parts[1:]), lambda right, left: merge(left, right)))[::-1]
    yield after[0]
    for left, right in zip(before, after[1:], strict=False):
        yield merge(left, right)
    yield before[-1]
