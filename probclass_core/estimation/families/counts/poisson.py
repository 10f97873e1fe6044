"""Independent counts without a total to share: events in an interval, visits, words of a text.

Poisson with a gamma prior of each rate: Gelman et al., *Bayesian Data Analysis*, section 2.6. The
rate is the posterior mean (Σ x + α) / (n + β): the prior counts as β more rows with α events in
total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.errors import DataError
from probclass_core.estimation.evidence import gamma_poisson, log_rising
from probclass_core.estimation.families.counts.base import (
    CountEstimator,
    CountOptions,
    IndependentCounts,
    log_factorials,
    refuse_infinite_weights,
)
from probclass_core.estimation.families.scarce import NoLikelihood
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
from probclass_core.estimation.marginals import Marginal, derive
from probclass_core.estimation.options import flag, number
from probclass_core.estimation.parameters import (
    COUNT,
    NOT_NEGATIVE,
    check_notes,
    check_parameters,
)
from probclass_core.estimation.tidy import notes_of

_ABSENT = "(absent terms)"


class Poisson(CountEstimator):
    """Independent Poisson counts given the class: a rate per class and column or term.

    Statistics: class, feature, count, rows, log_factorials; see `CountEstimator`.
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
    of_whole_counts = True

    def count_of(self, counts: Counts) -> Any:
        refuse_fractions(counts)
        return counts.matrix

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        sums = self.by_class(statistics, classes)
        rows = self.possible_rows(sums)
        alpha, beta = self.options.pseudo_count, self.options.pseudo_rows
        notes = self.notes(classes, sums, rows, beta)
        if not beta and self.on_scarce == "pool":
            none = rows == 0.0
            count = np.where(none, sums.cells["count"].sum(axis=0), sums.cells["count"])
            rows = np.where(none, rows.sum(axis=0), rows)
            sums = replace(sums, cells={**sums.cells, "count": count})
        for group, column in np.argwhere(rows + beta == 0.0)[:1]:
            raise DataError(
                f"class {classes[int(group)].as_py()!r} has no value of column "
                f"{self.features.names[column]!r} and pseudo_rows is 0; set it above 0, or leave "
                "the column out."
            )
        rate = (sums.cells["count"] + alpha) / (rows + beta)
        return self.parameters(classes, sums, "rate", rate, notes, rows=rows.tolist())

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        check_parameters(
            parameters,
            classes,
            {"feature": pa.string()},
            {"count": COUNT, "rate": NOT_NEGATIVE},
        )
        check_notes(notes_of(parameters).get("rows"), "rows", COUNT)

    def likelihood(
        self, parameters: pa.Table, classes: pa.Array
    ) -> PoissonLikelihood | NegativeBinomialLikelihood | NoLikelihood:
        if not parameters.num_rows:
            return NoLikelihood(len(classes))
        reader, features, count, rate = self.read_parameters(parameters, classes, "rate")
        if self.options.predictive:
            shape = count + self.options.pseudo_count
            rows = self.rows_of(parameters, classes) + self.options.pseudo_rows
            mixture = ItemizedNegativeBinomial if self.of_terms else NegativeBinomialLikelihood
            return mixture(reader, features, shape, np.broadcast_to(rows, shape.shape))
        kind = ItemizedPoisson if self.of_terms else PoissonLikelihood
        return kind(reader, features, rate)

    def log_evidence(self, statistics: pa.Table) -> float:
        self.refuse_improper_prior("pseudo_count", "pseudo_rows")
        sums = self.by_class(statistics, sorted_classes(statistics["class"]))
        evidence = gamma_poisson(
            total=sums.cells["count"],
            rows=self.possible_rows(sums),
            log_factorials=sums.cells["log_factorials"],
            shape=self.options.pseudo_count,
            rate=self.options.pseudo_rows,
        )
        return float(evidence.sum())


class PoissonLikelihood(IndependentCounts):
    """log p(x | c) = Σ_j [x_j log λ_cj − λ_cj − log x_j!], over the known columns.

    Args:
        reader: reads the counts of a batch.
        features: ``d`` names.
        rate: λ, ``(k, d)``; 0 is a point mass at 0.
    """

    of_whole_counts = True

    def __init__(self, reader: CountReader, features: pa.Array, rate: FloatArray) -> None:
        super().__init__(reader, features)
        self.rate = np.ascontiguousarray(rate.T)
        with np.errstate(divide="ignore"):
            self.log_rate = np.log(self.rate)

    def of_counts(self, counts: Counts) -> FloatArray:
        refuse_fractions(counts)
        result: FloatArray = counts.matrix @ self.log_rate
        result -= counts.over_known(self.rate)
        result -= log_factorials(counts)[:, None]
        return result

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        terms = []
        for x, rate, log_rate in zip(columns, self.rate, self.log_rate, strict=True):
            above = x * log_rate - rate - log_gamma(x + 1.0)
            terms.append(if_known([x], Case([(x.equals(0.0), as_expression(-rate))], above)))
        return terms

    def log_absence(self) -> FloatArray:
        return -self.rate

    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        rate = self.rate[place]
        alone = PoissonLikelihood(replace(self.reader, columns=[column]), [column], rate[:, None])
        return derive(alone, column, mean=rate, variance=rate)

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """log λ and −Σ λ; the factorials are common to all classes."""
        refuse_infinite_weights(self.log_rate)
        return self.features.to_pylist(), self.log_rate.T, -self.rate.sum(axis=0)


