"""The estimator that the distributions share: independent columns, each from its own moments.

A distribution of the exponential family has sufficient statistics, such as Σ x and Σ log x of a
gamma. They are kept as count, mean and scatter of each term, merged by the update of Chan, Golub
and LeVeque, so that no digits are lost and the order of merging does not matter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pa_compute

import probclass_core as pc
from probclass_core.authoring import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    NUMBERS,
    PROBABILITY,
    BoolArray,
    ByClass,
    Column,
    EstimatorOptions,
    Expression,
    FloatArray,
    Formula,
    Moments,
    Range,
    check_parameters,
    check_row_counts,
    column_moments,
    dense_arrays,
    if_known,
    label_codes,
    merge_moments,
    notes_of,
    number,
    numeric_column,
    sorted_classes,
)

LEAST_SPREAD = 1e-12
"""Smallest spread of a class; spreads have no unit. Smaller ones are rounding errors."""

_LEAST_FRACTION = 1e-9
"""Smallest spread of a class, as a fraction of that of all classes together."""

_RANGES = {
    "count": COUNT,
    "log_mean": FINITE,
    "positive_log_mean": FINITE,
    "zero_probability": PROBABILITY,
}
"""Numbers that a parameter may be, if it may be negative or is a probability."""

Terms = Mapping[str, FloatArray]
Estimates = dict[str, FloatArray]


class NoOptions(EstimatorOptions):
    """Options of distributions that have none."""


class SpreadOptions(EstimatorOptions):
    """Options of distributions with a spread."""

    spread_floor: float = number(
        0.005,
        doc="Smallest spread of a class, as a fraction of the spread within the classes that vary; "
        "a class whose rows are all equal by chance would otherwise decide about every row.",
    )


class Distribution(pc.Estimator):
    """Independent columns of one distribution given the class, by maximum likelihood.

    Parameters: class, feature, count, and the columns in ``estimates``.

    Attributes:
        support: the values that have a density, for messages.
        estimates: names of the parameters.
        may_overflow: those that may be infinite, since the density does not need them.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    models = NUMBERS
    factorizes = True
    Options: ClassVar[type[EstimatorOptions]] = NoOptions
    support: ClassVar[str]
    estimates: Sequence[str]
    may_overflow: Sequence[str] = ("variance",)

    @abstractmethod
    def has_density(self, values: FloatArray) -> BoolArray:
        """Whether each value is within the support; False for NaN."""

    @abstractmethod
    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        """log p(x) of values ``(n, 1)`` within the support: ``(n, k)``."""

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        """`log_density` as a formula of a column that is not null; −∞ outside the support."""
        raise pc.NotSupportedError(f"{self.name} has no formula in SQL.")

    @abstractmethod
    def fit_column(
        self, name: str, statistics: pa.Table, classes: pa.Array, notes: list[str]
    ) -> Estimates | None:
        """Count and parameters of a column, ``(k,)`` each; None if no class has values.

        Args:
            name: name of the column.
            statistics: its merged statistics.
            classes: ``k`` labels.
            notes: sentences about classes with too few values are added to it.

        Raises:
            DataError: if a class has too few values and ``on_scarce`` is ``"error"``.
        """

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        columns = ["count", *self.estimates]
        schema = [("class", classes.type), ("feature", pa.string())]
        parts = [pa.schema(schema + [(key, pa.float64()) for key in columns]).empty_table()]
        notes: list[str] = []
        for name in self.features.names:
            rows = statistics.filter(pa_compute.equal(statistics["feature"], name))
            estimates = self.fit_column(name, rows, classes, notes)
            if estimates is None:
                lacks = f"column {name!r} has no value that {self.name} can be fitted to"
                if self.on_scarce == "error":
                    raise pc.DataError(f"{lacks}; leave it out of the block.")
                notes.append(f"{lacks}: the model leaves it out.")
                continue
            fields = {key: estimates[key] for key in columns}
            feature = pa.array([name] * len(classes), pa.string())
            parts.append(pa.table({"class": classes, "feature": feature, **fields}))
        table = pa.concat_tables(parts).combine_chunks()
        return self.annotate(table, scarce=list(dict.fromkeys(notes)))

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        numbers = {name: _RANGES.get(name, NOT_NEGATIVE) for name in ("count", *self.estimates)}
        for name in {*self.may_overflow} & {*self.estimates}:
            numbers[name] = Range(low=0.0, finite=False)
        check_parameters(parameters, classes, {"feature": pa.string()}, numbers)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DistributionLikelihood:
        return DistributionLikelihood(self, parameters, classes)

    def note_pooled(self, name: str, classes: pa.Array, none: BoolArray, notes: list[str]) -> None:
        """Say which classes have no value of a column, so that they get the density of all.

        Raises:
            DataError: instead, if ``on_scarce`` is ``"error"``.
        """
        if not none.any():
            return
        label = repr(classes[int(np.argmax(none))].as_py())
        lacks = f"no value of column {name!r} that {self.name} can be fitted to"
        if self.on_scarce == "error":
            raise pc.DataError(
                f"class {label} has {lacks}; drop the class, or leave the column out."
            )
        several = f"{none.sum()} classes, such as {label}, have"
        subject = f"class {label} has" if none.sum() == 1 else several
        notes.append(f"{subject} {lacks}: the density there is that of all classes.")

    def refuse_others(self, name: str, values: FloatArray) -> None:
        """Refuse values outside the support.

        Raises:
            DataError: naming the column, a value and the number of such rows.
        """
        outside = ~np.isnan(values) & ~self.has_density(values)
        if outside.any():
            value, rows = values[int(np.argmax(outside))], int(outside.sum())
            raise pc.DataError(
                f"column {name!r} has {rows} value{'s' * (rows > 1)} that {self.name} does not "
                f"model, such as {value:g}: it models {self.support}; make them null, drop the "
                "rows, or choose another estimator."
            )


