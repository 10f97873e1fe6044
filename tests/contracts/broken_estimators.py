"""Estimators that break a law, to test that every law rejects one.

Each is `gaussian_diagonal`, or `poisson`, with one realistic mistake. It may break several laws;
`BROKEN` gives the law that it is meant to break.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, sorted_classes
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.contract import Estimator, Likelihood
from probclass_core.estimation.families.counts import Poisson
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.families.gaussian.full import GaussianFull
from probclass_core.estimation.formulas import Formula
from probclass_core.estimation.kinds.kind import ClassSums, Sums
from probclass_core.estimation.marginals import Curve

Alter = Callable[[Rows, FloatArray], FloatArray]


class _Base(GaussianDiagonal):
    """A correct estimator; subclasses introduce one mistake."""

    name: ClassVar[str] = "broken"

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Altered(super().likelihood(parameters, classes), self.alter)

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        """Change log-likelihoods ``(n, k)``."""
        return values


class _Altered:
    normalized = True

    def __init__(self, inner: Likelihood, alter: Alter) -> None:
        self.inner, self.alter = inner, alter

    def log_likelihood(self, rows: Rows) -> FloatArray:
        return self.alter(rows, self.inner.log_likelihood(rows))


class _SmoothsEveryBatch(_Base):
    """Adds a pseudo-count in summarize, once per batch."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(rows, classes, weights)
        return _with(table, "count", pc.add(table["count"], 1.0))


class _AveragesParts(_Base):
    """Averages the means of parts without weighting them by their rows."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return _with(super().merge(tables), "mean", _aggregate_means(tables, "mean"))


class _KeepsTheFirstPart(_Base):
    """Keeps the mean of the first part."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return _with(super().merge(tables), "mean", _aggregate_means(tables, "first"))


class _LooksAtTheFirstRow(_Base):
    """Reads the first row of every table, which may have no rows."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        first = [table["class"][0] for table in tables]
        return super().merge(tables[: len(first)])


class _NormalizesInPlace(_Base):
    """Normalizes the weights in place."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(rows, classes, weights)
        if weights is not None:
            weights /= weights.sum()
        return table


class _DependsOnTheThread(_Base):
    """Gives other results outside the main thread."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(rows, classes, weights)
        if threading.current_thread() is threading.main_thread():
            return table
        return _with(table, "mean", pc.add(table["mean"], 1.0))


class _IgnoresWeights(_Base):
    """Counts every row once."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        return super().summarize(rows, classes, None)


class _ScalesTheMeans(_Base):
    """Multiplies the means of statistics by the factor of the weights."""

    def scale(self, statistics: pa.Table, factor: float) -> pa.Table:
        scaled = super().scale(statistics, factor)
        return _with(scaled, "mean", pc.multiply(scaled["mean"], factor))


class _SkipsTheFirstRow(_Base):
    """Leaves out the first row of every batch."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        rest = None if weights is None else weights[1:]
        return super().summarize(rows.slice(1, len(rows)), classes.slice(1), rest)


class _ScalesEachBatch(_Base):
    """Returns log-likelihoods that depend on the size of the batch."""

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        altered: FloatArray = values - len(values)
        return altered


class _RequiresFloat64(_Base):
    """Accepts only float64 columns."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        if any(rows.column(name).type != pa.float64() for name in self.features.names):
            raise TypeError("float64 expected")
        return super().summarize(rows, classes, weights)


class _FillsNan(_Base):
    """Treats NaN as 0 instead of null."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        columns = {name: rows.column(name) for name in self.features.names}
        for name, column in columns.items():
            if pa.types.is_float64(column.type):
                columns[name] = pc.if_else(pc.is_nan(column), 0.0, column)
        return super().summarize(Rows(pa.record_batch(columns)), classes, weights)


class _FillsNulls(_Base):
    """Treats null as 0 in training."""

    def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
        filled = {name: pc.fill_null(rows.column(name), 0) for name in self.features.names}
        return super().summarize(Rows(pa.record_batch(filled)), classes, weights)


class _PicklesItsState(_Base):
    """Stores a pickled object, which executes code when it is read."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        table = super().merge(tables)
        return table.replace_schema_metadata({b"state": pickle.dumps({"seen": 1})})


