"""Counts of the values of single columns by class, on a grid that widens as it must.

Distinct values are counted while there are few of them, then cells whose width is a power of two.
The grid depends on all rows only, so parts merge to the same counts in any order, in bounded
memory. The table has one row per class, feature and cell: class, feature, cell (a value, or the
lower edge of a cell), width (0 for values), count (Σ w).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    FloatArray,
    IntArray,
    label_codes,
    sorted_classes,
)
from probclass_core.estimation.histogram import histogram
from probclass_core.estimation.parameters import NOT_NEGATIVE, check_row_counts
from probclass_core.estimation.tidy import by_feature, tidy_table


@dataclass(frozen=True)
class Counts:
    """Counts of one column.

    Attributes:
        values: values, or the middles of cells, ascending, ``(m,)``.
        counts: Σ w by class, ``(k, m)``.
    """

    values: FloatArray
    counts: FloatArray

    @property
    def count(self) -> FloatArray:
        """Σ w of each class, ``(k,)``."""
        count: FloatArray = self.counts.sum(axis=1)
        return count

    def mean(self, values: FloatArray | None = None) -> FloatArray:
        """The mean of the values, or of other numbers ``(m,)`` or ``(k, m)``: ``(k,)``."""
        total = (self.counts * (self.values if values is None else values)).sum(axis=1)
        mean: FloatArray = total / self.count
        return mean

    def quantile(self, share: float) -> FloatArray:
        """The least value that at least a share of the rows do not exceed, ``(k,)``."""
        cumulated = np.cumsum(self.counts, axis=1)
        place = np.argmax(cumulated >= share * cumulated[:, -1:], axis=1)
        return np.where(self.count > 0.0, self.values[place], np.nan)

    @property
    def of_all(self) -> Counts:
        """Those of all classes together, as of one class."""
        return Counts(self.values, self.counts.sum(axis=0, keepdims=True))


@dataclass(frozen=True)
class Histograms:
    """The counts of every column.

    Attributes:
        features: names of the columns.
        cells: largest number of cells of a column.
    """

    features: Sequence[str]
    cells: int = 4096

    def of_rows(
        self,
        columns: Sequence[FloatArray],
        classes: pa.DictionaryArray,
        weights: FloatArray | None,
    ) -> pa.Table:
        """The table of rows.

        Args:
            columns: the values of each feature, NaN for null, ``(n,)``.
            classes: the label of each row.
            weights: ``(n,)``, or None for weights of 1.
        """
        codes = classes.indices.to_numpy(zero_copy_only=False)
        return pa.concat_tables(
            self._table(name, x[known], 0.0, codes[known], classes.dictionary, weight)
            for name, x in zip(self.features, columns, strict=True)
            for known in [~np.isnan(x)]
            for weight in [None if weights is None else weights[known]]
        ).combine_chunks()

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The counts of the rows of all tables."""
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        merged = [parts.slice(0, 0)]
        for name, rows in by_feature(parts, self.features):
            codes = label_codes(rows["class"], classes)
            cells, widths, counts = (rows[key].to_numpy() for key in ("cell", "width", "count"))
            width = float(widths.max(initial=0.0))
            merged.append(self._table(name, cells, width, codes, classes, counts))
        return pa.concat_tables(merged).combine_chunks()

    def _table(
        self,
        name: str,
        values: FloatArray,
        width: float,
        codes: IntArray,
        classes: pa.Array,
        weights: FloatArray | None,
    ) -> pa.Table:
        grid = histogram(values, width, codes, weights, len(classes), self.cells)
        widths = np.full_like(grid.counts, grid.width)
        return tidy_table(
            classes,
            {"feature": name, "cell": grid.values},
            {"width": widths, "count": grid.counts},
            grid.counts > 0.0,
        )

    def by_column(self, table: pa.Table, classes: pa.Array) -> Iterator[tuple[str, Counts]]:
        """The counts of each column that has any."""
        for name, rows in by_feature(table, self.features):
            if rows.num_rows:
                cells, place = np.unique(rows["cell"].to_numpy(), return_inverse=True)
                counts = np.zeros((len(classes), len(cells)))
                np.add.at(counts, (label_codes(rows["class"], classes), place), rows["count"])
                yield name, Counts(cells + 0.5 * float(rows["width"][0].as_py()), counts)

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`.

        Raises:
            StoreError: naming the column and what is wrong.
        """
        check_row_counts(table, classes, ["feature"], features=self.features)
        NOT_NEGATIVE.check("width", table["width"])
