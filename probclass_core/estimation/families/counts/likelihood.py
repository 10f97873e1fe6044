"""Likelihoods of counts: what they share, whatever the distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.errors import NotSupportedError
from probclass_core.estimation.formulas import Column, Expression, Formula
from probclass_core.estimation.kinds.count_sums import refused_counts
from probclass_core.estimation.marginals import Levels, Marginal


class CountLikelihood(ABC):
    """Parameters compiled for counts.

    Args:
        reader: reads the counts of a batch, features in the order of the parameters.
        features: ``m`` names.
    """

    normalized = True

    def __init__(self, reader: CountReader, features: pa.Array) -> None:
        self.reader = reader
        self.features = features

    def log_likelihood(self, rows: Rows) -> FloatArray:
        return np.concatenate([self.of_counts(counts) for _, counts in self.reader.parts(rows)])

    @abstractmethod
    def of_counts(self, counts: Counts) -> FloatArray:
        """log p(x | class) of counts, ``(n, k)``."""

    def formula(self) -> Formula:
        if self.reader.of_terms:
            raise NotSupportedError(
                f"column {self.reader.columns[0]!r} contains terms, whose number per row is not "
                "fixed; make a column of numbers for each term that matters."
            )
        columns = [Column(name) for name in self.reader.columns]
        return Formula(self.terms(columns), refused_counts(columns, whole=self.reader.whole))

    @abstractmethod
    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        """The terms of the formula of columns of counts, each 0 if its column is null."""

    def stored(self, counts: Counts) -> Iterator[tuple[str, int, float]]:
        """Name, position and value of the counts above 0 of a single row."""
        codes = counts.matrix.indices
        names = self.features.take(pa.array(codes)).to_pylist()
        return zip(names, codes.tolist(), counts.matrix.data.tolist(), strict=True)


class IndependentCounts(CountLikelihood):
    """A likelihood of counts that are independent given the class.

    Args:
        reader: reads the counts of a batch.
        features: ``m`` names.
        log_absence: log p(0 | class) of each feature, ``(m, k)``.
    """

    def __init__(self, reader: CountReader, features: pa.Array, log_absence: FloatArray) -> None:
        super().__init__(reader, features)
        self.log_absence = np.ascontiguousarray(log_absence)
        if reader.of_terms:  # columns are reported as factors
            self.itemize = self._itemize

    @abstractmethod
    def of_feature(self, code: int, count: float) -> FloatArray:
        """log p(count | class) of one feature, ``(k,)``, for a count above 0."""

    def _itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        counts = self.reader.read(row)
        items = {name: self.of_feature(code, x) for name, code, x in self.stored(counts)}
        rest = np.delete(self.log_absence, counts.matrix.indices, axis=0).sum(axis=0)
        # In a null row no term is absent; −∞ · 0 would be NaN.
        return {**items, "(absent terms)": np.where(counts.known_rows[0] > 0.0, rest, 0.0)}

    def marginal(self, column: str) -> Marginal | None:
        """The distribution of a column; of terms, the probability that each occurs."""
        if self.reader.of_terms:
            present = -np.expm1(self.log_absence)
            return Levels(self.features.to_pylist(), present, of="presence")
        if column not in self.reader.columns:
            return None
        return self.marginal_of_counts(column, list(self.reader.columns).index(column))

    @abstractmethod
    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        """The distribution of a column of counts, which is feature number ``place``."""

    def of_column(self, column: str, *parameters: FloatArray) -> Self:
        """The likelihood of one column alone, from its parameters, ``(k, 1)`` each."""
        reader = replace(self.reader, columns=[column])
        return type(self)(reader, pa.array([column]), *parameters)


def log_factorials(counts: Counts) -> FloatArray:
    """Σ log x! of each row: ``(n,)``."""
    from scipy.special import gammaln

    return counts.row_sums(gammaln(counts.matrix.data + 1.0))


def refuse_infinite_weights(weights: FloatArray) -> None:
    """Refuse a linear form with infinite weights.

    Raises:
        NotSupportedError: if a weight is infinite.
    """
    if not np.isfinite(weights).all():
        raise NotSupportedError(
            "no linear form: a feature that a class never showed, or always, has an infinite "
            "weight; set pseudo_count above 0."
        )
