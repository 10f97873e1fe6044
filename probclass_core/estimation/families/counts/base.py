"""What the estimators of counts share: options, accepted columns, statistics, tables."""

from __future__ import annotations

import functools
import operator
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, is_numeric_type, label_codes, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import NotSupportedError, SpecError, StoreError
from probclass_core.estimation.aggregates import ClassSums, Sums, known
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.counts.likelihood import CountLikelihood, refused_counts
from probclass_core.estimation.families.scarce import NoLikelihood, pooled_unless, without_values
from probclass_core.estimation.formulas import Column, Expression, Named, if_known, log_gamma
from probclass_core.estimation.options import EstimatorOptions, OptionPath, choice, number, option
from probclass_core.estimation.parameters import (
    COUNT,
    LOG_PROBABILITY,
    NOT_NEGATIVE,
    ROUNDING,
    Range,
    check_notes,
    check_parameters,
    check_row_counts,
    label_rows,
)
from probclass_core.estimation.tidy import dense_arrays, notes_of, sum_counts, tidy_table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_TOTAL = pa.nulls(1, pa.string())
"""The feature of the statistics of whole rows."""


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
    unseen: str = choice(
        "ignore",
        ("ignore", "error"),
        doc="A term outside the vocabulary: 'ignore' skips it, 'error' refuses.",
    )