class FromMoments(Distribution):
    """A distribution that is fitted to the moments of a few terms of each value.

    Statistics: class, feature, term, count (Σ w), mean, scatter (Σ w (t − mean)²).

    Attributes:
        terms: names of the sufficient statistics; the first one counts every value, the last one
            those that the spread is computed from.
    """

    terms: Sequence[str]

    @abstractmethod
    def terms_of(self, values: FloatArray) -> Terms:
        """The terms of values ``(n,)`` within the support or NaN; a NaN is left out of a term."""

    @abstractmethod
    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        """Parameters of one column, ``(k,)`` each.

        Args:
            moments: by term, ``(k,)``.
            spread: result of `spread`, after its floor, ``(k,)``.
        """

    def spread(self, moments: Mapping[str, Moments]) -> FloatArray:
        """A measure of variation without unit, ``(k,)``, 0 if all values are equal."""
        return np.ones_like(moments[self.terms[0]].count)

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        names = self.features.names
        check_row_counts(statistics, classes, ["feature", "term"], features=names)
        NOT_NEGATIVE.check("scatter", statistics["scatter"])
        of_x, some = pa_compute.field("term") == "x", pa_compute.field("count") > 0.0
        if not self.has_density(statistics.filter(of_x & some)["mean"].to_numpy()).all():
            raise pc.StoreError(f"a mean is outside of {self.support}.")

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        groups = ByClass.group(classes)
        parts = []
        for name in self.features.names:
            values = numeric_column(batch, name)
            self.refuse_others(name, values)
            for term, column in self.terms_of(values).items():
                moments = column_moments(column, groups, weights)
                parts.append(_term_table(groups.labels, name, term, moments))
        return pa.concat_tables(parts).combine_chunks()

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        statistics = pa.concat_tables(tables)
        classes = sorted_classes(statistics["class"])
        parts = [statistics.slice(0, 0)]
        for name in self.features.names:
            rows = statistics.filter(pa_compute.equal(statistics["feature"], name))
            for term, moments in self._by_term(rows, classes).items():
                parts.append(_term_table(classes, name, term, moments))
        return pa.concat_tables(parts).combine_chunks()

    def fit_column(
        self, name: str, statistics: pa.Table, classes: pa.Array, notes: list[str]
    ) -> Estimates | None:
        moments = self._by_term(statistics, classes)
        if not all(part.count.any() for part in moments.values()):
            return None
        of_all = {
            term: merge_moments(np.zeros(len(classes), np.intp), 1, part)
            for term, part in moments.items()
        }
        none = moments[self.terms[-1]].count == 0.0
        self.note_pooled(name, classes, none, notes)
        usable = {
            term: _replaced(part, part.count == 0.0, of_all[term]) for term, part in moments.items()
        }
        spread = self.spread(usable)
        if isinstance(self.options, SpreadOptions):
            count, floor = moments[self.terms[-1]].count, float(self.spread(of_all)[0])
            spread = self._floored(name, classes, spread, count, floor, notes)
        return {"count": moments[self.terms[0]].count, **self.fit(usable, spread)}

    def _floored(
        self,
        name: str,
        classes: pa.Array,
        spread: FloatArray,
        count: FloatArray,
        of_all: float,
        notes: list[str],
    ) -> FloatArray:
        """The spread of each class, not below its floor: ``(k,)``.

        Args:
            name: name of the column.
            classes: ``k`` labels.
            spread: of each class, ``(k,)``.
            count: of each class; 0 if its spread is that of all classes, ``(k,)``.
            of_all: spread of all classes together.
            notes: a sentence about a class with a single value is added to it.
        """
        varies = spread > LEAST_SPREAD
        weight = np.where(varies, count, 0.0)
        within = float(weight @ spread / weight.sum()) if weight.any() else 0.0
        alone = ~varies & (count > 0.0) & (count <= 1.0) & (within > 0.0)
        if self.on_scarce == "pool" and alone.any():
            label = repr(classes[int(np.argmax(alone))].as_py())
            notes.append(
                f"class {label} has too few values for a spread of column {name!r}: the spread "
                "there is pooled over the classes."
            )
            spread = np.where(alone, within, spread)
        fraction: float = self.options.spread_floor
        floor = max(_LEAST_FRACTION * of_all, fraction * within, LEAST_SPREAD)
        floored: FloatArray = np.maximum(spread, floor)
        return floored

    def _by_term(self, statistics: pa.Table, classes: pa.Array) -> dict[str, Moments]:
        """Merged moments of a column by term, ``(k,)``; the count of a class without is 0."""
        size, terms = len(classes), list(self.terms)
        group = label_codes(statistics["term"], pa.array(terms, pa.string())) * size
        group += label_codes(statistics["class"], classes)
        parts = Moments(*(statistics[key].to_numpy() for key in ("count", "mean", "scatter")))
        merged = merge_moments(group, len(terms) * size, parts)
        arrays = [array.reshape(len(terms), size) for array in vars(merged).values()]
        return {term: Moments(*(array[at] for array in arrays)) for at, term in enumerate(terms)}


