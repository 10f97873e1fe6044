"""Counts of columns or of terms: presences, events, and shares of a total.

`Bernoulli`: McCallum and Nigam, "A comparison of event models for naive Bayes text classification"
(1998), with p_cj = (n_cj + α) / (n_c + 2α), of which α = 1 is Laplace's rule. The absence of a word
is evidence as well as its presence.

`Poisson`, with a gamma prior of each rate: Gelman et al., *Bayesian Data Analysis*, section 2.6.
The rate is the posterior mean (Σ x + α) / (n + β): the prior counts as β more rows with α events in
total.

`Multinomial`: McCallum and Nigam (1998), with p_ct = (N_ct + α) / (N_c + αV) over a vocabulary of V
terms, of which α = 1 is Laplace's rule and α < 1 Lidstone's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.sparse_counts import CountReader
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import SpecError
from probclass_core.estimation import tidy
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.counts.likelihood import (
    CountFactors,
    CountLikelihood,
    SharesLikelihood,
)
from probclass_core.estimation.families.scarce import NoLikelihood, pooled_unless, without_values
from probclass_core.estimation.kinds.count_sums import CountSums, FeatureCounts
from probclass_core.estimation.options import EstimatorOptions, OptionPath, number, option


def _parse_vocabulary(path: OptionPath, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise path.error("a list of text", value)
    for term in value:
        if not isinstance(term, str):
            raise SpecError(
                f"{path.estimator}: vocabulary must be a list of text, not of {term!r}."
            )
    for term, times in Counter(value).items():
        if times > 1:
            raise SpecError(
                f"{path.estimator}: vocabulary has {term!r} twice; list each term once."
            )
    return list(value)


class CountOptions(EstimatorOptions):
    """Options of every estimator of counts."""

    pseudo_count: float = number(1.0, doc="α, added to the count of every feature.")
    vocabulary: list[str] = option(
        [],
        _parse_vocabulary,
        expected="a list of text",
        doc="Terms of a column of lists or maps; by default all terms that training saw.",
    )


class CountEstimator(Estimator):
    """Counts of columns or terms, from their sums by class.

    Statistics: those of `CountSums`.
    Parameters: class, feature, count, and `field`.

    Attributes:
        field: column of parameters that `estimate` returns.
        prior: name of the option that says how much the prior counts; 0 means no prior.
        presences: whether presences are counted.
        of_whole_counts: whether counts must be whole.
        compiled: class of its likelihood.
    """

    statistics_version = 2
    Options: ClassVar[type[CountOptions]] = CountOptions
    options: CountOptions
    field: ClassVar[str] = "log_probability"
    prior: ClassVar[str] = "pseudo_count"
    presences: ClassVar[bool] = False
    of_whole_counts: ClassVar[bool] = False
    compiled: ClassVar[type[CountLikelihood]] = CountLikelihood

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        vocabulary = self.options.vocabulary
        self.of_terms = self._check_types()
        if vocabulary and not self.of_terms:
            raise SpecError(
                f"{self.name}: vocabulary is for a column of lists or maps, not for columns of "
                "numbers; leave it out."
            )
        self.reader = CountReader(
            columns=self.features.names,
            of_terms=self.of_terms,
            vocabulary=pa.array(vocabulary, pa.string()) if vocabulary else None,
            whole=self.of_whole_counts,
        )

    def _check_types(self) -> bool:
        """Whether the block is one column of terms.

        Raises:
            SpecError: if it is neither that nor columns of numbers.
        """
        terms = [column for column in self.features if is_terms_type(column.type)]
        if terms:
            if len(self.features) > 1:
                raise SpecError(
                    f"{self.name}: column {terms[0].name!r} is {terms[0].type}, whose features are "
                    "its terms, but the block has other columns too; give it its own block."
                )
            return True
        other = [column for column in self.features if not arrays.is_numeric_type(column.type)]
        if other:
            fix = "choose another estimator for it, or cast it"
            if pa.types.is_struct(other[0].type):
                fix = "give its dicts the type pa.map_(pa.string(), pa.float64())"
            raise SpecError(
                f"{self.name}: column {other[0].name!r} is {other[0].type}, but it models counts: "
                f"numbers, or one column of lists of text or of maps from text to numbers; {fix}."
            )
        # A column of nulls could have any type; only a column of terms has a vocabulary.
        return bool(self.options.vocabulary) and self.features.types == [pa.null()]

    @property
    def kind(self) -> CountSums:
        return CountSums(self.reader, self.presences)

    @abstractmethod
    def estimate(self, count: FloatArray, rows: FloatArray) -> FloatArray:
        """The parameter of each class and feature, ``(k, m)``.

        Args:
            count: of each feature, ``(k, m)``.
            rows: see `possible_rows`.
        """

    @abstractmethod
    def factors(self, values: FloatArray, count: FloatArray, rows: FloatArray) -> CountFactors:
        """The log probabilities of counts.

        Args:
            values: of `field`, ``(m, k)``.
            count: of each feature, ``(m, k)``.
            rows: see `possible_rows`, ``(1, k)`` or ``(m, k)``; empty if they are not recorded.
        """

    def possible_rows(self, counts: FeatureCounts) -> FloatArray:
        """Rows that could show a feature: ``(k, 1)`` for terms, ``(k, m)`` for columns."""
        return counts.all_rows[:, None] if self.of_terms else counts.rows

    def notes_on_rows(self, rows: FloatArray) -> Mapping[str, Any]:
        """What parameters record of `possible_rows`."""
        return {"rows": rows.tolist()}

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        counts = self.kind.read(statistics, classes)
        names, modeled = self.features.names, counts.features.to_pylist()
        empty = [name for name in names if name not in modeled]
        if self.of_terms:
            empty, modeled = [] if modeled else names, names if modeled else []
        count, rows = counts.count, self.possible_rows(counts)
        none, prior = rows == 0.0, self.options.plain()[self.prior]
        scarce = [
            *without_values(empty),
            *pooled_unless(
                prior, modeled, classes, np.broadcast_to(none, (len(classes), len(modeled)))
            ),
        ]
        if not prior:
            count = np.where(none, count.sum(axis=0), count)
            rows = np.where(none, rows.sum(axis=0), rows)
        fields = {"count": count, self.field: self.estimate(count, rows)}
        table = tidy.tidy_table(classes, {"feature": counts.features}, fields)
        return self.annotate(table, scarce=scarce, **self.notes_on_rows(rows))

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        """Refuse a table that is not made of its counts and rows again."""
        tidy.check_notes(tidy.notes_of(parameters).get("rows"), "rows", tidy.COUNT)
        tidy.COUNT.check("count", parameters["count"])
        features, count, rows, _ = self._read(parameters, classes)
        fields = {"count": count, self.field: self.estimate(count, rows)}
        made = tidy.tidy_table(classes, {"feature": features}, fields)
        differs = "is not what the counts and the rows give"
        tidy.check_same(parameters, made, infinite=[self.field], differs=differs)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> CountLikelihood | NoLikelihood:
        if not parameters.num_rows:
            return NoLikelihood(len(classes))
        features, *arrays_of_classes = self._read(parameters, classes)
        known = {"vocabulary": features} if self.of_terms else {"columns": features.to_pylist()}
        reader = replace(self.reader, **known)
        count, rows, values = (np.ascontiguousarray(each.T) for each in arrays_of_classes)
        with np.errstate(divide="ignore"):
            factors = self.factors(values, count, rows)
        return self.compiled(reader, features, factors, columns=self.features.names)

    def _read(
        self, parameters: pa.Table, classes: pa.Array
    ) -> tuple[pa.Array, FloatArray, FloatArray, FloatArray]:
        """Features, counts, `possible_rows` and values of `field`, by class."""
        features = pc.unique(parameters["feature"])
        fields = ["count", self.field]
        count, values = tidy.dense_arrays(parameters, classes, "feature", features, fields)
        # Rows are recorded in the order of the table.
        position = arrays.label_codes(classes, pc.unique(parameters["class"]))
        rows = tidy.notes_of(parameters).get("rows", np.zeros((len(classes), 0)))
        return features, count, np.array(rows)[position], values


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

    def factors(self, values: FloatArray, count: FloatArray, rows: FloatArray) -> CountFactors:
        alpha = self.options.pseudo_count
        # From the counts, because 1 − p would lose digits if absence is rare.
        absent = np.maximum(rows - count, 0.0) + alpha
        absence = np.log(absent) - np.log(rows + 2.0 * alpha)
        weights = values - np.where(np.isneginf(absence), 0.0, absence)
        return CountFactors(absence, weights, presences=True)


class Poisson(CountEstimator):
    """Independent Poisson counts given the class: a rate per class and column or term.

    Statistics: class, feature, count, rows; see `CountSums`.
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

    options: Options
    field = "rate"
    prior = "pseudo_rows"
    of_whole_counts = True

    def estimate(self, count: FloatArray, rows: FloatArray) -> FloatArray:
        return (count + self.options.pseudo_count) / (rows + self.options.pseudo_rows)

    def factors(self, values: FloatArray, count: FloatArray, rows: FloatArray) -> CountFactors:
        return CountFactors(-values, np.log(values), rates=values)


class Multinomial(CountEstimator):
    """Counts given their total and the class.

    log p(x | c) = log N! − Σ log x_t! + Σ x_t log p_ct, the probability of the counts of a row of
    total N: over all rows of one length it sums to 1. Counts need not be whole: x! is Γ(x + 1).

    Statistics: class, feature, count, rows; see `CountSums`.
    Parameters: class, feature, count, log_probability.

    Raises:
        SpecError: if the columns are neither numbers nor one column of terms, or an option is
            unknown or out of bounds.
    """

    name: ClassVar[str] = "multinomial"

    compiled = SharesLikelihood

    def possible_rows(self, counts: FeatureCounts) -> FloatArray:
        """The total of all counts of a class, ``(k, 1)``: each could be of any feature."""
        total: FloatArray = counts.count.sum(axis=1, keepdims=True)
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

    def factors(self, values: FloatArray, count: FloatArray, rows: FloatArray) -> CountFactors:
        return CountFactors(np.zeros(values.shape), values)
