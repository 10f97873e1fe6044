"""What all kinds of statistics have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows


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
        """Statistics of all parts together, usually of two or more; see `Estimator.merge`."""
        ...

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        ...
