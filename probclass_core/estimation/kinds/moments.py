"""Moments of terms of single columns: count, mean and scatter by class.

The table has one row per class, feature and term that has values: class, feature, term, count
(Σ w), mean, scatter (Σ w (t − mean)²). A term is a function of the column's value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import ByClass, FloatArray, label_codes, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.estimation import formulas, tidy
from probclass_core.estimation.kinds.kind import ClassSums, Deviation, Sums
from probclass_core.estimation.moments import (
    Moments,
    merge_moments,
    moments_about,
    moments_of_columns,
)

_FIELDS = ("count", "mean", "scatter")


@dataclass(frozen=True)
class TermMoments:
    """The moments of every term of every column.

    Attributes:
        columns: ``d`` names.
        terms: ``t`` names of terms.
    """

    columns: Sequence[str]
    terms: Sequence[str]

    sums: ClassVar = ("count", "scatter")

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """The moments of one batch, if the only term is the value itself."""
        groups = ByClass.group(classes)
        return self.table(groups.labels, moments_of_columns(rows, self.columns, groups, weights))

    def table(self, classes: pa.Array, moments: Moments) -> pa.Table:
        """The table of moments ``(k, d · t)``, the terms of a column next to each other."""
        features = np.repeat(np.array(self.columns, object), len(self.terms))
        cells = {
            "feature": pa.array(features, pa.string()),
            "term": pa.array([*self.terms] * len(self.columns), pa.string()),
        }
        # Squares may leave float64 where the estimate does not need them.
        scatter = np.where(np.isnan(moments.scatter), np.inf, moments.scatter)
        fields = {"count": moments.count, "mean": moments.mean, "scatter": scatter}
        return tidy.tidy_table(classes, cells, fields, moments.count > 0.0)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The moments of the rows of all tables, by the update of Chan, Golub and LeVeque."""
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        return self.table(classes, self.arrays(parts, classes))

    def arrays(self, table: pa.Table, classes: pa.Array) -> Moments:
        """Merged moments as arrays, ``(k, d · t)``; the count of a cell without values is 0."""
        feature, term = (
            label_codes(table[name], pa.array(values, pa.string()))
            for name, values in (("feature", self.columns), ("term", self.terms))
        )
        size = len(self.columns) * len(self.terms)
        group = label_codes(table["class"], classes) * size + feature * len(self.terms) + term
        parts = Moments(*(table[field].to_numpy() for field in _FIELDS))
        merged = merge_moments(group, len(classes) * size, parts)
        return merged.map(lambda values: values.reshape(len(classes), size))

    def by_column(self, table: pa.Table, classes: pa.Array) -> dict[str, dict[str, Moments]]:
        """Merged moments by column and term, ``(k,)`` each."""
        moments, size = self.arrays(table, classes), len(self.terms)
        return {
            name: {
                term: moments.map(itemgetter((slice(None), column * size + place)))
                for place, term in enumerate(self.terms)
            }
            for column, name in enumerate(self.columns)
        }

    def check(self, table: pa.Table, classes: pa.Table, *, infinite: bool = False) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`.

        Args:
            table: the table.
            classes: as for `Estimator.check_statistics`.
            infinite: whether the scatter may exceed float64, because no estimate needs it.

        Raises:
            StoreError: naming the column and what is wrong.
        """
        allowed = ["scatter"] if infinite else []
        tidy.check_same(table, self.merge([table]), infinite=allowed)
        tidy.check_row_counts(table, classes, ["feature", "term"], features=self.columns)
        tidy.Range(low=0.0, finite=not infinite).check("scatter", table["scatter"])

    def aggregates(self, refused: Sequence[formulas.Condition] = ()) -> Sums:
        """What a database computes if the only term is the value itself.

        Args:
            refused: conditions of rows that training refuses.
        """
        terms: dict[Hashable, formulas.Expression] = {}
        for name in self.columns:
            deviation = Deviation(name)
            terms["count", name] = formulas.known(formulas.Column(name))
            terms["deviation", name] = deviation
            terms["square", name] = deviation * deviation
        return Sums(terms, self._from_sums, refused)

    def _from_sums(self, by_class: ClassSums) -> pa.Table:
        columns = [
            moments_about(
                by_class.centers[name],
                *(by_class.sums[part, name] for part in ("count", "deviation", "square")),
            )
            for name in self.columns
        ]
        stacked = (
            np.stack([getattr(column, field) for column in columns], axis=1) for field in _FIELDS
        )
        return self.table(by_class.classes, Moments(*stacked))


def without_row(moments: Moments, values: FloatArray, weights: FloatArray) -> Moments:
    """The moments of the other rows, for each of ``n`` rows, ``(n,)`` each.

    Args:
        moments: of all rows of the row's class, ``(n,)``.
        values: the row's own value of the term.
        weights: its weight.
    """
    left = moments.count - weights
    some = left > 1e-9 * weights
    count = np.where(some, left, 0.0)
    shift = (values - moments.mean) * weights / np.where(some, left, 1.0)
    mean = np.where(some, moments.mean - shift, 0.0)
    own = weights * (values - mean) * (values - moments.mean)
    return Moments(count, mean, np.where(some, np.maximum(moments.scatter - own, 0.0), 0.0))
