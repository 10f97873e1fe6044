"""Rows that are kept as they are: a sample of all columns, and points of columns of numbers.

Every row gets a hash of its values, and a sample is the rows with the smallest hashes (a bottom-k
sample: Cohen and Kaplan, "Summarizing data using bottom-k sketches", 2007). A hash depends on the
values alone, so any split of the rows, in any order, gives the same sample. Rows with the same
values are one row of the sample, with the sum of their weights.

A `Sample` has the columns of the rows, `HASH` (uint64, ascending, unique) and `COUNT` (Σ w).

`Points` have one row per class and point, in order: class, point (fixed-size list, NaN for null),
count (Σ w there). A row without any value is not a point. Without a bound, the table grows with the
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, label_codes, sorted_classes
from probclass_core.arrow.rows import HashArray, Rows, row_hashes
from probclass_core.arrow.types import common_type, is_number_type
from probclass_core.errors import StoreError
from probclass_core.estimation.tidy import check_column, check_row_counts

SAMPLE_ROWS = 32_768
"""Largest number of different rows in a sample."""

HASH, COUNT = "__hash__", "__count__"
"""Columns of a sample besides those of the rows: hash, and Σ w of the rows with these values."""


def equal_rows_are_copies(sample: pa.Table) -> bool:
    """Whether rows with the same values are copies of one, as no two rows agree by chance.

    They are if there are such rows, and a number that differs in most of the different rows, and in
    a third of all rows, or, if it is a fraction, in nearly all different ones. Codes and rounded
    numbers do not: where they are all that a model reads, many rows are equal.
    """
    rows, different_rows = pc.sum(sample[COUNT]).as_py(), len(sample)
    if pc.max(sample[COUNT]).as_py() <= 1.0:
        return False
    for field in sample.schema:
        if is_number_type(field.type) and field.name not in (HASH, COUNT):
            different = pc.count_distinct(sample[field.name]).as_py()
            is_fine = pa.types.is_floating(field.type) and 10 * different > 9 * different_rows
            if 2 * different > different_rows and (3 * different > rows or is_fine):
                return True
    return False


@dataclass(frozen=True)
class Sample:
    """The sample of some columns.

    Attributes:
        schema: the columns, and the types that they are recorded as.
    """

    schema: pa.Schema

    sums: ClassVar = (COUNT,)

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """The sample of a batch, which has these columns; the classes are one of them.

        Raises:
            DataError: if a column of numbers contains an infinite value.
        """
        hashes, batch = row_hashes(rows, self.schema.names), rows.batch
        counts = np.ones(len(hashes)) if weights is None else weights
        if (limit := _limit_of_hashes(hashes, SAMPLE_ROWS)) is not None:
            candidates = np.flatnonzero(hashes <= limit)
            batch = batch.take(pa.array(candidates))
            hashes, counts = hashes[candidates], counts[candidates]
        columns = {
            field.name: _recorded(batch.column(field.name), field.type) for field in self.schema
        }
        return _smallest(pa.table({**columns, HASH: hashes, COUNT: counts}))

    def merge(self, samples: Sequence[pa.Table]) -> pa.Table:
        """The sample of all parts together.

        Args:
            samples: samples of several parts; the types of a column may differ if they have a
                common one.
        """
        first = samples[0].schema
        if any(sample.schema != first for sample in samples):
            kinds = [
                (name, common_type(sample.schema.field(name).type for sample in samples))
                for name in first.names
            ]
            samples = [sample.cast(pa.schema(kinds)) for sample in samples]
        return _smallest(pa.concat_tables(rows_that_may_remain(samples)))

    def check(self, sample: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        total = float(classes["count"].to_numpy().sum())
        kinds = [*zip(self.schema.names, self.schema.types, strict=True), (HASH, pa.uint64())]
        if sample.schema.remove_metadata() != pa.schema([*kinds, (COUNT, pa.float64())]):
            raise StoreError(
                f"the columns of the sample are {sample.column_names}, or of other types."
            )
        hashes, counts = sample[HASH].to_numpy(), sample[COUNT].to_numpy()
        if not np.array_equal(hashes, _hashes_of(sample, self.schema.names)):
            raise StoreError("the hashes of the sample are not those of its rows.")
        ascending = (hashes[1:] > hashes[:-1]).all() and len(hashes) <= SAMPLE_ROWS
        # Sums of the same weights in different orders differ in their last digits.
        low, high = total * (1.0 - 1e-9), total * (1.0 + 1e-9)
        within = (len(hashes) == SAMPLE_ROWS or counts.sum() >= low) and counts.sum() <= high
        if not ascending or not (counts > 0.0).all() or not within:
            raise StoreError("the sample has a row twice, too few or many rows, or a wrong count.")


def rows_that_may_remain(samples: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """Samples without the rows that cannot be in the sample of all of them together."""
    hashes = [sample[HASH].to_numpy() for sample in samples]
    limit = _limit_of_hashes(np.concatenate(hashes), SAMPLE_ROWS)
    if limit is None:
        return samples
    return [  # which are sorted
        sample.slice(0, int(np.searchsorted(of_sample, limit, side="right")))
        for sample, of_sample in zip(samples, hashes, strict=True)
    ]


def _hashes_of(sample: pa.Table, names: Sequence[str]) -> HashArray:
    if not sample.num_rows:
        return np.empty(0, np.uint64)
    (batch,) = sample.select(names).combine_chunks().to_batches()
    return row_hashes(Rows(batch))


def _limit_of_hashes(hashes: HashArray, most: int) -> np.uint64 | None:
    """A hash that at least `most` different ones do not exceed, or None.

    It is small, so that few rows remain candidates.
    """
    smallest = most
    # Equal rows have equal hashes, so it may take more of them until enough are different.
    while smallest < len(hashes):
        limit = np.partition(hashes, smallest)[smallest]
        if len(np.unique(hashes[hashes <= limit])) >= most:
            return np.uint64(limit)
        smallest *= 4
    return None


def _smallest(rows: pa.Table) -> pa.Table:
    """Rows by ascending hash, equal ones added up, as many as a sample has."""
    hashes, first, group = np.unique(rows[HASH].to_numpy(), return_index=True, return_inverse=True)
    counts = np.bincount(group, rows[COUNT].to_numpy(), minlength=len(hashes))[:SAMPLE_ROWS]
    sample = rows.take(pa.array(first[:SAMPLE_ROWS])).combine_chunks()
    return sample.set_column(sample.schema.get_field_index(COUNT), COUNT, pa.array(counts))


def _recorded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as it is recorded: NaN as null and −0.0 as 0.0, so that equal rows are identical."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = column.cast(kind, safe=False)
    if not pa.types.is_float64(kind):
        return column
    values = column.to_numpy(zero_copy_only=False) + 0.0
    return pa.array(values, mask=np.isnan(values))


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
            limit = _limit_of_hashes(hashes, self.most)
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