class DistributionLikelihood:
    """log p(x | c), summed over the observed columns; −∞ outside the support.

    Args:
        distribution: the estimator.
        parameters: its parameters.
        classes: ``k`` labels.
    """

    normalized = True

    def __init__(self, distribution: Distribution, parameters: pa.Table, classes: pa.Array) -> None:
        self.distribution, self.classes = distribution, len(classes)
        self.features: list[str] = notes_of(parameters)["features"]
        names = pa.array(self.features, pa.string())
        modeled = set(parameters["feature"].to_pylist())
        arrays = dense_arrays(parameters, classes, "feature", names, distribution.estimates)
        self.estimates = {
            name: {key: a[:, at] for key, a in zip(distribution.estimates, arrays, strict=True)}
            for at, name in enumerate(self.features)
            if name in modeled
        }

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((batch.num_rows, self.classes))
        for factor in self.log_factors(batch):
            result += factor
        return result

    def formula(self) -> Formula:
        """log p(x | class) as a formula, see `FormulaLikelihood`."""
        columns = [(Column(name), values) for name, values in self.estimates.items()]
        return Formula([if_known([x], self.distribution.formula(x, own)) for x, own in columns])

    def log_factors(self, batch: pa.RecordBatch) -> Iterator[FloatArray]:
        """log p(x_j | class) of each column, ``(n, k)``."""
        for name in self.features:
            result = np.zeros((batch.num_rows, self.classes))
            if name in self.estimates:
                values = numeric_column(batch, name)
                inside = self.distribution.has_density(values)
                result[~inside & ~np.isnan(values)] = -np.inf
                known = values[inside][:, None]
                result[inside] = self.distribution.log_density(known, self.estimates[name])
            yield result


def _replaced(moments: Moments, none: BoolArray, of_all: Moments) -> Moments:
    """Moments with those of all classes together for some classes."""
    pairs = zip(vars(moments).values(), vars(of_all).values(), strict=True)
    return Moments(*(np.where(none, pooled, own) for own, pooled in pairs))


def _term_table(classes: pa.Array, feature: str, term: str, moments: Moments) -> pa.Table:
    """One row per class that has the term."""
    size = len(classes)
    names = {"feature": pa.array([feature] * size, pa.string())}
    names["term"] = pa.array([term] * size, pa.string())
    table = pa.table({"class": classes, **names, **vars(moments)})
    return table.filter(pa.array(moments.count > 0.0))
