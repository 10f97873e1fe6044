"""Sums of counts by class: of columns of counts, or of the terms of one column of texts.

The table has one row per class and feature with a sum that is not 0: class, feature (a column or
term), and

    count  Σ w x of the counts x; or Σ w [x > 0] if presences are counted
    rows   Σ w of the rows in which the column has a value, or which contain the term

A null feature is that of whole rows, such as documents, whose count is their length.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import LARGEST_COUNT, CountReader, Counts
from probclass_core.errors import StoreError
from probclass_core.estimation import formulas, tidy
from probclass_core.estimation.kinds.kind import ClassSums, Sums


@dataclass(frozen=True)
class FeatureCounts:
    """Sums as dense arrays.

    Attributes:
        features: columns or terms, ``(m,)`` text.
        count: of each feature, ``(k, m)``; 0 if nothing was seen.
        rows: of each feature, ``(k, m)``.
        all_rows: rows with any value, ``(k,)``.
    """

    features: pa.Array
    count: FloatArray
    rows: FloatArray
    all_rows: FloatArray


@dataclass(frozen=True)
class CountSums:
    """The sums of a block of counts.

    Attributes:
        reader: reads the counts of a batch.
        presences: whether presences are counted: a feature is present if its count is above 0.
    """

    reader: CountReader
    presences: bool = False

    sums: ClassVar = ("count", "rows")

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Sums of one batch; arguments as for `Estimator.summarize`."""
        from scipy.sparse import csc_array

        size = len(rows)
        share = np.ones(size) if weights is None else weights
        labels = classes.indices.to_numpy(zero_copy_only=False)
        shape = (len(classes.dictionary), size)
        by_class = csc_array((share, (labels, np.arange(size))), shape=shape)
        parts, of_rows = [], pa.nulls(1, pa.string())
        for part, counts in self.reader.parts(rows):
            for field, by_feature, total in self._values(counts):
                for features, values in ((counts.features, by_feature), (of_rows, total[:, None])):
                    sums = by_class[:, part] @ values
                    parts.append(self._table(classes.dictionary, features, field, sums))
        return self.merge(parts)

    def _values(self, counts: Counts) -> Iterator[tuple[str, Any, FloatArray]]:
        """Each field with its values by row and feature ``(n, m)`` and by row ``(n,)``."""
        counted = counts.presence if self.presences else counts.matrix
        yield "count", counted, counted.sum(axis=1)
        rows = counts.presence if self.reader.of_terms else counts.known_cells
        yield "rows", rows, counts.known_rows

    def _table(self, labels: pa.Array, features: pa.Array, field: str, sums: Any) -> pa.Table:
        """One row per cell of one field, from ``(k, m)``, sparse or dense; other fields are 0."""
        from scipy.sparse import coo_array

        cells = coo_array(sums)
        zeros = np.zeros(cells.nnz)
        return pa.table(
            {
                "class": labels.take(pa.array(cells.row)),
                "feature": features.take(pa.array(cells.col)),
                **{name: cells.data if name == field else zeros for name in self.sums},
            }
        )

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return tidy.sum_counts(tables, ["class", "feature"], self.sums)

    def read(self, table: pa.Table, classes: pa.Array) -> FeatureCounts:
        """The sums as arrays: of terms those of the vocabulary, of columns those with values."""
        is_total = pc.is_null(table["feature"])
        by_feature, total = table.filter(pc.invert(is_total)), table.filter(is_total)
        features = arrays.sorted_classes(by_feature["feature"])
        if not self.reader.of_terms:
            seen = set(features.to_pylist())
            features = pa.array([x for x in self.reader.columns if x in seen], pa.string())
        elif self.reader.vocabulary is not None and total.num_rows:
            features = self.reader.vocabulary
        count, rows = tidy.dense_arrays(by_feature, classes, "feature", features, self.sums)
        all_rows = np.zeros(len(classes))
        all_rows[arrays.label_codes(total["class"], classes)] = total["rows"].to_numpy()
        return FeatureCounts(features, count, rows, all_rows)

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        labels = classes["class"].combine_chunks()
        codes = tidy.label_rows(table, labels)
        tidy.check_same(table, self.merge([table]))
        features = None if self.reader.of_terms else [*self.reader.columns, None]
        tidy.check_row_counts(table, classes, ["feature"], features=features, count="rows")
        tidy.NOT_NEGATIVE.check("count", table["count"])
        rows, is_total = table["rows"].to_numpy(), pc.is_null(table["feature"]).to_numpy()
        total = np.bincount(codes[is_total], rows[is_total], minlength=len(labels))
        if (rows > total[codes] * (1.0 + tidy.ROUNDING)).any():
            raise StoreError("a feature has more rows than its class.")
        present = (
            self.presences & ~is_total & (table["count"].to_numpy() > rows * (1.0 + tidy.ROUNDING))
        )
        if present.any():
            raise StoreError("a feature is present in more rows than it has.")

    def aggregates(self) -> Sums | None:
        """What a database computes; terms need the rows."""
        if self.reader.of_terms:
            return None
        terms: dict[Hashable, formulas.Expression] = {}
        columns = [formulas.Column(name) for name in self.reader.columns]
        for x in columns:
            present = formulas.Case(
                [(x > 0.0, formulas.as_expression(1.0))], formulas.as_expression(0.0)
            )
            terms["count", x.name] = formulas.if_known([x], present if self.presences else x)
            terms["rows", x.name] = formulas.known(x)
        terms["count", None] = functools.reduce(
            operator.add, [terms["count", x.name] for x in columns]
        )
        terms["rows", None] = formulas.known(*columns)
        return Sums(terms, self._from_sums, refused_counts(columns, whole=self.reader.whole))

    def _from_sums(self, by_class: ClassSums) -> pa.Table:
        features = [*self.reader.columns, None]
        parts = []
        for field in self.sums:
            sums = np.stack([by_class.sums[field, name] for name in features], axis=1)
            parts.append(
                self._table(by_class.classes, pa.array(features, pa.string()), field, sums)
            )
        return self.merge(parts)


def refused_counts(columns: Sequence[formulas.Column], *, whole: bool) -> list[formulas.Condition]:
    """Conditions of counts that `CountReader` refuses."""
    refused: list[formulas.Condition] = [
        (column < 0.0) | (column > LARGEST_COUNT) for column in columns
    ]
    if whole:
        # Not the floor of a null, which is an error for SQLAlchemy's function on SQLite.
        refused += [
            column != formulas.Function("floor", formulas.if_known([column], column))
            for column in columns
        ]
    return refused
