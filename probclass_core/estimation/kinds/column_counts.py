"""Counts of columns: of cells, or on a grid for numbers whose cuts are not known yet.

The table has the rows of `Cells` and those of `Grids`; columns that only one of them has are null
in the rows of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import StoreError, one_of
from probclass_core.estimation.aggregates import DistinctRows
from probclass_core.estimation.kinds.cells import Cells
from probclass_core.estimation.kinds.grids import Grids


@dataclass(frozen=True)
class ColumnCounts:
    """The counts of some columns.

    Attributes:
        cells: the columns whose values are counted, maybe none.
        grids: the columns of numbers that are counted on a grid, maybe none.
    """

    cells: Cells
    grids: Grids

    sums: ClassVar = (*Cells.sums, *Grids.sums)

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Counts of one batch, which need not have all columns of cells."""
        cells, numbers = None, None
        if set(self.cells.columns) & set(rows.batch.schema.names):
            cells = self.cells.summarize(rows, classes, weights)
        if self.grids.columns:
            numbers = self.grids.summarize(rows, classes, weights)
        return _together(cells, numbers)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        cells, numbers = self.apart(tables)
        return _together(
            self.cells.merge(cells) if self.cells.columns else None,
            self.grids.merge(numbers) if self.grids.columns else None,
        )

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        cells, numbers = self.apart([table])
        if (len(cells), len(numbers)) != (bool(self.cells.columns), bool(self.grids.columns)):
            raise StoreError(f"its columns are {one_of(table.column_names)}.")
        for part in cells:
            self.cells.check(part, classes)
        for part in numbers:
            self.grids.check(part, classes)

    def aggregates(self) -> DistinctRows | None:
        """What a database computes, if no column is cut into bins."""
        return None if self.grids.columns else self.cells.aggregates()

    def apart(self, tables: Sequence[pa.Table]) -> tuple[list[pa.Table], list[pa.Table]]:
        """The rows of cells, and those of grids; a table may lack either."""
        keys = [*self.cells.keys, "count"]
        cells, numbers = [], []
        for table in tables:
            names = table.column_names
            if "width" not in names:
                cells.append(table.select(keys))
            elif "count" not in names:
                numbers.append(table)
            else:
                is_cell = pc.is_valid(table["count"])
                others = [
                    name for name in names if name in ("class", "feature") or name not in keys
                ]
                cells.append(table.filter(is_cell).select(keys))
                numbers.append(table.filter(pc.invert(is_cell)).select(others))
        return cells, numbers


def _together(cells: pa.Table | None, numbers: pa.Table | None) -> pa.Table:
    tables = [table for table in (cells, numbers) if table is not None]
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables, promote_options="default").combine_chunks()