class _KeepsEveryPart(_Base):
    """Keeps the statistics of every part in a merge."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(tables)


class _RefinesByCalls(_Base):
    """Asks for options that depend on the number of calls."""

    passes = 2
    calls: ClassVar[int] = 0

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any]:
        _RefinesByCalls.calls += 1
        return {"variance_floor": 10.0 * self.calls}


class _ReturnsNanEvidence(_Base):
    """Returns NaN as log evidence."""

    def log_evidence(self, statistics: pa.Table) -> float:
        return float("nan")


class _SumsAnotherColumn(_Base):
    """Lets a database compute means that are not those of the rows."""

    def aggregates(self) -> Sums:
        sums = super().aggregates()

        def statistics(by_class: ClassSums) -> pa.Table:
            table = sums.statistics(by_class)
            return _with(table, "mean", pc.add(table["mean"], 1.0))

        return replace(sums, statistics=statistics)


class _AveragesTheEvidence(_Base):
    """Averages log evidence over classes instead of adding it up."""

    def log_evidence(self, statistics: pa.Table) -> float:
        return super().log_evidence(statistics) / len(sorted_classes(statistics["class"]))


class _IgnoresUnknownOptions(_Base):
    """Ignores a misspelled option."""

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, {key: options[key] for key in options if "such" not in key})


class _Overflows(_Base):
    """Computes 0 · ∞ for extreme values."""

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.nan_to_num(rows.matrix(self.features.names)) ** 2
            altered: FloatArray = values + 0.0 * squares.sum(axis=0)[:, None]
        return altered


class _AddsAConstant(_Base):
    """Returns −1 as the log-likelihood of a row without features."""

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        return values - 1.0


class _OmitsTheConstant(_Base):
    """Leaves out the constant −½ log 2π of each feature, but claims to be normalized."""

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        altered: FloatArray = values + 0.5 * np.log(2.0 * np.pi) * _observed(self, rows)
        return altered


class _AddsThree(_Base):
    """Adds 3 to the log density of each feature."""

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        return values + 3.0 * _observed(self, rows)


class _ForgetsTheFactorials(Poisson):
    """Leaves out −log x!, but claims to be normalized."""

    name: ClassVar[str] = "broken"

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Altered(super().likelihood(parameters, classes), self.alter)

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        from scipy.special import gammaln

        matrix = rows.matrix(self.features.names)
        factorials: FloatArray = np.nan_to_num(gammaln(matrix + 1.0)).sum(axis=0)
        altered: FloatArray = values + factorials[:, None]
        return altered


class _PenalizesNulls(_Base):
    """Subtracts a penalty for each null."""

    def alter(self, rows: Rows, values: FloatArray) -> FloatArray:
        missing = np.isnan(rows.matrix(self.features.names)).sum(axis=0)
        penalty = np.where(missing < len(self.features), missing, 0)
        altered: FloatArray = values - penalty[:, None]
        return altered


class _ClaimsToFactorize(GaussianFull):
    """Has a full covariance, and says that it factorizes."""

    name: ClassVar[str] = "broken"
    factorizes = True


class _KeepsParametersInMemory(_Base):
    """Keeps parameters in memory that are not in the table."""

    tables: ClassVar[dict[int, pa.Table]] = {}

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        table = super().finalize(statistics, classes)
        self.tables[id(table)] = table
        return table

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return super().likelihood(self.tables[id(parameters)], classes)


class _SortsTheClasses(_Base):
    """Returns columns in sorted order instead of class order."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return super().likelihood(parameters, sorted_classes(classes))


class _ItemizesOnlyHalf(_Base):
    """Returns items that sum to half of the log-likelihood."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Itemized(super().likelihood(parameters, classes), self.alter)


class _Itemized(_Altered):
    def itemize(self, row: Rows) -> Mapping[str, FloatArray]:
        return {"half": 0.5 * self.log_likelihood(row)[0]}


class _LeavesOutTheFirstRow(_Base):
    """Leaves a row out whatever its weight."""

    def leave_one_out(self, *arguments: Any) -> FloatArray:
        return super().leave_one_out(*arguments[:-1], None)


class _DescribesAnotherDensity(_Base):
    """Returns marginals of which the log density is 0 everywhere."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Described(super().likelihood(parameters, classes), len(classes))


