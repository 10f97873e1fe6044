"""Independent counts without a total to share: events in an interval, visits, words of a text.

Poisson with a gamma prior of each rate: Gelman et al., *Bayesian Data Analysis*, section 2.6. The
rate is the posterior mean (Σ x + α) / (n + β): the prior counts as β more rows with α events in
total.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.estimation.evidence import gamma_poisson, log_rising
from probclass_core.estimation.families.counts.base import (
    CountEstimator,
    CountOptions,
    CountParameters,
)
from probclass_core.estimation.families.counts.likelihood import (
    IndependentCounts,
    log_factorials,
    refuse_infinite_weights,
)
from probclass_core.estimation.formulas import (
    IMPOSSIBLE,
    Case,
    Column,
    Expression,
    as_expression,
    if_known,
    log_gamma,
)
from probclass_core.estimation.formulas import log_rising as log_rising_formula
from probclass_core.estimation.kinds.count_sums import ClassCounts
from probclass_core.estimation.marginals import Marginal, derive
from probclass_core.estimation.options import flag, number
from probclass_core.estimation.parameters import NOT_NEGATIVE


class Poisson(CountEstimator):
    """Independent Poisson counts given the class: a rate per class and column or term.

    Statistics: class, feature, count, rows, log_factorials; see `CountSums`.
    Parameters: class, feature, count, rate (events per row); rows are in the notes.

    Raises:
        SpecError: if the columns are neither numbers nor one column of terms, or an option is
            unknown or out of bounds.
    """

    name: ClassVar[str] = "poisson"
    factorizes = True

    class Options(CountOptions):
        """Options of `Poisson`."""

        pseudo_count: float = number(1.0, doc="α, events of the prior: the shape of its gamma.")
        pseudo_rows: float = number(
            1.0,
            doc="β, rows of the prior: the rate of its gamma. With α and β both 0 the rate is the "
            "mean of the rows, the maximum likelihood.",
        )
        predictive: bool = flag(
            False,
            doc="Score by the negative binomial: the rate is integrated over its posterior, in "
            "place of its mean.",
        )

    options: Options
    field = "rate"
    allowed = NOT_NEGATIVE
    priors = ("pseudo_count", "pseudo_rows")
    of_whole_counts = True

    def estimate(self, count: FloatArray, rows: FloatArray) -> FloatArray:
        return (count + self.options.pseudo_count) / (rows + self.options.pseudo_rows)

    def compiled(self, of: CountParameters) -> PoissonLikelihood | NegativeBinomialLikelihood:
        if not self.options.predictive:
            return PoissonLikelihood(of.reader, of.features, of.values)
        shape = of.count + self.options.pseudo_count
        rate = np.broadcast_to(of.rows + self.options.pseudo_rows, shape.shape)
        return NegativeBinomialLikelihood(of.reader, of.features, shape, rate)

    def evidence(self, counts: ClassCounts) -> FloatArray:
        return gamma_poisson(
            total=counts.sums["count"],
            rows=self.possible_rows(counts),
            log_factorials=counts.sums["log_factorials"],
            shape=self.options.pseudo_count,
            rate=self.options.pseudo_rows,
        )


class PoissonLikelihood(IndependentCounts):
    """log p(x | c) = Σ_j [x_j log λ_cj − λ_cj − log x_j!], over the known columns.

    Args:
        reader: reads the counts of a batch.
        features: ``d`` names.
        rate: λ, ``(k, d)``; 0 is a point mass at 0.
    """

    def __init__(self, reader: CountReader, features: pa.Array, rate: FloatArray) -> None:
        super().__init__(reader, features, -rate.T)
        self.rate = np.ascontiguousarray(rate.T)
        with np.errstate(divide="ignore"):
            self.log_rate = np.log(self.rate)

    def of_counts(self, counts: Counts) -> FloatArray:
        result: FloatArray = counts.matrix @ self.log_rate
        result -= counts.over_known(self.rate)
        result -= log_factorials(counts)[:, None]
        return result

    def of_feature(self, code: int, count: float) -> FloatArray:
        from scipy.special import gammaln

        logs: FloatArray = count * self.log_rate[code] - self.rate[code] - gammaln(count + 1.0)
        return logs

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        terms = []
        for x, rate, log_rate in zip(columns, self.rate, self.log_rate, strict=True):
            above = x * log_rate - rate - log_gamma(x + 1.0)
            terms.append(if_known([x], Case([(x.equals(0.0), as_expression(-rate))], above)))
        return terms

    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        rate = self.rate[place]
        return derive(self.of_column(column, rate[:, None]), column, mean=rate, variance=rate)

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """log λ and −Σ λ; the factorials are common to all classes."""
        refuse_infinite_weights(self.log_rate)
        return self.features.to_pylist(), self.log_rate.T, -self.rate.sum(axis=0)


class NegativeBinomialLikelihood(IndependentCounts):
    """log p(x | c) with λ_cj ~ Gamma(a_cj, b_cj) integrated out, over the known columns.

    log Γ(a + x) / Γ(a) + a log(b / (b + 1)) − x log(b + 1) − log x!

    Args:
        reader: reads the counts of a batch.
        features: ``d`` names.
        shape: a, ``(k, d)``; 0 is a point mass at 0.
        rate: b, ``(k, d)``.
    """

    def __init__(
        self, reader: CountReader, features: pa.Array, shape: FloatArray, rate: FloatArray
    ) -> None:
        super().__init__(reader, features, (-shape * np.log1p(1.0 / rate)).T)
        self.shape, self.rate = shape, rate
        self.log_spread = np.log1p(rate)

    def of_counts(self, counts: Counts) -> FloatArray:
        codes, data = counts.matrix.indices, counts.matrix.data
        rises = [
            counts.row_sums(log_rising(shape[codes], data) - data * log_spread[codes])
            for shape, log_spread in zip(self.shape, self.log_spread, strict=True)
        ]
        result = np.stack(rises, axis=1)
        result += counts.over_known(self.log_absence)
        result -= log_factorials(counts)[:, None]
        return result

    def of_feature(self, code: int, count: float) -> FloatArray:
        from scipy.special import gammaln

        rise = log_rising(self.shape[:, code], np.array(count)) - count * self.log_spread[:, code]
        logs: FloatArray = rise + self.log_absence[code] - gammaln(count + 1.0)
        return logs

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        terms = []
        for place, x in enumerate(columns):
            shape, spread = self.shape[:, place], self.log_spread[:, place]
            at_zero = as_expression(self.log_absence[place])
            rise = log_rising_formula(shape, x) - x * spread - log_gamma(x + 1.0)
            never = as_expression(shape).equals(0.0)
            cases = [(x.equals(0.0), at_zero), (never, IMPOSSIBLE)]
            terms.append(if_known([x], Case(cases, rise + at_zero)))
        return terms

    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        shape, rate = self.shape[:, place], self.rate[:, place]
        alone = self.of_column(column, shape[:, None], rate[:, None])
        mean = shape / rate
        return derive(alone, column, mean=mean, variance=mean * (1.0 + 1.0 / rate))
