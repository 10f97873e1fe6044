"""Features that are present or absent, such as words in a text, independent given the class.

Bernoulli naive Bayes: McCallum and Nigam, "A comparison of event models for naive Bayes text
classification" (1998), with p_cj = (n_cj + α) / (n_c + 2α), of which α = 1 is Laplace's rule. The
absence of a word is evidence as well as its presence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.estimation.evidence import beta_bernoulli
from probclass_core.estimation.families.counts.base import (
    CountEstimator,
    CountOptions,
    CountParameters,
)
from probclass_core.estimation.families.counts.likelihood import (
    IndependentCounts,
    refuse_infinite_weights,
)
from probclass_core.estimation.formulas import Case, Column, Expression, as_expression, if_known
from probclass_core.estimation.kinds.count_sums import ClassCounts
from probclass_core.estimation.marginals import Marginal, presence
from probclass_core.estimation.options import number


class Bernoulli(CountEstimator):
    """Independent presences given the class: a feature is present if its count is above 0.

    Statistics: class, feature, count (Σ w of presences), rows; see `CountSums`.
    Parameters: class, feature, count, log_probability (log p); the rows of each class are in the
    notes.

    Raises:
        SpecError: if the columns are neither numbers nor one column of terms, or an option is
            unknown or out of bounds.
    """

    name: ClassVar[str] = "bernoulli"
    factorizes = True
    presences = True

    class Options(CountOptions):
        """Options of `Bernoulli`."""

        pseudo_count: float = number(
            1.0, doc="α, added to the rows that have a feature and to those that lack it."
        )

    options: Options

    def estimate(self, count: FloatArray, rows: FloatArray) -> FloatArray:
        alpha = self.options.pseudo_count
        with np.errstate(divide="ignore"):
            log_probability: FloatArray = np.log(count + alpha) - np.log(rows + 2.0 * alpha)
        return log_probability

    def compiled(self, of: CountParameters) -> BernoulliLikelihood:
        alpha = self.options.pseudo_count
        # From the counts, because 1 − p would lose digits if absence is rare.
        absent = np.maximum(of.rows - of.count, 0.0) + alpha
        with np.errstate(divide="ignore"):
            log_absent = np.log(absent) - np.log(of.rows + 2.0 * alpha)
        return BernoulliLikelihood(of.reader, of.features, of.values, log_absent)

    def evidence(self, counts: ClassCounts) -> FloatArray:
        present, alpha = counts.sums["count"], self.options.pseudo_count
        absent = np.maximum(self.possible_rows(counts) - present, 0.0)
        return beta_bernoulli(present, absent, alpha, alpha)


class BernoulliLikelihood(IndependentCounts):
    """log p(x | c) = Σ_j log(1 − p_cj) + Σ_present [log p_cj − log(1 − p_cj)].

    Args:
        reader: reads the counts of these features in a batch.
        features: ``m`` names.
        log_present: log p, ``(k, m)``.
        log_absent: log (1 − p), ``(k, m)``.
    """

    def __init__(
        self,
        reader: CountReader,
        features: pa.Array,
        log_present: FloatArray,
        log_absent: FloatArray,
    ) -> None:
        super().__init__(reader, features, log_absent.T)
        self.log_present = log_present
        self.log_absent = log_absent
        # A feature that every row of a class has would give −∞ + ∞ for its presence. It adds 0 to
        # the sums instead, and rows that lack it are found by counting.
        certain = np.isneginf(log_absent)
        absent = np.where(certain, 0.0, log_absent)
        self.absent = np.ascontiguousarray(absent.T)
        self.shift = np.ascontiguousarray((log_present - absent).T)
        self.certain = certain.T.astype(np.float64) if certain.any() else None

    def of_counts(self, counts: Counts) -> FloatArray:
        present = counts.presence
        result: FloatArray = counts.over_known(self.absent) + present @ self.shift
        if self.certain is not None:
            lacking = counts.over_known(self.certain) - present @ self.certain
            result[lacking > 0.5] = -np.inf
        return result

    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        logs = zip(columns, self.log_present.T, self.log_absent.T, strict=True)
        return [
            if_known([x], Case([(x > 0.0, as_expression(present))], as_expression(absent)))
            for x, present, absent in logs
        ]

    def of_feature(self, code: int, count: float) -> FloatArray:
        return self.log_present[:, code]

    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        return presence(np.exp(self.log_present[:, place]))

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """The logits of p, for features that are 1 if present and 0 if absent."""
        with np.errstate(invalid="ignore"):
            weights = self.log_present - self.log_absent
        refuse_infinite_weights(weights)
        return self.features.to_pylist(), weights, self.log_absent.sum(axis=1)
