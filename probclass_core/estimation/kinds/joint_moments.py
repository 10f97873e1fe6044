"""Joint moments: count, mean and scatter of all pairs of columns by class.

The table has one row per class: class, count (Σ w), mean, scatter (Σ w (xᵢ − x̄ᵢ)(xⱼ − x̄ⱼ)), each a
``(d, d)`` tensor over pairs of columns. A pair is that of the rows which have both columns; the
mean of a pair is that of its first column.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import ByClass, FloatArray, label_codes, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import StoreError
from probclass_core.estimation.formulas import Column, Expression, known
from probclass_core.estimation.kinds.kind import ClassSums, Deviation, Sums
from probclass_core.estimation.moments import Moments, cross_moments, merge_moments, moments_about
from probclass_core.estimation.tidy import ROUNDING, check_same, label_rows

_FIELDS = ("count", "mean", "scatter")


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
        return _table(groups.labels, cross_moments(rows, self.columns, groups, weights))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """The moments of the rows of all tables, by the update of Chan, Golub and LeVeque."""
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        return _table(classes, self.arrays(parts, classes))

    def arrays(self, table: pa.Table, classes: pa.Array) -> Moments:
        """Merged moments as arrays, ``(k, d, d)``; the count of a pair without values is 0."""
        group = label_codes(table["class"], classes)
        return merge_moments(group, len(classes), _parts(table), crossed=True)

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        row = label_rows(table, classes["class"].combine_chunks())
        check_same(table, self.merge([table]))
        parts, rows = _parts(table), classes["count"].to_numpy()[row]
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
        return _table(by_class.classes, moments)


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


def _table(classes: pa.Array, moments: Moments) -> pa.Table:
    tensors = (np.ascontiguousarray(values) for values in vars(moments).values())
    arrays = map(pa.FixedShapeTensorArray.from_numpy_ndarray, tensors)
    return pa.table([classes, *arrays], ["class", *_FIELDS])


def _parts(table: pa.Table) -> Moments:
    """The moments of each row of the table, ``(r, d, d)``."""
    return Moments(*(tensor_of(table, field) for field in _FIELDS))
