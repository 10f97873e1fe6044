"""Moments of terms of single columns, and joint ones of pairs of columns: count, mean, scatter.

`TermMoments` have one row per class, feature and term that has values: class, feature, term, count
(Σ w), mean, scatter (Σ w (t − mean)²). A term is a function of the column's value.

`JointMoments` have one row per class: class, count (Σ w), mean, scatter (Σ w (xᵢ − x̄ᵢ)(xⱼ − x̄ⱼ)),
each a ``(d, d)`` tensor over pairs of columns. A pair is that of the rows which have both columns;
the mean of a pair is that of its first column.
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
from probclass_core.errors import StoreError
from probclass_core.estimation import formulas, tidy
from probclass_core.estimation.formulas import Column, Expression, known
from probclass_core.estimation.kinds.kind import ClassSums, Deviation, Sums
from probclass_core.estimation.moments import (
    Moments,
    cross_moments,
    merge_moments,
    moments_about,
    moments_of_columns,
)
from probclass_core.estimation.tidy import ROUNDING, check_same, label_rows

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
        """Merged moments as arrays, ``(k, d · t)``; the count of a cell without values is 0.

        Args:
            table: merged statistics.
            classes: the ``k`` classes of the model, ascending.
        """
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
        """Merged moments by column and term, ``(k,)`` each.

        Args:
            table: merged statistics.
            classes: the ``k`` classes of the model, ascending.
        """
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


@dataclass(frozen=True)
class JointMoments:
    """The moments of all pairs of some columns.

    Attributes:
        columns: ``d`` names.
    """

    columns: Sequence[str]

    sums: ClassVar = ("count", "scatter")

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Moments of one batch; arguments as for `Estimator.summarize`."""
        groups = ByClass.group(classes)
        return _table_of_pairs(groups.labels, cross_moments(rows, self.columns, groups, weights))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The moments of the rows of all tables, by the update of Chan, Golub and LeVeque."""
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        return _table_of_pairs(classes, self.arrays(parts, classes))

    def arrays(self, table: pa.Table, classes: pa.Array) -> Moments:
        """Merged moments as arrays, ``(k, d, d)``; the count of a pair without values is 0.

        Args:
            table: merged statistics.
            classes: the ``k`` classes of the model, ascending.
        """
        group = label_codes(table["class"], classes)
        return merge_moments(group, len(classes), _pairs(table), crossed=True)

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        row = label_rows(table, classes["class"].combine_chunks())
        check_same(table, self.merge([table]))
        parts, rows = _pairs(table), classes["count"].to_numpy()[row]
        spread = np.sqrt(np.maximum(np.diagonal(parts.scatter, axis1=1, axis2=2), 0.0))
        for name, values, most in (
            ("count", parts.count, rows[:, None, None]),
            ("scatter", np.abs(parts.scatter), spread[:, :, None] * spread[:, None, :]),
        ):
            symmetric = np.allclose(values, np.swapaxes(values, 1, 2), rtol=ROUNDING)
            if not symmetric or (values < 0.0).any() or (values > most * (1.0 + ROUNDING)).any():
                raise StoreError(f"a {name} is not symmetric, or larger than it can be.")

    def aggregates(self) -> Sums:
        """What a database computes."""
        terms: dict[Hashable, Expression] = {}
        for first in self.columns:
            for second in self.columns:
                deviation, has_second = Deviation(first), known(Column(second))
                terms["deviation", first, second] = deviation * has_second
                if first <= second:
                    terms["count", first, second] = known(Column(first)) * has_second
                    terms["product", first, second] = deviation * Deviation(second)
        return Sums(terms, self._from_sums)

    def _from_sums(self, by_class: ClassSums) -> pa.Table:
        def tensor(part: str) -> FloatArray:
            symmetric = part != "deviation"
            pairs = [
                by_class.sums[part, *(sorted((i, j)) if symmetric else (i, j))]
                for i in self.columns
                for j in self.columns
            ]
            return np.stack(pairs, axis=-1).reshape(-1, len(self.columns), len(self.columns))

        center = np.stack([by_class.centers[name] for name in self.columns], axis=-1)
        parts = [tensor(part) for part in ("count", "deviation", "product")]
        moments = moments_about(center[:, :, None], *parts, crossed=True)
        diagonal = np.einsum("kii->ki", moments.scatter)
        np.maximum(diagonal, 0.0, out=diagonal)
        return _table_of_pairs(by_class.classes, moments)


def single_moments(moments: Moments) -> Moments:
    """Moments of single columns, ``(k, d)``, out of joint ones, ``(k, d, d)``."""
    return moments.map(lambda values: np.diagonal(values, axis1=1, axis2=2))


def tensor_of(table: pa.Table, name: str) -> FloatArray:
    """A column of tensors as an array, ``(r, …)``."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    tensor: FloatArray = column.to_numpy_ndarray()
    return tensor


def _table_of_pairs(classes: pa.Array, moments: Moments) -> pa.Table:
    tensors = (np.ascontiguousarray(values) for values in vars(moments).values())
    arrays = map(pa.FixedShapeTensorArray.from_numpy_ndarray, tensors)
    return pa.table([classes, *arrays], ["class", *_FIELDS])


def _pairs(table: pa.Table) -> Moments:
    """The moments of each row of the table, ``(r, d, d)``."""
    return Moments(*(tensor_of(table, field) for field in _FIELDS))