class ItemizedPoisson(PoissonLikelihood):
    """A Poisson likelihood of terms, which reports the contribution of each term."""

    def itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        from scipy.special import gammaln

        counts = self.reader.read(row)
        shares = {
            name: count * self.log_rate[code] - self.rate[code] - gammaln(count + 1.0)
            for name, code, count in self.stored(counts)
        }
        return {**shares, _ABSENT: _of_absent(counts, -self.rate)}


class NegativeBinomialLikelihood(IndependentCounts):
    """log p(x | c) with λ_cj ~ Gamma(a_cj, b_cj) integrated out, over the known columns.

    log Γ(a + x) / Γ(a) + a log(b / (b + 1)) − x log(b + 1) − log x!

    Args:
        reader: reads the counts of a batch.
        features: ``d`` names.
        shape: a, ``(k, d)``; 0 is a point mass at 0.
        rate: b, ``(k, d)``.
    """

    of_whole_counts = True

    def __init__(
        self, reader: CountReader, features: pa.Array, shape: FloatArray, rate: FloatArray
    ) -> None:
        super().__init__(reader, features)
        self.shape, self.rate = shape, rate
        self.log_spread = np.log1p(rate)
        self.at_zero = np.ascontiguousarray((-shape * np.log1p(1.0 / rate)).T)

    def of_counts(self, counts: Counts) -> FloatArray:
        refuse_fractions(counts)
        codes, data = counts.matrix.indices, counts.matrix.data
        rises = [
            counts.row_sums(log_rising(shape[codes], data) - data * log_spread[codes])
            for shape, log_spread in zip(self.shape, self.log_spread, strict=True)
        ]
        result = np.stack(rises, axis=1)
        result += counts.over_known(self.at_zero)
        result -= log_factorials(counts)[:, None]
        return result

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        terms = []
        for place, x in enumerate(columns):
            shape, spread = self.shape[:, place], self.log_spread[:, place]
            at_zero = as_expression(self.at_zero[place])
            rise = log_rising_formula(shape, x) - x * spread - log_gamma(x + 1.0)
            never = as_expression(shape).equals(0.0)
            cases = [(x.equals(0.0), at_zero), (never, IMPOSSIBLE)]
            terms.append(if_known([x], Case(cases, rise + at_zero)))
        return terms

    def log_absence(self) -> FloatArray:
        return self.at_zero

    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        shape, rate = self.shape[:, place], self.rate[:, place]
        alone = NegativeBinomialLikelihood(
            replace(self.reader, columns=[column]), [column], shape[:, None], rate[:, None]
        )
        mean = shape / rate
        return derive(alone, column, mean=mean, variance=mean * (1.0 + 1.0 / rate))


class ItemizedNegativeBinomial(NegativeBinomialLikelihood):
    """A negative binomial likelihood of terms, which reports the contribution of each term."""

    def itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        from scipy.special import gammaln

        counts = self.reader.read(row)
        shares = {
            name: log_rising(self.shape[:, code], np.array(count))
            - count * self.log_spread[:, code]
            + self.at_zero[code]
            - gammaln(count + 1.0)
            for name, code, count in self.stored(counts)
        }
        return {**shares, _ABSENT: _of_absent(counts, self.at_zero)}


def _of_absent(counts: Counts, at_zero: FloatArray) -> FloatArray:
    """Sum of the terms that a row lacks, ``(k,)``, from log p(0 | class) of each, ``(m, k)``."""
    rest: FloatArray = np.delete(at_zero, counts.matrix.indices, axis=0).sum(axis=0)
    return np.where(counts.known_rows[0] > 0.0, rest, 0.0)


def refuse_fractions(counts: Counts) -> None:
    """Refuse counts that are not whole.

    Raises:
        DataError: naming the column and a value.
    """
    data = counts.matrix.data
    fractions = np.flatnonzero(data != np.floor(data))
    if len(fractions):
        feature = counts.features[int(counts.matrix.indices[fractions[0]])].as_py()
        raise DataError(
            f"column {feature!r} has a value {data[fractions[0]]:g}, but poisson counts are whole "
            "numbers; round it, or choose another estimator."
        )
