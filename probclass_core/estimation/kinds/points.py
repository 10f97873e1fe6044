"""Points: the distinct rows of some columns of numbers by class, all of them or a sample.

The table has one row per class and point, in order: class, point (fixed-size list, NaN for null),
count (Σ w there). A row without any value is not a point. Without a bound, the table grows with the
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, label_codes, sorted_classes
from probclass_core.arrow.rows import HashArray, Rows, row_hashes
from probclass_core.errors import StoreError
from probclass_core.estimation.kinds.sample import limit_of_hashes
from probclass_core.estimation.tidy import check_column, check_row_counts


@dataclass(frozen=True)
class Points:
    """The points of some columns.

    Attributes:
        columns: ``d`` names.
        most: largest number of points: those with the smallest hashes of class and coordinates, a
            random sample; 0 for no bound.
    """

    columns: Sequence[str]
    most: int = 0

    sums: ClassVar = ("count",)

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Points of one batch; arguments as for `Estimator.summarize`."""
        points = self._of_rows(rows)
        observed = ~np.isnan(points).all(axis=1)
        counts = np.ones(len(points)) if weights is None else weights
        labels = classes.dictionary_decode().filter(pa.array(observed))
        return self._table(labels, points[observed], counts[observed])

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables).combine_chunks()
        labels = parts["class"].combine_chunks()
        return self._table(labels, coordinates(parts), parts["count"].to_numpy())

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        check_points(table, len(self.columns))
        check_row_counts(table, classes)

    def own_counts(
        self,
        table: pa.Table,
        rows: Rows,
        labels: pa.Array,
        weights: FloatArray | None,
    ) -> FloatArray:
        """What each of ``n`` rows that were summarized adds to the count of its point, ``(n,)``.

        Args:
            table: points of all rows.
            rows: the rows.
            labels: class of each row, ``(n,)``.
            weights: ``(n,)``; None means 1 for every row.

        Returns:
            The weight of each row; 0 if its point is not among those of the sample.
        """
        kept = _hashes(table["class"].combine_chunks(), coordinates(table))
        own = np.isin(_hashes(labels, self._of_rows(rows)), kept).astype(np.float64)
        return own if weights is None else own * weights

    def _of_rows(self, rows: Rows) -> FloatArray:
        points: FloatArray = rows.matrix(self.columns).T + 0.0  # −0.0 becomes 0.0
        return points

    def _table(self, labels: pa.Array, points: FloatArray, counts: FloatArray) -> pa.Table:
        """Distinct points in order of class and coordinates, their counts summed."""
        if 0 < self.most < len(points):
            hashes = _hashes(labels, points)
            limit = limit_of_hashes(hashes, self.most)
            if limit is not None:
                near = np.flatnonzero(hashes <= limit)
                labels, points, counts = labels.take(pa.array(near)), points[near], counts[near]
        classes = sorted_classes(labels)
        codes = label_codes(labels, classes)
        order = np.lexsort((*points.T[::-1], codes))
        codes, points, counts = codes[order], points[order], counts[order]
        if len(points):
            after, before = points[1:], points[:-1]
            equal = (after == before) | (np.isnan(after) & np.isnan(before))
            starts = np.flatnonzero(np.append(True, ~equal.all(axis=1) | (np.diff(codes) != 0)))
            codes, points = codes[starts], points[starts]
            counts = np.add.reduceat(counts, starts)
        if self.most and len(points) > self.most:
            hashes = _hashes(classes.take(pa.array(codes)), points)
            kept = np.sort(np.argsort(hashes, kind="stable")[: self.most])
            codes, points, counts = codes[kept], points[kept], counts[kept]
        flat = pa.array(np.ascontiguousarray(points).ravel())
        return pa.table(
            {
                "class": classes.take(pa.array(codes)),
                "point": pa.FixedSizeListArray.from_arrays(flat, len(self.columns)),
                "count": counts,
            }
        )


def coordinates(table: pa.Table) -> FloatArray:
    """The points of a table, ``(m, d)``; a column in one chunk, as in models, is not copied."""
    column = table["point"]
    column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    points: FloatArray = column.flatten().to_numpy(zero_copy_only=False)
    return points.reshape(-1, column.type.list_size)


def check_points(table: pa.Table, size: int) -> None:
    """Refuse points that are null or infinite, or do not have so many coordinates.

    Raises:
        StoreError: saying which.
    """
    check_column(table, "point", pa.list_(pa.float64(), size))
    if table["point"].null_count or np.isinf(coordinates(table)).any():  # NaN for null
        raise StoreError("a point is null or infinite.")


def _hashes(labels: pa.Array, points: FloatArray) -> HashArray:
    """Hashes of class and coordinates of points ``(m, d)``: ``(m,)``."""
    names = ["class", *map(str, range(points.shape[1]))]
    return row_hashes(Rows(pa.record_batch([labels, *map(pa.array, points.T)], names)))
