"""What the estimators of counts share: their columns, their statistics, the way to dense tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, is_numeric_type, label_codes, sorted_classes
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation.contract import (
    LikelihoodEstimator,
    choice_option,
    notes_of,
    number_option,
    read_options,
    with_notes,
)
from probclass_core.estimation.tidy import summed

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_UNSEEN = ("ignore", "error")

_TOTAL = pa.nulls(1, pa.string())
"""The feature that stands for all of a row."""


@dataclass(frozen=True)
class ClassCounts:
    """Statistics of counts by class, dense over what training saw or was told of.

    Attributes:
        features: columns or terms, ``(m,)`` text.
        cells: field of the statistics table to its numbers, ``(k, m)``, 0 where nothing was seen.
        totals: the same of the rows' totals, ``(k,)``.
    """

    features: pa.Array
    cells: Mapping[str, FloatArray]
    totals: Mapping[str, FloatArray]


class CountEstimator(LikelihoodEstimator):
    """Counts of columns or terms, summed by class.

    Statistics: class, feature, and what ``sums`` names: of each feature, and of the total of the
    row (of its document's length) where ``feature`` is null.
        count: Σ w of ``count_of``.
        rows: Σ w of the rows with a value of the column; of a term, of those it occurs in; of the
            total, of those with a value at all.
        log_factorials: Σ w log x!.
    """

    defaults: ClassVar[Mapping[str, Any]]
    sums: ClassVar[Sequence[str]] = ("count", "rows", "log_factorials")
    takes_terms: ClassVar[bool] = True

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, self.defaults)
        super().__init__(features, chosen)
        self.pseudo_count = number_option(self.name, "pseudo_count", chosen["pseudo_count"])
        vocabulary = chosen.get("vocabulary", [])
        self.of_terms = self._check_types(bool(vocabulary))
        unseen = choice_option(self.name, "unseen", chosen.get("unseen", "ignore"), _UNSEEN)
        for option in ("vocabulary", "unseen"):
            if not self.of_terms and chosen.get(option) != self.defaults.get(option):
                raise SpecError(
                    f"{self.name}: {option} is for a column of lists or maps, not for columns of "
                    "numbers; leave it out."
                )
        self.reader = CountReader(
            columns=self.features.names,
            of_terms=self.of_terms,
            vocabulary=self._read_vocabulary(vocabulary),
            refuse_others=unseen == "error",
        )

    def _check_types(self, has_vocabulary: bool) -> bool:
        """Whether the block is one column of terms.

        Raises:
            SpecError: it is neither that nor columns of numbers.
        """
        terms = [column for column in self.features if is_terms_type(column.type)]
        if terms and self.takes_terms:
            if len(self.features) > 1:
                raise SpecError(
                    f"{self.name}: column {terms[0].name!r} is {terms[0].type}, whose features are "
                    "its terms, and stands with other columns; give it a block of its own."
                )
            return True
        other = [column for column in self.features if not is_numeric_type(column.type)]
        if other:
            models = "numbers" + self.takes_terms * (
                ", or one column of lists of text or of maps from text to numbers"
            )
            mend = "choose another estimator for it, or cast it"
            if pa.types.is_struct(other[0].type):
                mend = "give its dicts the type pa.map_(pa.string(), pa.float64())"
            raise SpecError(
                f"{self.name}: column {other[0].name!r} is {other[0].type}, but it models counts: "
                f"{models}; {mend}."
            )
        # A column of nulls is of any type; only one of terms has a vocabulary.
        return has_vocabulary and self.features.types == [pa.null()]

    def _read_vocabulary(self, given: Any) -> pa.Array | None:
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise SpecError(f"{self.name}: vocabulary must be a list of text, got {given!r}.")
        for term in given:
            if not isinstance(term, str):
                raise SpecError(f"{self.name}: vocabulary must be a list of text, not of {term!r}.")
        for term, times in Counter(given).items():
            if times > 1:
                raise SpecError(f"{self.name}: vocabulary has {term!r} twice; list each term once.")
        return pa.array(given, pa.string()) if given else None

    def count_of(self, counts: Counts) -> csr_array:
        """What is counted, ``(n, m)``: the counts, unless an estimator says otherwise."""
        return counts.matrix

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        from scipy.sparse import csc_array

        size = batch.num_rows
        share = np.ones(size) if weights is None else weights
        labels = classes.indices.to_numpy(zero_copy_only=False)
        shape = (len(classes.dictionary), size)
        by_class = csc_array((share, (labels, np.arange(size))), shape=shape)
        parts = []
        for rows, counts in self.reader.parts(batch):
            of_rows = by_class[:, rows]
            for field, of_features, of_total in self._values(counts):
                for features, values in (
                    (counts.features, of_features),
                    (_TOTAL, of_total[:, None]),
                ):
                    sums = of_rows @ values
                    parts.append(self._tidy(classes.dictionary, features, field, sums))
        return self.merge(parts)

    def _values(self, counts: Counts) -> Iterator[tuple[str, Any, FloatArray]]:
        """Each field, with what a row adds to it of its features ``(n, m)`` and in all ``(n,)``."""
        from scipy.special import gammaln

        counted = self.count_of(counts)
        yield "count", counted, counted.sum(axis=1)
        rows = counts.presence if self.of_terms else counts.known_cells
        yield "rows", rows, counts.known_rows
        if "log_factorials" in self.sums:
            factorials = counts.with_values(gammaln(counts.matrix.data + 1.0))
            yield "log_factorials", factorials, gammaln(counts.lengths + 1.0)

    def _tidy(self, labels: pa.Array, features: pa.Array, field: str, sums: Any) -> pa.Table:
        """One row per cell of one field, the others 0, from ``(k, m)``, sparse or dense."""
        from scipy.sparse import coo_array

        cells = coo_array(sums)
        nothing = np.zeros(cells.nnz)
        return pa.table(
            {
                "class": labels.take(pa.array(cells.row)),
                "feature": features.take(pa.array(cells.col)),
                **{name: cells.data if name == field else nothing for name in self.sums},
            }
        )

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return summed(tables, ["class", "feature"], self.sums)

    def by_class(self, statistics: pa.Table, classes: pa.Array) -> ClassCounts:
        """Statistics as dense numbers, features in the order of the parameters.

        Raises:
            DataError: a column has no value in any row, or no term occurs in any document.
        """
        whole = pc.is_null(statistics["feature"])
        seen, total = statistics.filter(pc.invert(whole)), statistics.filter(whole)
        features = self._features(seen)
        place = label_codes(seen["class"], classes), label_codes(seen["feature"], features)
        row = label_codes(total["class"], classes)
        cells, totals = {}, {}
        for field in self.sums:
            cells[field] = np.zeros((len(classes), len(features)))
            cells[field][place] = seen[field].to_numpy()
            totals[field] = np.zeros(len(classes))
            totals[field][row] = total[field].to_numpy()
        return ClassCounts(features, cells, totals)

    def _features(self, seen: pa.Table) -> pa.Array:
        names = self.features.names
        if not self.of_terms:
            held = set(seen["feature"].to_pylist())
            for name in names:
                if name not in held:
                    raise DataError(
                        f"column {name!r} has no value in any training row; leave it out of the "
                        "block."
                    )
            return pa.array(names, pa.string())
        if self.reader.vocabulary is not None:
            return self.reader.vocabulary
        if not seen.num_rows:
            raise DataError(
                f"column {names[0]!r} has no term in any training row; leave it out, or declare "
                "its vocabulary."
            )
        return sorted_classes(seen["feature"])

    def parameters(
        self, classes: pa.Array, sums: ClassCounts, field: str, values: FloatArray, **notes: Any
    ) -> pa.Table:
        """The parameters table: one row per class and feature, of ``(k, m)`` values."""
        size = len(sums.features)
        table = pa.table(
            {
                "class": classes.take(pa.array(np.repeat(np.arange(len(classes)), size))),
                "feature": pa.concat_arrays([sums.features] * len(classes)),
                "count": sums.cells["count"].ravel(),
                field: values.ravel(),
            }
        )
        return with_notes(
            table,
            estimator=self.name,
            features=self.features.names,
            options=self.options,
            **notes,
        )

    def read_parameters(
        self, parameters: pa.Table, classes: pa.Array, field: str
    ) -> tuple[CountReader, pa.Array, FloatArray, FloatArray]:
        """How rows are read for these parameters, their features, counts and values ``(k, m)``."""
        features = pc.unique(parameters["feature"])
        place = (
            label_codes(parameters["class"], classes),
            label_codes(parameters["feature"], features),
        )
        count, values = np.zeros((2, len(classes), len(features)))
        count[place] = parameters["count"].to_numpy()
        values[place] = parameters[field].to_numpy()
        reader = replace(self.reader, vocabulary=features) if self.of_terms else self.reader
        return reader, features, count, values

    def rows_of(self, parameters: pa.Table, classes: pa.Array) -> FloatArray:
        """The note ``rows`` in the order of ``classes``; it stands in that of the table."""
        place = label_codes(classes, pc.unique(parameters["class"]))
        rows: FloatArray = np.array(notes_of(parameters)["rows"])[place]
        return rows

    def refuse_improper_prior(self, *options: str) -> None:
        """For the evidence.

        Raises:
            NotSupportedError: one of the options is 0.
        """
        for option in options:
            if self.options[option] == 0:
                raise NotSupportedError(
                    f"{self.name} has no log evidence with {option}=0, which is no proper prior; "
                    f"set {option} above 0."
                )


class CountLikelihood(ABC):
    """Parameters compiled for counts.

    Args:
        reader: gives the counts of a batch, features in the order of the parameters.
        features: ``m`` names.
    """

    normalized = True

    def __init__(self, reader: CountReader, features: pa.Array) -> None:
        self.reader = reader
        self.features = features

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        return np.concatenate([self.of_counts(counts) for _, counts in self.reader.parts(batch)])

    @abstractmethod
    def of_counts(self, counts: Counts) -> FloatArray:
        """log p(x | class) of counts, ``(n, k)``."""

    def stored(self, counts: Counts) -> Iterator[tuple[str, int, float]]:
        """Name, place and number of the counts above 0 of a single row."""
        codes = counts.matrix.indices
        names = self.features.take(pa.array(codes)).to_pylist()
        return zip(names, codes.tolist(), counts.matrix.data.tolist(), strict=True)


def log_factorials(counts: Counts) -> FloatArray:
    """Σ log x! of each row: ``(n,)``."""
    from scipy.special import gammaln

    return counts.row_sums(gammaln(counts.matrix.data + 1.0))


def refuse_infinite_weights(weights: FloatArray) -> None:
    """For the linear form.

    Raises:
        NotSupportedError: a weight is infinite.
    """
    if not np.isfinite(weights).all():
        raise NotSupportedError(
            "no linear form: a feature that a class never showed, or always, has an infinite "
            "weight; set pseudo_count above 0."
        )
