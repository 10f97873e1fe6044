"""Counts that share a total, such as the words of a text of given length.

Multinomial naive Bayes: McCallum and Nigam (1998), with p_ct = (N_ct + α) / (N_c + αV) over a
vocabulary of V terms, of which α = 1 is Laplace's rule and α < 1 Lidstone's.
"""

from __future__ import annotations

import functools
import operator
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.errors import DataError
from probclass_core.estimation.evidence import dirichlet_categorical, log_rising
from probclass_core.estimation.families.counts.base import (
    CountEstimator,
    CountOptions,
    CountParameters,
)
from probclass_core.estimation.families.counts.likelihood import (
    CountLikelihood,
    log_factorials,
    refuse_infinite_weights,
)
from probclass_core.estimation.formulas import (
    IMPOSSIBLE,
    Case,
    Column,
    Expression,
    Named,
    as_expression,
    if_known,
    ln,
    log_gamma,
)
from probclass_core.estimation.formulas import log_rising as log_rising_formula
from probclass_core.estimation.kinds.count_sums import ClassCounts
from probclass_core.estimation.marginals import Levels, Marginal
from probclass_core.estimation.options import flag

_COEFFICIENT = "(coefficient)"


class Multinomial(CountEstimator):
    """Counts given their total and the class.

    log p(x | c) = log N! − Σ log x_t! + Σ x_t log p_ct, the probability of the counts of a row of
    total N: over all rows of one length it sums to 1. Counts need not be whole: x! is Γ(x + 1).

    Statistics: class, feature, count, rows, log_factorials; see `CountSums`.
    Parameters: class, feature, count, log_probability.

    Raises:
        SpecError: if the columns are neither numbers nor one column of terms, or an option is
            unknown or out of bounds.
    """

    name: ClassVar[str] = "multinomial"

    class Options(CountOptions):
        """Options of `Multinomial`."""

        predictive: bool = flag(
            False,
            doc="Score by the Dirichlet–multinomial: p is integrated over its posterior, in place "
            "of its mean.",
        )

    options: Options

    adds_up = True

    def possible_rows(self, counts: ClassCounts) -> FloatArray:
        """The total of all counts of a class, ``(k, 1)``: each could be of any feature."""
        total: FloatArray = counts.sums["count"].sum(axis=1, keepdims=True)
        return total

    def notes_on_rows(self, rows: FloatArray) -> Mapping[str, Any]:
        return {}

    def estimate(self, count: FloatArray, rows: FloatArray) -> FloatArray:
        smoothed = count + self.options.pseudo_count
        if not smoothed.any():  # no class has a count above 0
            smoothed[:] = 1.0
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True))
        return logs

    def compiled(
        self, of: CountParameters
    ) -> MultinomialLikelihood | DirichletMultinomialLikelihood:
        if self.options.predictive:
            alpha = of.count + self.options.pseudo_count
            return DirichletMultinomialLikelihood(of.reader, of.features, alpha)
        return MultinomialLikelihood(of.reader, of.features, of.values)

    def evidence(self, counts: ClassCounts) -> FloatArray:
        sums, totals = counts.sums, counts.totals
        if not self.of_terms:
            self._refuse_gaps(sums["rows"], totals["rows"])
        coefficients = totals["log_factorials"] - sums["log_factorials"].sum(axis=1)
        in_order = dirichlet_categorical(sums["count"], self.options.pseudo_count)
        return np.asarray(in_order + coefficients)

    def _refuse_gaps(self, rows: FloatArray, any_value: FloatArray) -> None:
        """Refuse rows that lack a column: their integral has no closed form.

        Args:
            rows: rows with a value, by class and column, ``(k, m)``.
            any_value: rows with any value, by class, ``(k,)``.
        """
        gap = any_value[:, None] - rows
        for _, column in np.argwhere(gap > 1e-9 * any_value[:, None])[:1]:
            raise DataError(
                f"multinomial has no closed-form evidence: column {self.features.names[column]!r} "
                "is null in rows that have other counts; drop these rows, or fill in 0."
            )


class SharesLikelihood(CountLikelihood):
    """A likelihood of counts given their total: each is one of the features, with a probability."""

    def marginal(self, column: str) -> Marginal | None:
        """Probabilities of the terms; of a column of counts, that one is of it, or of another."""
        share = self.shares()
        if self.reader.of_terms:
            return Levels(self.features.to_pylist(), share, of="item")
        if column not in self.reader.columns:
            return None
        own = share[list(self.reader.columns).index(column)]
        return Levels([column, "another column"], np.stack([own, 1.0 - own]), of="item")

    @abstractmethod
    def shares(self) -> FloatArray:
        """Probability of each feature, ``(m, k)``."""


