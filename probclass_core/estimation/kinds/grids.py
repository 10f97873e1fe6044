"""Grids: counts of the numbers and nulls of columns by class, exact or on a grid that coarsens.

`Grids` serve columns of numbers whose cuts are computed from the rows; see `histogram` for the
counts of one column. `ColumnCounts` are those of a block of which other columns are counted in
cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray, label_codes, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import StoreError, one_of
from probclass_core.estimation.histogram import Histogram, histogram
from probclass_core.estimation.kinds.cells import Cells
from probclass_core.estimation.kinds.kind import DistinctRows
from probclass_core.estimation.tidy import COUNT, Range, check_row_counts


class ColumnGrid(NamedTuple):
    """Counts of a column.

    Attributes:
        name: the column.
        histogram: of its numbers.
        nulls: Σ w of the nulls that count, ``(k,)``.
    """

    name: str
    histogram: Histogram
    nulls: FloatArray


class Grids:
    """Counts of the numbers and nulls of some columns.

    The table has one row per class and column with a value: class, feature, nulls (Σ w of the nulls
    that count), width (of a cell, else 0), values (or the lower edges of cells), counts (Σ w of
    each).

    Args:
        columns: the columns.
        cells: largest number of cells of a column; ``math.inf`` counts every number as it is.
        null_columns: columns of which nulls count.
    """

    sums = ("nulls", "counts")

    def __init__(
        self, columns: Sequence[str], cells: float, null_columns: Sequence[str] = ()
    ) -> None:
        self.columns = columns
        self.cells = cells
        self.null_columns = null_columns

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Counts of one batch; arguments as for `Estimator.summarize`."""
        labels = sorted_classes(classes.dictionary)
        codes = classes.indices.to_numpy(zero_copy_only=False)
        group = label_codes(classes.dictionary, labels).astype(np.intp)[codes]
        cells, nulls = [], np.zeros((len(self.columns), len(labels)))
        for name, nulls_of_name in zip(self.columns, nulls, strict=True):
            values = rows.numbers(name)
            kept: BoolArray | slice = slice(None)
            if rows.extremes(name)[2]:
                null = np.isnan(values)
                kept = ~null
                if name in self.null_columns:
                    weight = None if weights is None else weights[null]
                    nulls_of_name += np.bincount(group[null], weight, len(labels))
            weight = None if weights is None else weights[kept]
            cells.append(histogram(values[kept], 0.0, group[kept], weight, len(labels), self.cells))
        return _table(self.columns, labels, cells, nulls)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        classes = sorted_classes(pa.concat_tables(tables)["class"])
        names, cells, nulls = zip(*self.read(tables, classes), strict=True)
        return _table(names, classes, cells, np.stack(nulls))

    def read(self, tables: Sequence[pa.Table], classes: pa.Array) -> Iterator[ColumnGrid]:
        """The counts of each column in all tables together, by ``k`` classes.

        Args:
            tables: statistics of at least one part.
            classes: the ``k`` classes of the model, ascending.
        """
        rows = pa.concat_tables(tables)
        group, sizes = label_codes(rows["class"], classes), _sizes(rows)
        starts = np.cumsum(sizes) - sizes
        slices = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        lists = _flat(rows["values"]), _flat(rows["counts"])
        widths, nulls = rows["width"].to_numpy(), rows["nulls"].to_numpy()
        column = label_codes(rows["feature"], pa.array(self.columns, pa.string()))
        order = np.argsort(column, kind="stable")
        ends = np.searchsorted(column[order], np.arange(len(self.columns) + 1))
        for name, of in zip(self.columns, np.split(order, ends)[1:-1], strict=True):
            values, counts = (
                np.concatenate([each[:0], *(each[slices[row]] for row in of)]) for each in lists
            )
            cells = histogram(
                values,
                widths[of].max(initial=0.0),
                np.repeat(group[of], sizes[of]),
                counts,
                len(classes),
                self.cells,
            )
            nulls_of_class = np.bincount(group[of], nulls[of], len(classes)).astype(np.float64)
            yield ColumnGrid(name, cells, nulls_of_class)

    def check(self, statistics: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that `merge` cannot have made; see `check_statistics`."""
        nothing = self.merge([statistics.slice(0, 0)])
        if statistics.schema.remove_metadata() != nothing.schema.remove_metadata():
            raise StoreError(f"its columns are {statistics.column_names}, or of other types.")
        COUNT.check("nulls", statistics["nulls"])
        counts = statistics["counts"]
        Range(low=float(np.finfo(np.float64).tiny)).check("counts", pc.list_flatten(counts))
        sizes = _sizes(statistics)
        if not np.array_equal(sizes, pc.list_value_length(counts).to_numpy()):
            raise StoreError("there are not as many counts as values.")
        row = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.bincount(row, _flat(counts), len(sizes)) + statistics["nulls"].to_numpy()
        check_row_counts(
            statistics.select(["class", "feature"]).append_column("count", pa.array(rows)),
            classes,
            ["feature"],
            features=self.columns,
        )
        counted = statistics.filter(pc.greater(statistics["nulls"], 0.0))["feature"]
        ignored = sorted({*counted.to_pylist()} - {*self.null_columns})
        if ignored:
            raise StoreError(
                f"nulls of column {ignored[0]!r} are counted, which the model ignores."
            )
        # Merging is exact: cells of a grid are those of the same grid again.
        if not self.merge([statistics]).equals(statistics.replace_schema_metadata()):
            raise StoreError("its cells are not those of a grid, each once and in order.")


def _table(
    features: Sequence[str], classes: pa.Array, cells: Sequence[Histogram], nulls: FloatArray
) -> pa.Table:
    """Statistics: one row per feature and class with a value or a null that counts.

    Args:
        features: ``d`` names.
        classes: ``k`` labels.
        cells: of each feature.
        nulls: Σ w of the nulls that count, ``(d, k)``.
    """
    present = [histogram.counts > 0.0 for histogram in cells]
    sizes = np.stack([mask.sum(axis=1) for mask in present])
    feature, label = np.nonzero((sizes > 0) | (nulls > 0.0))
    ends = pa.array(np.append(0, np.cumsum(sizes[feature, label])))
    pairs = list(zip(cells, present, strict=True))
    values = [np.broadcast_to(of.values, mask.shape)[mask] for of, mask in pairs]
    counts = [of.counts[mask] for of, mask in pairs]
    return pa.table(
        {
            "class": classes.take(pa.array(label)),
            "feature": pa.array(features, pa.string()).take(pa.array(feature)),
            "nulls": nulls[feature, label],
            "width": np.array([histogram.width for histogram in cells])[feature],
            "values": pa.LargeListArray.from_arrays(ends, np.concatenate(values)),
            "counts": pa.LargeListArray.from_arrays(ends, np.concatenate(counts)),
        }
    )


def tidy_cells(statistics: pa.Table) -> pa.Table:
    """Statistics of `Discretized` as one row per class and cell: class, value, width, count."""
    row = np.repeat(np.arange(statistics.num_rows), _sizes(statistics))
    cells = statistics.select(["class", "width"]).take(pa.array(row))
    cells = cells.add_column(1, "value", pc.list_flatten(statistics["values"]))
    return cells.append_column("count", pc.list_flatten(statistics["counts"]))


def _sizes(table: pa.Table) -> IntArray:
    """Number of cells of each row of statistics."""
    sizes: IntArray = pc.list_value_length(table["values"]).to_numpy()
    return sizes


def _flat(lists: pa.ChunkedArray) -> FloatArray:
    """The elements of all lists, one after another."""
    elements: FloatArray = pc.list_flatten(lists).to_numpy()
    return elements


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
