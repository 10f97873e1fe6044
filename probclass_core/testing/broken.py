"""Estimators that break one law each: what the laws must reject, or they prove nothing.

Each is `gaussian_diagonal` with one mistake that has been made in earnest somewhere. It may break
other laws, too; `BROKEN` names the one that it is here for.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, numeric_matrix, sorted_classes
from probclass_core.estimation.contract import Likelihood, LikelihoodEstimator
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.families.gaussian.full import GaussianFull
from probclass_core.plugins.descriptors import EstimatorPlugin, Traits

Alter = Callable[[pa.RecordBatch, FloatArray], FloatArray]


class _Base(GaussianDiagonal):
    """The good one, in whose results a subclass may put one thing wrong."""

    name: ClassVar[str] = "broken"

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Altered(super().likelihood(parameters, classes), self.alter)

    def alter(self, batch: pa.RecordBatch, values: FloatArray) -> FloatArray:
        """What is made of log-likelihoods ``(n, k)``."""
        return values


class _Altered:
    normalized = True

    def __init__(self, inner: Likelihood, alter: Alter) -> None:
        self.inner, self.alter = inner, alter

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        return self.alter(batch, self.inner.log_likelihood(batch))


class _SmoothsEveryBatch(_Base):
    """A pseudo-count in summarize counts once a batch."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(batch, classes, weights)
        return _with(table, "count", pc.add(table["count"], 1.0))


class _AveragesTheParts(_Base):
    """The mean of means, however many rows each stands for."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return _with(super().merge(tables), "mean", _over_parts(tables, "mean"))


class _KeepsTheFirstPart(_Base):
    """The mean that came first."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return _with(super().merge(tables), "mean", _over_parts(tables, "first"))


class _LooksAtTheFirstRow(_Base):
    """Takes the type of the classes from a row that need not be there."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        first = [table["class"][0] for table in tables]
        return super().merge(tables[: len(first)])


class _UsesUpWeights(_Base):
    """Normalizes the weights where they lie."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(batch, classes, weights)
        if weights is not None:
            weights /= weights.sum()
        return table


class _CountsItsCalls(_Base):
    """finalize depends on how often it was called."""

    calls: ClassVar[int] = 0

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        type(self).calls += 1
        table = super().finalize(statistics, classes)
        return _with(table, "variance", pc.add(table["variance"], float(self.calls)))


class _DrawsWithoutASeed(_Base):
    """Noise that no one can repeat."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(batch, classes, weights)
        return _with(table, "mean", pc.add(table["mean"], np.random.default_rng().random()))


class _KnowsItsThread(_Base):
    """What was set up in the main thread is not there in another."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        table = super().summarize(batch, classes, weights)
        if threading.current_thread() is threading.main_thread():
            return table
        return _with(table, "mean", pc.add(table["mean"], 1.0))


class _IgnoresWeights(_Base):
    """Every row counts once."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        return super().summarize(batch, classes, None)


class _SkipsAHeader(_Base):
    """The first row of a batch is left out."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        rest = None if weights is None else weights[1:]
        return super().summarize(batch.slice(1), classes.slice(1), rest)


class _ScalesEachBatch(_Base):
    """A log-likelihood depends on its neighbors in the batch."""

    def alter(self, batch: pa.RecordBatch, values: FloatArray) -> FloatArray:
        altered: FloatArray = values - len(values)
        return altered


class _WantsDoubles(_Base):
    """A dtype is taken for granted."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        if any(column.type != pa.float64() for column in batch.columns):
            raise TypeError("float64 expected")
        return super().summarize(batch, classes, weights)


class _TakesNanForZero(_Base):
    """A NaN is not a null here."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        columns = [
            pc.if_else(pc.is_nan(column), 0.0, column)
            if pa.types.is_float64(column.type)
            else column
            for column in batch.columns
        ]
        filled = pa.RecordBatch.from_arrays(columns, batch.schema.names)
        return super().summarize(filled, classes, weights)


class _FillsNulls(_Base):
    """A null counts as 0 in training."""

    def summarize(self, batch: Any, classes: Any, weights: Any) -> pa.Table:
        columns = [pc.fill_null(column, 0) for column in batch.columns]
        filled = pa.RecordBatch.from_arrays(columns, batch.schema.names)
        return super().summarize(filled, classes, weights)


