"""What all kinds of statistics have in common, and what a database computes of them.

A kind that is sums, or counts of values, says so by the optional method ``aggregates``. A database
computes them by GROUP BY, so that no row leaves it; see `probclass_core.sql.aggregation`.
Statistics that were made so merge with those that ``summarize`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.formulas import Condition, Expression


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


@dataclass(frozen=True, eq=False)
class Deviation(Expression):
    """A column of numbers minus a center near its mean in the row's class; null if it is null."""

    column: str


@dataclass(frozen=True)
class ClassSums:
    """Sums over the rows of ``k`` classes.

    Attributes:
        classes: ``k`` labels.
        sums: by the keys of `Sums.terms`, each ``(k,)``.
        centers: what each `Deviation` was taken from, by column, ``(k,)``; 0 without values.
    """

    classes: pa.Array
    sums: Mapping[Hashable, FloatArray]
    centers: Mapping[str, FloatArray]


@dataclass(frozen=True)
class Sums:
    """Statistics that are made of sums over the rows of each class.

    Attributes:
        terms: what is added up, times the weight of the row; null adds nothing.
        statistics: the table of statistics from the sums.
        refused: conditions of rows that ``summarize`` raises an error about.
    """

    terms: Mapping[Hashable, Expression]
    statistics: Callable[[ClassSums], pa.Table]
    refused: Sequence[Condition] = field(default=())


@dataclass(frozen=True)
class DistinctRows:
    """Statistics of the distinct rows of some columns, each with the sum of its weights.

    ``summarize`` gets batches that have these columns alone, for each group of columns in turn;
    ``merge`` of all tables is the statistics.

    Attributes:
        groups: columns, each in one or more groups.
    """

    groups: Sequence[Sequence[str]]
