"""What one reading of a table tells of it: the roles of its columns, and a sample of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, IntArray, label_codes
from probclass_core.arrow.parts import PARTS, part_of
from probclass_core.estimation.kinds.sample import COUNT
from probclass_core.estimation.statistics import Statistics
from probclass_core.spec.model_spec import Effort
from probclass_core.structure.columns import (
    Column,
    Columns,
    columns_by_values,
    level_codes,
    without_copies,
)
from probclass_core.structure.fine_pairs import equal_cuts
from probclass_core.structure.levels import Levels
from probclass_core.structure.parts import numbers_by_values, parts_by_values


@dataclass(frozen=True)
class Profile:
    """What blocks are chosen by.

    Attributes:
        columns: the columns by their values.
        statistics: of one block for each column, over all rows.
        sample: sample of the rows with label and all columns; see `kinds.sample`.
        effort: as for `ModelSpec.auto`.
        sql: as for `ModelSpec.auto`.
    """

    columns: Columns
    statistics: Statistics
    sample: pa.Table
    effort: Effort
    sql: bool

    @classmethod
    def of(
        cls,
        columns: Columns,
        statistics: Statistics,
        effort: Effort,
        sql: bool,
        known: Sequence[str],
    ) -> Profile:
        """The profile of columns by their types.

        Args:
            columns: columns by their types, with all parts of dates; see `candidate_parts`.
            statistics: of one block for each of them.
            effort: as for `ModelSpec.auto`.
            sql: as for `ModelSpec.auto`.
            known: features of an earlier spec.
        """
        sample = statistics.sample
        assert sample is not None
        types = {field.name: field for field in statistics.features}
        sample = sample.cast(pa.schema([types.get(field.name, field) for field in sample.schema]))
        columns = numbers_by_values(parts_by_values(columns, sample), statistics, known)
        columns = columns_by_values(columns, statistics, sample)
        columns = without_copies(columns, sample)
        columns.require_some(statistics.spec.label)
        return cls(columns, statistics, sample, effort, sql)

    @property
    def closed_forms_only(self) -> bool:
        """Whether no block may search for neighbors."""
        return self.sql or self.effort == "fast"

    @cached_property
    def has_times_without_groups(self) -> bool:
        """Whether rows differ in dates or times, so that near ones are alike, without groups.

        Left out alone, a row is recognized by the fine cells that its neighbors in time are in.
        """
        dated = any(
            part.name in PARTS and len(pc.unique(self.sample[name].drop_null())) > 1
            for name in self.statistics.features.names
            if (part := part_of(name)) is not None
        )
        return dated and not self.statistics.spec.group_columns

    @cached_property
    def counts(self) -> FloatArray:
        """Number of rows that each row of the sample is for, ``(n,)``; weights are shared out."""
        counts: FloatArray = self.sample[COUNT].to_numpy() / self.statistics.row_weight
        return counts

    @cached_property
    def _truth(self) -> IntArray:
        """Class of each row of the sample, by its place."""
        label = self.statistics.spec.label
        if label is None:
            return np.zeros(self.sample.num_rows, np.intp)
        classes = self.statistics.classes["class"].combine_chunks()
        return label_codes(self.sample[label], classes)

    def levels(self, columns: Iterable[Column]) -> Levels:
        """Numbers and categories of the sample as levels."""
        encoded = [level_codes(column, self.sample) for column in columns]
        codes, sizes = [code for code, _ in encoded], [size for _, size in encoded]
        return Levels(codes, sizes, self._truth, self.counts, self.statistics.classes.num_rows)

    def losses(self, columns: Iterable[Column]) -> list[float]:
        """Log loss of the class given each column alone, Σ over the rows, each of them left out."""
        return [self.levels([column]).log_loss() for column in columns]

    def numbers(self, column: Column) -> FloatArray:
        """The values of a column of numbers, NaN for null, ``(n,)``."""
        values: FloatArray = self.sample[column.name].cast(pa.float64(), safe=False).to_numpy()
        return values

    def in_equal_bins(self, column: Column, bins: int) -> Column:
        """A column with bins of equal weight, if it is a number of many values."""
        if not column.has_bins:
            return column
        (cuts,) = equal_cuts(self.numbers(column), self.sample[COUNT].to_numpy(), [bins])
        return replace(column, cuts=cuts)