class MultinomialLikelihood(SharesLikelihood):
    """The probability of counts given their total.

    If a column is null, it is the probability of the other counts given their total: each p is
    divided by the sum of p over the known columns.

    Args:
        reader: reads the counts of these features in a batch.
        features: ``m`` names.
        log_probability: log p, ``(k, m)``.
    """

    def __init__(
        self, reader: CountReader, features: pa.Array, log_probability: FloatArray
    ) -> None:
        super().__init__(reader, features)
        self.log_probability = log_probability
        self.weights = np.ascontiguousarray(log_probability.T)

    def of_counts(self, counts: Counts) -> FloatArray:
        result: FloatArray = counts.matrix @ self.weights
        result += log_coefficient(counts)
        result -= counts.lengths[:, None] * self._log_mass(counts)
        return result

    def _log_mass(self, counts: Counts) -> FloatArray:
        """log Σ p over the known columns, ``(n, k)``; 0 if all are known, or p is 0 in all."""
        if self.reader.of_terms or counts.known is None:
            return np.zeros((1, 1))
        mass = counts.over_known(np.exp(self.weights))
        complete = counts.known.all(axis=1, keepdims=True)
        return np.log(np.where(complete | (mass == 0.0), 1.0, mass))

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        terms = [_coefficient(columns)]
        for x, logs in zip(columns, self.weights, strict=True):
            none = x.is_null | x.equals(0.0)  # 0 times −∞ is 0
            terms.append(Case([(none, as_expression(0.0))], x * logs))
        masses = [
            if_known([x], as_expression(np.exp(logs)))
            for x, logs in zip(columns, self.weights, strict=True)
        ]
        mass = Named(functools.reduce(operator.add, masses))
        some = functools.reduce(operator.or_, [x.is_null for x in columns])
        log_mass = ln(Case([(mass > 0.0, mass)], as_expression(1.0)))
        missing = -1.0 * _length(columns) * log_mass
        return [*terms, Case([(some, missing)], as_expression(0.0))]

    def itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        counts = self.reader.read(row)
        log_mass = self._log_mass(counts)[0]
        shares = {
            name: count * (self.log_probability[:, code] - log_mass)
            for name, code, count in self.stored(counts)
        }
        rest = log_coefficient(counts)[0]
        return {**shares, _COEFFICIENT: np.broadcast_to(rest, len(self.log_probability)).copy()}

    def shares(self) -> FloatArray:
        return np.exp(self.weights)

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """log p; the coefficient is common to all classes."""
        weights = self.log_probability
        refuse_infinite_weights(weights)
        return self.features.to_pylist(), weights, np.zeros(len(weights))


class DirichletMultinomialLikelihood(SharesLikelihood):
    """The probability of counts given their total, with p ~ Dirichlet(α) integrated out.

    Args:
        reader: reads the counts of these features in a batch.
        features: ``m`` names.
        alpha: training counts plus pseudo-count, ``(k, m)``.
    """

    def __init__(self, reader: CountReader, features: pa.Array, alpha: FloatArray) -> None:
        super().__init__(reader, features)
        self.alpha = alpha

    def shares(self) -> FloatArray:
        share: FloatArray = (self.alpha / self.alpha.sum(axis=1, keepdims=True)).T
        return share

    def of_counts(self, counts: Counts) -> FloatArray:
        codes, data = counts.matrix.indices, counts.matrix.data
        result = np.stack(
            [counts.row_sums(log_rising(alpha[codes], data)) for alpha in self.alpha], axis=1
        )
        result += self._rest(counts)
        return result

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        terms = [_coefficient(columns)]
        alphas = [
            if_known([x], as_expression(alpha))
            for x, alpha in zip(columns, self.alpha.T, strict=True)
        ]
        for x, alpha in zip(columns, self.alpha.T, strict=True):
            none = x.is_null | x.equals(0.0)
            impossible = as_expression(alpha).equals(0.0)
            rise = log_rising_formula(alpha, x)
            terms.append(Case([(none, as_expression(0.0)), (impossible, IMPOSSIBLE)], rise))
        total = Named(functools.reduce(operator.add, alphas))
        rise = log_rising_formula(
            Case([(total > 0.0, total)], as_expression(1.0)), _length(columns)
        )
        return [*terms, Case([(total > 0.0, -1.0 * rise)], as_expression(0.0))]

    def _rest(self, counts: Counts) -> FloatArray:
        """Log of the coefficient, minus the rising factorial of the total: ``(n, k)``."""
        total = counts.over_known(np.ascontiguousarray(self.alpha.T))
        lengths = np.broadcast_to(counts.lengths[:, None], total.shape)
        # If all α are 0, every count is impossible already, and the total must not make it NaN.
        rise = log_rising(total, np.where(total > 0.0, lengths, 0.0))
        rest: FloatArray = log_coefficient(counts) - rise
        return rest

    def itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        counts = self.reader.read(row)
        shares = {
            name: log_rising(self.alpha[:, code], np.array(count))
            for name, code, count in self.stored(counts)
        }
        return {**shares, _COEFFICIENT: self._rest(counts)[0]}


def _length(columns: Sequence[Column]) -> Expression:
    """The total of a row."""
    return Named(functools.reduce(operator.add, [if_known([x], x) for x in columns]))


def _coefficient(columns: Sequence[Column]) -> Expression:
    """log (N! / Π x_t!) of a row."""
    factorials = [if_known([x], log_gamma(x + 1.0)) for x in columns]
    return log_gamma(_length(columns) + 1.0) - functools.reduce(operator.add, factorials)


def log_coefficient(counts: Counts) -> FloatArray:
    """log (N! / Π x_t!) of each row: ``(n, 1)``."""
    from scipy.special import gammaln

    coefficient: FloatArray = gammaln(counts.lengths + 1.0) - log_factorials(counts)
    return coefficient[:, None]