class _PicklesItsState(_Base):
    """To read the statistics is to execute what someone else wrote."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        table = super().merge(tables)
        return table.replace_schema_metadata({b"state": pickle.dumps({"seen": 1})})


class _KeepsEveryPart(_Base):
    """To merge is to remember all."""

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(tables)


class _RefinesByCalls(_Base):
    """The options of another pass depend on how often it was asked for them."""

    calls: ClassVar[int] = 0

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any]:
        _RefinesByCalls.calls += 1
        return {"variance_floor": 10.0 * self.calls}


class _HasNanForEvidence(_Base):
    """A log of 0 less another."""

    def log_evidence(self, statistics: pa.Table) -> float:
        return float("nan")


class _HasEvidenceInSecret(_Base):
    """log_evidence answers, but the traits say it does not."""

    def log_evidence(self, statistics: pa.Table) -> float:
        return 0.0


class _AveragesTheEvidence(_Base):
    """The mean over the classes in place of the sum."""

    def log_evidence(self, statistics: pa.Table) -> float:
        return super().log_evidence(statistics) / len(sorted_classes(statistics["class"]))


class _TakesAnyOption(_Base):
    """A misspelt option changes nothing, and nobody is told."""

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, {key: options[key] for key in options if "such" not in key})


class _Overflows(_Base):
    """0 · ∞ far out."""

    def alter(self, batch: pa.RecordBatch, values: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.nan_to_num(numeric_matrix(batch, self.features.names)) ** 2
            altered: FloatArray = values + 0.0 * squares.sum(axis=0)[:, None]
        return altered


class _AddsAConstant(_Base):
    """A row without features is not certain."""

    def alter(self, batch: pa.RecordBatch, values: FloatArray) -> FloatArray:
        return values - 1.0


class _FinesNulls(_Base):
    """A row pays for each feature that it lacks."""

    def alter(self, batch: pa.RecordBatch, values: FloatArray) -> FloatArray:
        missing = np.isnan(numeric_matrix(batch, self.features.names)).sum(axis=0)
        fine = np.where(missing < len(self.features), missing, 0)
        altered: FloatArray = values - fine[:, None]
        return altered


class _ClaimsToFactorize(GaussianFull):
    """A full covariance by the name of a diagonal one."""

    name: ClassVar[str] = "broken"


class _KeepsParametersAtHome(_Base):
    """The table is a key to what only this process knows."""

    kept: ClassVar[dict[int, pa.Table]] = {}

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        table = super().finalize(statistics, classes)
        self.kept[id(table)] = table
        return table

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return super().likelihood(self.kept[id(parameters)], classes)


class _SortsTheClasses(_Base):
    """Columns in an order of its own."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return super().likelihood(parameters, sorted_classes(classes))


class _ItemizesByHalves(_Base):
    """Shares that do not sum to the whole."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Itemized(super().likelihood(parameters, classes), self.alter)


class _Itemized(_Altered):
    def itemize(self, row: pa.RecordBatch) -> Mapping[str, FloatArray]:
        return {"half": 0.5 * self.log_likelihood(row)[0]}


class _CallsItselfLinear(_Base):
    """A linear form of what is quadratic."""

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
        return _Linear(super().likelihood(parameters, classes), len(classes), self.features.names)


class _Linear(_Altered):
    def __init__(self, inner: Likelihood, classes: int, features: Sequence[str]) -> None:
        super().__init__(inner, lambda batch, values: values)
        self.shape, self.features = (classes, len(features)), features

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        return self.features, np.zeros(self.shape), np.zeros(self.shape[0])


def _with(table: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def _over_parts(tables: Sequence[pa.Table], how: str) -> pa.ChunkedArray:
    """The means of the parts in one, cell by cell, in the order of `GaussianDiagonal.merge`."""
    grouped = pa.concat_tables(tables).group_by(["class", "feature"], use_threads=False)
    merged = grouped.aggregate([("mean", how)])
    return merged.sort_by([("class", "ascending"), ("feature", "ascending")])[f"mean_{how}"]


def _plugin(
    factory: type[LikelihoodEstimator], *, has_evidence: bool = True, passes: int = 1
) -> EstimatorPlugin:
    traits = Traits(factorizes=True, has_evidence=has_evidence, passes=passes)
    return EstimatorPlugin("broken", factory, f"breaks a law: {factory.__doc__}", traits=traits)


BROKEN: Mapping[str, EstimatorPlugin] = {
    "summarizing_the_whole_is_merging_its_parts": _plugin(_SmoothsEveryBatch),
    "merging_is_associative": _plugin(_AveragesTheParts),
    "merging_is_commutative": _plugin(_KeepsTheFirstPart),
    "nothing_is_the_identity_of_merging": _plugin(_LooksAtTheFirstRow),
    "inputs_stay_as_they_are": _plugin(_UsesUpWeights),
    "finalizing_twice_is_finalizing_once": _plugin(_CountsItsCalls),
    "fitting_twice_is_fitting_once": _plugin(_DrawsWithoutASeed),
    "workers_do_not_matter": _plugin(_KnowsItsThread),
    "weights_count_rows": _plugin(_IgnoresWeights),
    "row_order_does_not_matter": _plugin(_SkipsAHeader),
    "batch_size_does_not_matter": _plugin(_ScalesEachBatch),
    "types_do_not_matter": _plugin(_WantsDoubles),
    "nan_is_null": _plugin(_TakesNanForZero),
    "a_row_without_features_teaches_nothing": _plugin(_FillsNulls),
    "statistics_survive_storage": _plugin(_PicklesItsState),
    "statistics_do_not_grow": _plugin(_KeepsEveryPart),
    "passes_do_not_depend_on_parts": _plugin(_RefinesByCalls, passes=2),
    "evidence_is_finite": _plugin(_HasNanForEvidence),
    "evidence_is_refused_where_none_is_offered": _plugin(_HasEvidenceInSecret, has_evidence=False),
    "evidence_adds_up_over_classes": _plugin(_AveragesTheEvidence),
    "unknown_options_are_refused": _plugin(_TakesAnyOption),
    "likelihoods_are_numbers": _plugin(_Overflows),
    "a_row_without_features_has_log_likelihood_0": _plugin(_AddsAConstant),
    "a_null_is_marginalized": _plugin(_FinesNulls),
    "log_likelihoods_sum_over_features": _plugin(_ClaimsToFactorize),
    "parameters_survive_storage": _plugin(_KeepsParametersAtHome),
    "columns_follow_the_classes": _plugin(_SortsTheClasses),
    "items_sum_to_the_log_likelihood": _plugin(_ItemizesByHalves),
    "a_linear_form_tells_the_differences": _plugin(_CallsItselfLinear),
}
"""Law to an estimator that breaks it; all are of two columns of numbers or more."""