class _Described(_Altered):
    def __init__(self, inner: Likelihood, classes: int) -> None:
        super().__init__(inner, lambda rows, values: values)
        self.classes = classes

    def marginal(self, column: str) -> Curve:
        return Curve(lambda values: np.zeros((len(values), self.classes)))


class _WritesAnotherFormula(_Base):
    """Returns a formula whose log-likelihood is 0."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Written(super().likelihood(parameters, classes), self.alter)


class _Written(_Altered):
    def formula(self) -> Formula:
        return Formula([])


def _observed(estimator: Estimator, rows: Rows) -> FloatArray:
    """Number of features that each row has, ``(n, 1)``."""
    known = ~np.isnan(rows.matrix(estimator.features.names))
    count: FloatArray = known.sum(axis=0, dtype=np.float64)
    return count[:, None]


def _with(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def _aggregate_means(tables: Sequence[pa.Table], how: str) -> pa.ChunkedArray:
    """Aggregate the means of the parts, in the order of `GaussianDiagonal.merge`."""
    grouped = pa.concat_tables(tables).group_by(["class", "feature"], use_threads=False)
    merged = grouped.aggregate([("mean", how)])
    return merged.sort_by([("class", "ascending"), ("feature", "ascending")])[f"mean_{how}"]


BROKEN: Mapping[str, type[Estimator]] = {
    "summarizing_the_whole_is_merging_its_parts": _SmoothsEveryBatch,
    "merging_is_associative": _AveragesParts,
    "merging_is_commutative": _KeepsTheFirstPart,
    "merging_with_no_rows_changes_nothing": _LooksAtTheFirstRow,
    "inputs_are_not_modified": _NormalizesInPlace,
    "fit_is_deterministic": _DependsOnTheThread,
    "weights_count_rows": _IgnoresWeights,
    "scaling_multiplies_weights": _ScalesTheMeans,
    "row_order_does_not_matter": _SkipsTheFirstRow,
    "batch_size_does_not_matter": _ScalesEachBatch,
    "types_do_not_matter": _RequiresFloat64,
    "nan_is_null": _FillsNan,
    "a_row_without_features_changes_no_parameter": _FillsNulls,
    "statistics_survive_storage": _PicklesItsState,
    "statistics_do_not_grow": _KeepsEveryPart,
    "passes_do_not_depend_on_parts": _RefinesByCalls,
    "a_database_computes_the_same_statistics": _SumsAnotherColumn,
    "evidence_is_finite": _ReturnsNanEvidence,
    "evidence_adds_up_over_classes": _AveragesTheEvidence,
    "unknown_options_are_refused": _IgnoresUnknownOptions,
    "likelihoods_are_numbers": _Overflows,
    "densities_integrate_to_1": _OmitsTheConstant,
    "masses_sum_to_1": _ForgetsTheFactorials,
    "a_row_without_features_has_log_likelihood_0": _AddsAConstant,
    "a_null_is_marginalized": _PenalizesNulls,
    "log_likelihoods_sum_over_features": _ClaimsToFactorize,
    "parameters_survive_storage": _KeepsParametersInMemory,
    "columns_follow_the_classes": _SortsTheClasses,
    "items_sum_to_the_log_likelihood": _ItemizesOnlyHalf,
    "leaving_out_no_weight_changes_nothing": _LeavesOutTheFirstRow,
    "marginals_are_those_of_the_log_likelihood": _DescribesAnotherDensity,
    "sql_says_what_the_log_likelihood_says": _WritesAnotherFormula,
}
"""Law to an estimator that breaks it, for blocks of at least two numeric columns, or counts."""

ADDS_THREE = _AddsThree
"""Another estimator that breaks ``densities_integrate_to_1``, and no other law."""
