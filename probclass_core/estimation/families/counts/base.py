"""What the estimators of counts share: options, accepted columns, statistics, dense tables."""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, is_numeric_type, label_codes, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.sparse_counts import LARGEST_COUNT, CountReader, Counts
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import DataError, NotSupportedError, SpecError, StoreError
from probclass_core.estimation.aggregates import ClassSums, Sums, known
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.scarce import (
    OF_ALL,
    OF_PRIOR,
    pooled,
    require_values,
    without_values,
)
from probclass_core.estimation.formulas import (
    Column,
    Condition,
    Expression,
    Formula,
    Function,
    Named,
    if_known,
    log_gamma,
)
from probclass_core.estimation.marginals import Levels, Marginal
from probclass_core.estimation.options import (
    EstimatorOptions,
    OptionPath,
    choice,
    number,
    option,
)
from probclass_core.estimation.parameters import (
    NOT_NEGATIVE,
    ROUNDING,
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


@dataclass(frozen=True)
class ClassCounts:
    """Statistics of counts by class as dense arrays.

    Attributes:
        features: columns or terms, ``(m,)`` text: those that training saw or the options declare.
        cells: by field of the statistics table, ``(k, m)``; 0 if nothing was seen.
        totals: the same for whole rows, ``(k,)``.
    """

    features: pa.Array
    cells: Mapping[str, FloatArray]
    totals: Mapping[str, FloatArray]


class CountEstimator(Estimator):
    """Counts of columns or terms, summed by class.

    Statistics: class, feature, and the fields in ``sums``. A row with a null ``feature`` is about
    the totals of rows (the lengths of documents).
        count: Σ w of ``count_of``.
        rows: Σ w of the rows with a value of the column; for a term, of the rows that contain it;
            for the total, of the rows with any value.
        log_factorials: Σ w log x!.
    """

    Options: ClassVar[type[CountOptions]]
    options: CountOptions
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

    def by_class(self, statistics: pa.Table, classes: pa.Array) -> ClassCounts:
        """Statistics as dense arrays, features in the order of the parameters.

        Raises:
            DataError: if a column has no value in any row, or no term occurs in any document.
        """
        is_total = pc.is_null(statistics["feature"])
        by_feature, total = statistics.filter(pc.invert(is_total)), statistics.filter(is_total)
        features = self._features(by_feature)
        cells = dense_arrays(by_feature, classes, "feature", features, self.sums)
        totals = np.zeros((len(self.sums), len(classes)))
        row = label_codes(total["class"], classes)
        for values, field in zip(totals, self.sums, strict=True):
            values[row] = total[field].to_numpy()
        return ClassCounts(
            features,
            dict(zip(self.sums, cells, strict=True)),
            dict(zip(self.sums, totals, strict=True)),
        )

    def _features(self, statistics: pa.Table) -> pa.Array:
        names = self.features.names
        if not self.of_terms:
            seen = set(statistics["feature"].to_pylist())
            has = [name in seen for name in names]
            if self.on_scarce == "error":
                require_values(names, has)
            return pa.array(names, pa.string()).filter(pa.array(has))
        if self.reader.vocabulary is not None:
            return self.reader.vocabulary
        if not statistics.num_rows and self.on_scarce == "error":
            raise DataError(
                f"column {names[0]!r} has no term in any training row; leave it out, or declare "
                "its vocabulary."
            )
        return sorted_classes(statistics["feature"])

    def possible_rows(self, sums: ClassCounts) -> FloatArray:
        """Rows that could show a feature: ``(k, 1)`` for terms, ``(k, m)`` for columns."""
        return sums.totals["rows"][:, None] if self.of_terms else sums.cells["rows"]

    def notes(
        self, classes: pa.Array, sums: ClassCounts, rows: FloatArray, prior: float
    ) -> list[str]:
        """Sentences about columns and classes without values.

        Args:
            classes: ``k`` labels.
            sums: the counts.
            rows: rows that could show a feature, ``(k, m)``, or ``(k, 1)`` for terms.
            prior: 0 if the prior gives no estimate.
        """
        names, seen = self.features.names, set(sums.features.to_pylist())
        has = [bool(seen)] if self.of_terms else [name in seen for name in names]
        modeled = names if self.of_terms else sums.features.to_pylist()
        shape = (len(classes) * any(has), len(modeled))
        mask = np.broadcast_to(rows[: shape[0]] == 0.0, shape)
        return [
            *without_values(names, has),
            *pooled("no value", modeled, classes, mask, OF_PRIOR if prior else OF_ALL),
        ]

    def parameters(
        self,
        classes: pa.Array,
        sums: ClassCounts,
        field: str,
        values: FloatArray,
        scarce: Sequence[str],
        **notes: Any,
    ) -> pa.Table:
        """The parameters table: one row per class and feature, from ``(k, m)`` values."""
        fields = {"count": sums.cells["count"], field: values}
        cells = {"feature": sums.features}
        return self.annotate(tidy_table(classes, cells, fields), scarce=scarce, **notes)

    def read_parameters(
        self, parameters: pa.Table, classes: pa.Array, field: str
    ) -> tuple[CountReader, pa.Array, FloatArray, FloatArray]:
        """Reader of rows for these parameters, their features, counts and values ``(k, m)``."""
        features = pc.unique(parameters["feature"])
        count, values = dense_arrays(parameters, classes, "feature", features, ["count", field])
        if self.of_terms:
            reader = replace(self.reader, vocabulary=features)
        else:
            reader = replace(self.reader, columns=features.to_pylist())
        return reader, features, count, values

    def rows_of(self, parameters: pa.Table, classes: pa.Array) -> FloatArray:
        """The note ``rows`` in the order of ``classes``; it is stored in that of the table."""
        position = label_codes(classes, pc.unique(parameters["class"]))
        rows: FloatArray = np.array(notes_of(parameters)["rows"])[position]
        return rows

    def refuse_improper_prior(self, *options: str) -> None:
        """Refuse evidence if a pseudo-count is 0.

        Raises:
            NotSupportedError: if one of the options is 0.
        """
        for name in options:
            if self.options.plain()[name] == 0:
                raise NotSupportedError(
                    f"{self.name} has no log evidence with {name}=0, which is not a proper prior; "
                    f"set {name} above 0."
                )


def refused_counts(columns: Sequence[Column], *, whole: bool) -> list[Condition]:
    """Conditions of counts that `CountReader` refuses, and of fractions if counts are whole."""
    refused: list[Condition] = [(column < 0.0) | (column > LARGEST_COUNT) for column in columns]
    if whole:
        # Not the floor of a null, which is an error for SQLAlchemy's function on SQLite.
        refused += [
            column.differs(Function("floor", if_known([column], column))) for column in columns
        ]
    return refused


class CountLikelihood(ABC):
    """Parameters compiled for counts.

    Args:
        reader: reads the counts of a batch, features in the order of the parameters.
        features: ``m`` names.
    """

    normalized = True
    of_whole_counts = False
    """Whether counts must be whole."""

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
        refused = refused_counts(columns, whole=self.of_whole_counts)
        return Formula(self.terms(columns), refused)

    @abstractmethod
    def terms(self, columns: Sequence[Column]) -> list[Expression]:
        """The terms of the formula of columns of counts, each 0 if its column is null."""

    def stored(self, counts: Counts) -> Iterator[tuple[str, int, float]]:
        """Name, position and value of the counts above 0 of a single row."""
        codes = counts.matrix.indices
        names = self.features.take(pa.array(codes)).to_pylist()
        return zip(names, codes.tolist(), counts.matrix.data.tolist(), strict=True)


class IndependentCounts(CountLikelihood):
    """A likelihood of counts that are independent given the class."""

    def marginal(self, column: str) -> Marginal | None:
        """The distribution of a column; of terms, the probability that each occurs."""
        if self.reader.of_terms:
            present = -np.expm1(self.log_absence())
            return Levels(self.features.to_pylist(), present, of="presence")
        if column not in self.reader.columns:
            return None
        return self.marginal_of_counts(column, list(self.reader.columns).index(column))

    @abstractmethod
    def log_absence(self) -> FloatArray:
        """Log probability that a row lacks each feature, ``(m, k)``."""

    @abstractmethod
    def marginal_of_counts(self, column: str, place: int) -> Marginal | None:
        """The distribution of a column of counts, which is feature number ``place``."""


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
