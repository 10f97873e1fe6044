"""Counts of columns or of terms: presences, events, and shares of a total.

`Bernoulli`: McCallum and Nigam, "A comparison of event models for naive Bayes text classification"
(1998), with p_cj = (n_cj + α) / (n_c + 2α), of which α = 1 is Laplace's rule. The absence of a word
is evidence as well as its presence.

`Poisson`, with a gamma prior of each rate: Gelman et al., *Bayesian Data Analysis*, section 2.6.
The rate is the posterior mean (Σ x + α) / (n + β): the prior counts as β more rows with α events in
total.

`Multinomial`: McCallum and Nigam (1998), with p_ct = (N_ct + α) / (N_c + αV) over a vocabulary of V
terms, of which α = 1 is Laplace's rule and α < 1 Lidstone's.

The log probability of a count x of a feature is a constant, plus a term that is linear in the count
or in its presence:

    Bernoulli      log (1 − p) + [x > 0] (log p − log (1 − p))
    Poisson        −λ + x log λ − log x!
    multinomial    x log p,  and of a row  log N! − Σ log x!
"""

from __future__ import annotations

import functools
import operator
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation import formulas, tidy
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.scarce import NoLikelihood, pooled_unless, without_values
from probclass_core.estimation.kinds.count_sums import CountSums, FeatureCounts, refused_counts
from probclass_core.estimation.marginals import Levels, Marginal, derive, presence
from probclass_core.estimation.options import EstimatorOptions, OptionPath, number, option

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
        return -_log_factorials(counts)[:, None]

    def formula(self) -> formulas.Formula:
        if self.reader.of_terms:
            raise NotSupportedError(
                f"column {self.reader.columns[0]!r} contains terms, whose number per row is not "
                "fixed; make a column of numbers for each term that matters."
            )
        columns = [formulas.Column(name) for name in self.reader.columns]
        terms = [*map(self._term, range(len(columns)), columns), *self.terms_of_rows(columns)]
        return formulas.Formula(terms, refused_counts(columns, whole=self.reader.whole))

    def _term(self, place: int, x: formulas.Column) -> formulas.Expression:
        """The log probability of a column, 0 if it is null."""
        factors, absence, weights = self.factors, self.absence[place], self.factors.weights[place]
        cases = [(x == 0.0, formulas.as_expression(factors.absence[place]))]
        if factors.presences:
            return formulas.if_known(
                [x], formulas.Case(cases, formulas.as_expression(absence + weights))
            )
        value = x * weights + absence
        if factors.rates is not None:
            value = value - formulas.log_gamma(x + 1.0)
        return formulas.if_known([x], formulas.Case(cases, value))

    def terms_of_rows(self, columns: Sequence[formulas.Column]) -> list[formulas.Expression]:
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
        return _log_coefficient(counts) - counts.lengths[:, None] * self._log_mass(counts)

    def _log_mass(self, counts: Counts) -> FloatArray:
        """log Σ p over the known columns, ``(n, k)``; 0 if all are known, or p is 0 in all."""
        if self.reader.of_terms or counts.known.all():
            return np.zeros((1, 1))
        mass = counts.over_known(self.masses)
        complete = counts.known.all(axis=1, keepdims=True)
        return np.log(np.where(complete | (mass == 0.0), 1.0, mass))

    def terms_of_rows(self, columns: Sequence[formulas.Column]) -> list[formulas.Expression]:
        length = formulas.Named(_sum(formulas.if_known([x], x) for x in columns))
        factorials = _sum(formulas.if_known([x], formulas.log_gamma(x + 1.0)) for x in columns)
        masses = zip(columns, self.masses, strict=True)
        mass = formulas.Named(
            _sum(formulas.if_known([x], formulas.as_expression(of_x)) for x, of_x in masses)
        )
        usual = formulas.Case([(mass > 0.0, mass)], formulas.as_expression(1.0))
        some = functools.reduce(operator.or_, [x.is_null for x in columns])
        rest = formulas.Case(
            [(some, -1.0 * length * formulas.ln(usual))], formulas.as_expression(0.0)
        )
        return [formulas.log_gamma(length + 1.0) - factorials, rest]

    def _itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        counts = self.reader.read(row)
        weights = self.factors.weights - self._log_mass(counts)[0]
        rest = np.broadcast_to(_log_coefficient(counts)[0], weights.shape[1]).copy()
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


def _log_factorials(counts: Counts) -> FloatArray:
    """Σ log x! of each row: ``(n,)``."""
    from scipy.special import gammaln

    return counts.row_sums(gammaln(counts.matrix.data + 1.0))


def _log_coefficient(counts: Counts) -> FloatArray:
    """log (N! / Π x_t!) of each row: ``(n, 1)``."""
    from scipy.special import gammaln

    coefficient: FloatArray = gammaln(counts.lengths + 1.0) - _log_factorials(counts)
    return coefficient[:, None]


def _sum(expressions: Iterator[formulas.Expression]) -> formulas.Expression:
    return functools.reduce(operator.add, expressions)


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
