"""The likelihoods of counts: of independent ones, and of those that share a total.

The log probability of a count x of a feature is a constant, plus a term that is linear in the count
or in its presence:

    Bernoulli      log (1 − p) + [x > 0] (log p − log (1 − p))
    Poisson        −λ + x log λ − log x!
    multinomial    x log p,  and of a row  log N! − Σ log x!
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.errors import NotSupportedError
from probclass_core.estimation import formulas
from probclass_core.estimation.formulas import (
    Case,
    Column,
    Expression,
    Formula,
    Named,
    as_expression,
    if_known,
)
from probclass_core.estimation.kinds.count_sums import refused_counts
from probclass_core.estimation.marginals import Levels, Marginal, derive, presence

_COEFFICIENT = "(coefficient)"


@dataclass(frozen=True)
class CountFactors:
    """log p(x | class) of each feature, as the module describes it, in arrays ``(m, k)``.

    Attributes:
        absence: log p(0 | class).
        weights: added for each count, or for a presence; −∞ if the class rules a count out.
        presences: whether a count above 0 is all that matters.
        rates: λ of Poisson counts, from which log x! is subtracted; None for other counts.
    """

    absence: FloatArray
    weights: FloatArray
    presences: bool = False
    rates: FloatArray | None = None

    def of(self, feature: int) -> CountFactors:
        """Those of one feature alone."""
        return replace(
            self,
            absence=self.absence[[feature]],
            weights=self.weights[[feature]],
        )


class CountLikelihood:
    """Counts that are independent given the class.

    Args:
        reader: reads the counts of a batch, features in the order of the parameters.
        features: ``m`` names.
        factors: their log probabilities.
        columns: all columns of the block, also those without values; by default the reader's.

    Attributes:
        given_total: whether counts share a total, so that columns are not factors.
    """

    normalized = True
    given_total: ClassVar[bool] = False

    def __init__(
        self,
        reader: CountReader,
        features: pa.Array,
        factors: CountFactors,
        *,
        columns: Sequence[str] | None = None,
    ) -> None:
        self.reader, self.features, self.factors = reader, features, factors
        self.columns = reader.columns if columns is None else columns
        # A feature that every row of a class has would give −∞ + ∞ for its presence. It adds 0 to
        # the sums instead, and rows that lack it are found by counting.
        certain = np.isneginf(factors.absence)
        self.absence = np.where(certain, 0.0, factors.absence)
        self.certain = certain.astype(np.float64) if certain.any() else None
        if reader.of_terms or self.given_total:
            self.itemize = self._itemize
        else:
            self.log_factors = self._log_factors

    def log_likelihood(self, rows: Rows) -> FloatArray:
        return np.concatenate([self._of_counts(counts) for _, counts in self.reader.parts(rows)])

    def _of_counts(self, counts: Counts) -> FloatArray:
        counted = counts.presence if self.factors.presences else counts.matrix
        result: FloatArray = counted @ self.factors.weights
        result += counts.over_known(self.absence)
        if self.certain is not None:
            lacking = counts.over_known(self.certain) - counts.presence @ self.certain
            result[lacking > 0.5] = -np.inf
        result += self.of_rows(counts)
        return result

    def of_rows(self, counts: Counts) -> FloatArray:
        """What depends on a row as a whole, ``(n, 1)`` or ``(n, k)``."""
        if self.factors.rates is None:
            return np.zeros((1, 1))
        return -log_factorials(counts)[:, None]

    def formula(self) -> Formula:
        if self.reader.of_terms:
            raise NotSupportedError(
                f"column {self.reader.columns[0]!r} contains terms, whose number per row is not "
                "fixed; make a column of numbers for each term that matters."
            )
        columns = [Column(name) for name in self.reader.columns]
        terms = [*map(self._term, range(len(columns)), columns), *self.terms_of_rows(columns)]
        return Formula(terms, refused_counts(columns, whole=self.reader.whole))

    def _term(self, place: int, x: Column) -> Expression:
        """The log probability of a column, 0 if it is null."""
        factors, absence, weights = self.factors, self.absence[place], self.factors.weights[place]
        cases = [(x.equals(0.0), as_expression(factors.absence[place]))]
        if factors.presences:
            return if_known([x], Case(cases, as_expression(absence + weights)))
        value = x * weights + absence
        if factors.rates is not None:
            value = value - formulas.log_gamma(x + 1.0)
        return if_known([x], Case(cases, value))

    def terms_of_rows(self, columns: Sequence[Column]) -> list[Expression]:
        """`of_rows` as terms of a formula; factorials are in the terms of the columns."""
        return []

    def _log_factors(self, rows: Rows) -> Iterator[FloatArray]:
        for name in self.columns:
            if name in self.reader.columns:
                yield self._alone(name).log_likelihood(rows)
            else:
                yield np.zeros((len(rows), self.factors.weights.shape[1]))

    def _alone(self, column: str) -> CountLikelihood:
        """The likelihood of one column."""
        place = list(self.reader.columns).index(column)
        reader = replace(self.reader, columns=[column])
        return CountLikelihood(reader, pa.array([column]), self.factors.of(place))

    def _itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        counts = self.reader.read(row)
        items = dict(self.items(counts, self.factors.weights))
        rest = np.delete(self.factors.absence, counts.matrix.indices, axis=0).sum(axis=0)
        # In a null row no term is absent; −∞ · 0 would be NaN.
        return {**items, "(absent terms)": np.where(counts.known_rows[0] > 0.0, rest, 0.0)}

    def items(self, counts: Counts, weights: FloatArray) -> Iterator[tuple[str, FloatArray]]:
        """The name and the log probability ``(k,)`` of each count above 0 of a single row."""
        from scipy.special import gammaln

        codes, data = counts.matrix.indices, counts.matrix.data
        names = self.features.take(pa.array(codes)).to_pylist()
        for name, code, x in zip(names, codes.tolist(), data.tolist(), strict=True):
            item = self.absence[code] + (1.0 if self.factors.presences else x) * weights[code]
            yield name, item if self.factors.rates is None else item - gammaln(x + 1.0)

    def marginal(self, column: str) -> Marginal | None:
        """The distribution of a column; of terms, the probability that each occurs."""
        if self.reader.of_terms:
            present = -np.expm1(self.factors.absence)
            return Levels(self.features.to_pylist(), present, of="presence")
        if column not in self.reader.columns:
            return None
        place = list(self.reader.columns).index(column)
        if self.factors.presences:
            return presence(np.exp(self.absence[place] + self.factors.weights[place]))
        rate = None if self.factors.rates is None else self.factors.rates[place]
        return derive(self._alone(column), column, mean=rate, variance=rate)


class SharesLikelihood(CountLikelihood):
    """Counts given their total: each of them is of one feature, with a probability.

    If a column is null, it is the probability of the other counts given their total: each p is
    divided by the sum of p over the known columns.
    The factors are without those of the total.
    """

    given_total = True

    @functools.cached_property
    def masses(self) -> FloatArray:
        """p of each feature, ``(m, k)``."""
        return np.exp(self.factors.weights)

    def of_rows(self, counts: Counts) -> FloatArray:
        return log_coefficient(counts) - counts.lengths[:, None] * self._log_mass(counts)

    def _log_mass(self, counts: Counts) -> FloatArray:
        """log Σ p over the known columns, ``(n, k)``; 0 if all are known, or p is 0 in all."""
        if self.reader.of_terms or counts.known.all():
            return np.zeros((1, 1))
        mass = counts.over_known(self.masses)
        complete = counts.known.all(axis=1, keepdims=True)
        return np.log(np.where(complete | (mass == 0.0), 1.0, mass))

    def terms_of_rows(self, columns: Sequence[Column]) -> list[Expression]:
        length = Named(_sum(if_known([x], x) for x in columns))
        factorials = _sum(if_known([x], formulas.log_gamma(x + 1.0)) for x in columns)
        masses = zip(columns, self.masses, strict=True)
        mass = Named(_sum(if_known([x], as_expression(of_x)) for x, of_x in masses))
        usual = Case([(mass > 0.0, mass)], as_expression(1.0))
        some = functools.reduce(operator.or_, [x.is_null for x in columns])
        rest = Case([(some, -1.0 * length * formulas.ln(usual))], as_expression(0.0))
        return [formulas.log_gamma(length + 1.0) - factorials, rest]

    def _itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        counts = self.reader.read(row)
        weights = self.factors.weights - self._log_mass(counts)[0]
        rest = np.broadcast_to(log_coefficient(counts)[0], weights.shape[1]).copy()
        return {**dict(self.items(counts, weights)), _COEFFICIENT: rest}

    def marginal(self, column: str) -> Marginal | None:
        """Probabilities of the terms; of a column of counts, that one is of it, or of another."""
        share = self.masses / self.masses.sum(axis=0)
        if self.reader.of_terms:
            return Levels(self.features.to_pylist(), share, of="item")
        if column not in self.reader.columns:
            return None
        own = share[list(self.reader.columns).index(column)]
        return Levels([column, "another column"], np.stack([own, 1.0 - own]), of="item")


def log_factorials(counts: Counts) -> FloatArray:
    """Σ log x! of each row: ``(n,)``."""
    from scipy.special import gammaln

    return counts.row_sums(gammaln(counts.matrix.data + 1.0))


def log_coefficient(counts: Counts) -> FloatArray:
    """log (N! / Π x_t!) of each row: ``(n, 1)``."""
    from scipy.special import gammaln

    coefficient: FloatArray = gammaln(counts.lengths + 1.0) - log_factorials(counts)
    return coefficient[:, None]


def _sum(expressions: Iterator[Expression]) -> Expression:
    return functools.reduce(operator.add, expressions)
