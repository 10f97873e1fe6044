"""What the estimators of counts share: options, accepted columns, statistics, tables."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, is_numeric_type, label_codes, sorted_classes
from probclass_core.arrow.sparse_counts import CountReader
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.counts.likelihood import CountLikelihood
from probclass_core.estimation.families.scarce import NoLikelihood, pooled_unless, without_values
from probclass_core.estimation.kinds.count_sums import ClassCounts, CountSums
from probclass_core.estimation.options import EstimatorOptions, OptionPath, choice, number, option
from probclass_core.estimation.parameters import (
    COUNT,
    LOG_PROBABILITY,
    Range,
    check_notes,
    check_parameters,
)
from probclass_core.estimation.tidy import dense_arrays, notes_of, tidy_table


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
class CountParameters:
    """Parameters as arrays.

    Attributes:
        reader: reads the counts of the features.
        features: ``m`` names.
        count: of each feature, ``(k, m)``.
        values: of `CountEstimator.field`, ``(k, m)``.
        rows: see `CountEstimator.possible_rows`; empty if they are not recorded.
    """

    reader: CountReader
    features: pa.Array
    count: FloatArray
    values: FloatArray
    rows: FloatArray


class CountEstimator(Estimator):
    """Counts of columns or terms, from their sums by class.

    Statistics: those of `CountSums`.
    Parameters: class, feature, count, and `field`.

    Attributes:
        field: column of parameters that `estimate` returns.
        allowed: numbers that it may contain.
        adds_up: whether its probabilities add up to 1 in a class.
        priors: options that are the prior, above 0 if it is proper; the last one is in rows.
        presences: whether presences are counted.
        of_whole_counts: whether counts must be whole.
    """

    Options: ClassVar[type[CountOptions]]
    options: CountOptions
    field: ClassVar[str] = "log_probability"
    allowed: ClassVar[Range] = LOG_PROBABILITY
    adds_up: ClassVar[bool] = False
    priors: ClassVar[Sequence[str]] = ("pseudo_count",)
    presences: ClassVar[bool] = False
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
    def compiled(self, of: CountParameters) -> CountLikelihood:
        """The likelihood of parameters."""

    @abstractmethod
    def evidence(self, counts: ClassCounts) -> FloatArray:
        """Log evidence of each class and feature, or of each class."""

    def possible_rows(self, counts: ClassCounts) -> FloatArray:
        """Rows that could show a feature: ``(k, 1)`` for terms, ``(k, m)`` for columns."""
        return counts.totals["rows"][:, None] if self.of_terms else counts.sums["rows"]

    def notes_on_rows(self, rows: FloatArray) -> Mapping[str, Any]:
        """What parameters record of `possible_rows`."""
        return {"rows": rows.tolist()}

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        counts = self.kind.read(statistics, classes)
        names, modeled = self.features.names, counts.features.to_pylist()
        empty = [name for name in names if name not in modeled]
        if self.of_terms:
            empty, modeled = [] if modeled else names, names if modeled else []
        count, rows = counts.sums["count"], self.possible_rows(counts)
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
        table = tidy_table(classes, {"feature": counts.features}, fields)
        return self.annotate(table, scarce=scarce, **self.notes_on_rows(rows))

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
        reader = replace(self.reader, **known)
        return self.compiled(CountParameters(reader, features, count, values, rows))

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
        classes = sorted_classes(statistics["class"])
        return float(self.evidence(self.kind.read(statistics, classes)).sum())