class CountEstimator(Estimator):
    """Counts of columns or terms, summed by class.

    Statistics: class, feature, and the fields in ``sums``. A row with a null ``feature`` is about
    the totals of rows (the lengths of documents).
        count: Σ w of ``count_of``.
        rows: Σ w of the rows with a value of the column; for a term, of the rows that contain it;
            for the total, of the rows with any value.
        log_factorials: Σ w log x!.
    Parameters: class, feature, count, and `field`.

    Attributes:
        field: column of parameters that `estimate` returns.
        allowed: numbers that it may contain.
        adds_up: whether its probabilities add up to 1 in a class.
        priors: options that are the prior, above 0 if it is proper; the last one is in rows.
        sums: fields of the statistics.
        of_whole_counts: whether counts must be whole.
    """

    Options: ClassVar[type[CountOptions]]
    options: CountOptions
    field: ClassVar[str] = "log_probability"
    allowed: ClassVar[Range] = LOG_PROBABILITY
    adds_up: ClassVar[bool] = False
    priors: ClassVar[Sequence[str]] = ("pseudo_count",)
    sums: ClassVar[Sequence[str]] = ("count", "rows", "log_factorials")
    of_whole_counts: ClassVar[bool] = False

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        vocabulary = self.options.vocabulary
        self.of_terms = self._check_types()
        if not self.of_terms:
            self._refuse_term_options()
        self.reader = CountReader(
            columns=self.features.names,
            of_terms=self.of_terms,
            vocabulary=pa.array(vocabulary, pa.string()) if vocabulary else None,
            refuse_others=self.options.unseen == "error",
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
        other = [column for column in self.features if not is_numeric_type(column.type)]
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

    def _refuse_term_options(self) -> None:
        options = self.options
        for name in ("vocabulary", "unseen"):
            if options.plain()[name] != options.declared()[name].default:
                raise SpecError(
                    f"{self.name}: {name} is for a column of lists or maps, not for columns of "
                    "numbers; leave it out."
                )

    def count_of(self, counts: Counts) -> csr_array:
        """What is counted, ``(n, m)``: by default the counts themselves."""
        return counts.matrix

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        from scipy.sparse import csc_array

        size = len(rows)
        share = np.ones(size) if weights is None else weights
        labels = classes.indices.to_numpy(zero_copy_only=False)
        shape = (len(classes.dictionary), size)
        by_class = csc_array((share, (labels, np.arange(size))), shape=shape)
        parts = []
        for part, counts in self.reader.parts(rows):
            rows_by_class = by_class[:, part]
            for field, by_feature, total in self._values(counts):
                for features, values in (
                    (counts.features, by_feature),
                    (_TOTAL, total[:, None]),
                ):
                    sums = rows_by_class @ values
                    parts.append(self._tidy(classes.dictionary, features, field, sums))
        return self.merge(parts)

    def _values(self, counts: Counts) -> Iterator[tuple[str, Any, FloatArray]]:
        """Each field with its values by row and feature ``(n, m)`` and by row ``(n,)``."""
        from scipy.special import gammaln

        counted = self.count_of(counts)
        yield "count", counted, counted.sum(axis=1)
        rows = counts.presence if self.of_terms else counts.known_cells
        yield "rows", rows, counts.known_rows
        if "log_factorials" in self.sums:
            factorials = counts.with_values(gammaln(counts.matrix.data + 1.0))
            yield "log_factorials", factorials, gammaln(counts.lengths + 1.0)

    def aggregates(self) -> Sums | None:
        if self.of_terms or not set(self.sums) <= set(CountEstimator.sums):
            return None
        terms: dict[Hashable, Expression] = {}
        columns = [Column(name) for name in self.features.names]
        for column in columns:
            terms["count", column.name] = if_known([column], self.counted_formula(column))
            terms["rows", column.name] = known(column)
        counts = [self.counted_formula(column) for column in columns]
        parts = [if_known([x], count) for x, count in zip(columns, counts, strict=True)]
        terms["count", None] = functools.reduce(operator.add, parts)
        terms["rows", None] = known(*columns)
        if "log_factorials" in self.sums:
            for column in columns:
                factorial = if_known([column], log_gamma(column + 1.0))
                terms["log_factorials", column.name] = factorial
            length = Named(functools.reduce(operator.add, [if_known([x], x) for x in columns]))
            terms["log_factorials", None] = log_gamma(length + 1.0)
        return Sums(terms, self._from_sums, refused_counts(columns, whole=self.of_whole_counts))

    def counted_formula(self, column: Column) -> Expression:
        """`count_of` of a column that is not null."""
        return column

    def _from_sums(self, by_class: ClassSums) -> pa.Table:
        parts = []
        for field in self.sums:
            for name in (*self.features.names, None):
                sums = by_class.sums[field, name][:, None]
                feature = pa.array([name], pa.string())
                parts.append(self._tidy(by_class.classes, feature, field, sums))
        return self.merge(parts)

    def _tidy(self, labels: pa.Array, features: pa.Array, field: str, sums: Any) -> pa.Table:
        """One row per cell of one field, from ``(k, m)``, sparse or dense; other fields are 0."""
        from scipy.sparse import coo_array

        cells = coo_array(sums)
        zeros = np.zeros(cells.nnz)
        return pa.table(
            {
                "class": labels.take(pa.array(cells.row)),
                "feature": features.take(pa.array(cells.col)),
                **{name: cells.data if name == field else zeros for name in self.sums},
            }
        )

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return sum_counts(tables, ["class", "feature"], self.sums)

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        features = None if self.of_terms else [*self.features.names, None]
        check_row_counts(statistics, classes, ["feature"], features=features, count="rows")
        NOT_NEGATIVE.check("count", statistics["count"])
        labels = classes["class"].combine_chunks()
        rows, codes = statistics["rows"].to_numpy(), label_rows(statistics, labels)
        is_total = pc.is_null(statistics["feature"]).to_numpy()
        total = np.bincount(codes[is_total], rows[is_total], minlength=len(labels))
        if (rows > total[codes] * (1.0 + ROUNDING)).any():
            raise StoreError("a feature has more rows than its class.")

    # From counts to probabilities.

    @abstractmethod
    def estimate(self, count: FloatArray, rows: FloatArray) -> FloatArray:
        """The parameter of each class and feature, ``(k, m)``.

        Args:
            count: of each feature, ``(k, m)``.
            rows: see `possible_rows`.
        """

    @abstractmethod
    def compiled(
        self,
        reader: CountReader,
        features: pa.Array,
        count: FloatArray,
        values: FloatArray,
        rows: FloatArray,
    ) -> CountLikelihood:
        """The likelihood of parameters.

        Args:
            reader: reads the counts of these features.
            features: ``m`` names.
            count: of each feature, ``(k, m)``.
            values: parameters, ``(k, m)``.
            rows: see `possible_rows`; empty if parameters do not record them.
        """

    @abstractmethod
    def evidence(
        self, sums: Mapping[str, FloatArray], totals: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Log evidence of each class and feature, or of each class.

        Args:
            sums: statistics of each feature, by field, ``(k, m)``.
            totals: of whole rows, by field, ``(k,)``.
        """

    def possible_rows(
        self, sums: Mapping[str, FloatArray], totals: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Rows that could show a feature: ``(k, 1)`` for terms, ``(k, m)`` for columns."""
        return totals["rows"][:, None] if self.of_terms else sums["rows"]

    def notes_on_rows(self, rows: FloatArray) -> Mapping[str, Any]:
        """What parameters record of `possible_rows`."""
        return {"rows": rows.tolist()}

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        features, sums, totals = self._dense(statistics, classes)
        names, modeled = self.features.names, features.to_pylist()
        empty = [name for name in names if name not in modeled]
        if self.of_terms:
            empty, modeled = [] if modeled else names, names if modeled else []
        count, rows = sums["count"], self.possible_rows(sums, totals)
        none, prior = rows == 0.0, self.options.plain()[self.priors[-1]]
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
        table = tidy_table(classes, {"feature": features}, fields)
        return self.annotate(table, scarce=scarce, **self.notes_on_rows(rows))

    def _dense(
        self, statistics: pa.Table, classes: pa.Array
    ) -> tuple[pa.Array, dict[str, FloatArray], dict[str, FloatArray]]:
        """Features in the order of parameters, their statistics, and those of whole rows."""
        is_total = pc.is_null(statistics["feature"])
        by_feature, total = statistics.filter(pc.invert(is_total)), statistics.filter(is_total)
        features = self._features(by_feature, any_rows=total.num_rows > 0)
        cells = dense_arrays(by_feature, classes, "feature", features, self.sums)
        totals = {field: np.zeros(len(classes)) for field in self.sums}
        for field, values in totals.items():
            values[label_codes(total["class"], classes)] = total[field].to_numpy()
        return features, dict(zip(self.sums, cells, strict=True)), totals

    def _features(self, statistics: pa.Table, *, any_rows: bool) -> pa.Array:
        if not self.of_terms:
            seen = set(statistics["feature"].to_pylist())
            return pa.array([name for name in self.features.names if name in seen], pa.string())
        if self.reader.vocabulary is not None and any_rows:
            return self.reader.vocabulary
        return sorted_classes(statistics["feature"])

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        numbers = {"count": COUNT, self.field: self.allowed}
        cells = {"feature": pa.string()}
        check_parameters(parameters, classes, cells, numbers, within=[] if self.adds_up else None)
        check_notes(notes_of(parameters).get("rows"), "rows", COUNT)

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> CountLikelihood | NoLikelihood:
        if not parameters.num_rows:
            return NoLikelihood(len(classes))
        features = pc.unique(parameters["feature"])
        fields = ["count", self.field]
        count, values = dense_arrays(parameters, classes, "feature", features, fields)
        known = {"vocabulary": features} if self.of_terms else {"columns": features.to_pylist()}
        # Rows are recorded in the order of the table.
        position = label_codes(classes, pc.unique(parameters["class"]))
        rows = np.array(notes_of(parameters).get("rows", np.zeros((len(classes), 0))))[position]
        return self.compiled(replace(self.reader, **known), features, count, values, rows)

    def log_evidence(self, statistics: pa.Table) -> float:
        """Log evidence under the pseudo-counts as prior.

        Raises:
            NotSupportedError: if one of them is 0.
        """
        for name in self.priors:
            if self.options.plain()[name] == 0:
                raise NotSupportedError(
                    f"{self.name} has no log evidence with {name}=0, which is not a proper prior; "
                    f"set {name} above 0."
                )
        _, sums, totals = self._dense(statistics, sorted_classes(statistics["class"]))
        return float(self.evidence(sums, totals).sum())
