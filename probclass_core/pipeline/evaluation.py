"""Measure models on rows: one with labels, one without, and several by their evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from probclass_core.analysis.batches import sum_over_batches
from probclass_core.analysis.comparison import (
    Comparison,
    check_same_columns,
    compare_statistics,
    named_models,
)
from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.meter import HealthMeter, HealthSums
from probclass_core.analysis.evaluation import Evaluation, Evaluator
from probclass_core.arguments import checks_arguments
from probclass_core.errors import DataError
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import MissingColumns, Selection
from probclass_core.model.decision import CompiledRule, DecisionOption
from probclass_core.model.model import ModelOption, as_model, is_model
from probclass_core.pipeline.training import summarize
from probclass_core.spec.model_spec import SPEC_HINT, ModelSpec

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CacheOption


@checks_arguments
@draws_progress("evaluating")
def evaluate(
    model: ModelOption,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    decision: DecisionOption = "map",
    missing_columns: MissingColumns = "error",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> Evaluation:
    """Evaluate a model on labeled rows; one without a label by the mean log density of any rows.

    Args:
        model: model to evaluate, or a fitted `ProbClassifier`.
        source: as for `fit`, like the arguments that are not listed.
        partition: partition to read.
        where: rows to read.
        decision: decision rule; see `DecisionRule`.
        missing_columns: what to do about a column of the model that no file has: ``"error"``, or
            read it as null, with a warning (``"warn"``) or without (``"allow"``). A column that
            only some files have is null in the others, with a warning unless ``"allow"``.
        engine: engine that reads and measures.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Raises:
        DataError: if a column is missing, or no row has a label that the model knows.
        SpecError: if the decision rule does not fit the model.
        NotSupportedError: if the rule needs a density that a block knows only up to a term.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    evaluator = Evaluator(model, decision)
    columns = model.spec.label_columns, model.spec.features, missing_columns
    plan = Selection.plan_alone(source, partition, where, *columns)
    counter = RowCounter(progress, plan.rows)
    with open_engine(engine, workers) as opened:
        sums = sum_over_batches(
            evaluator.measure, evaluator.no_rows, plan, model.batch_rows, opened, counter
        )
    return evaluator.result(sums)


@checks_arguments
@draws_progress("measuring")
def health(
    model: ModelOption,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    decision: DecisionOption = "map",
    missing_columns: MissingColumns = "error",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> Health:
    """Compare rows with what a model expects, without labels; `score` records it with each commit.

    Args:
        model: model that would score the rows, or a fitted `ProbClassifier`.
        source: as for `fit`, like the arguments that are not listed; labels are not needed.
        partition: partition to read.
        where: rows to read.
        decision: decision rule; see `DecisionRule`.
        missing_columns: what to do about a column of the model that no file has: ``"error"``, or
            read it as null, with a warning (``"warn"``) or without (``"allow"``). A column that
            only some files have is null in the others, with a warning unless ``"allow"``.
        engine: engine that reads and measures. The result does not depend on it.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Raises:
        DataError: if a column is missing or has unsuitable values, or there are no rows.
        SpecError: if the decision rule does not fit the model.
        TableError: if the table or partition does not exist or cannot be read.
    """
    model = as_model(model)
    rule = model.compile_rule(decision)
    columns = (), model.spec.features, missing_columns
    plan = Selection.plan_alone(source, partition, where, *columns)
    meter, counter = HealthMeter(model), RowCounter(progress, plan.rows)
    measure = partial(_measure_health, meter, rule)
    with open_engine(engine, workers) as opened:
        sums = sum_over_batches(measure, meter.zero(), plan, model.batch_rows, opened, counter)
    if not sums.rows:
        raise DataError("there are no rows to measure: the source is empty, or no row matches.")
    return meter.health(sums)


def _measure_health(meter: HealthMeter, rule: CompiledRule, batch: pa.RecordBatch) -> HealthSums:
    rows = meter.model.rows(batch)
    return meter.measure(rows, *meter.model.decide(rows, rule))


@checks_arguments
@draws_progress("summarizing")
def compare(
    source: Any,
    specs: Sequence[ModelSpec | ModelOption] | Mapping[str, ModelSpec | ModelOption] | None = None,
    *,
    prior: Mapping[str, float] | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
    cache: CacheOption = None,
) -> Comparison:
    """Compare models of the same rows and columns by their evidence.

    The evidence of a model is that of its labels times that of each block. The evidence of the
    labels is that of a Dirichlet prior with a pseudo-count of 1 per class if the model's prior is
    ``"empirical"``, else Π P(c) over the rows.

    Args:
        source: rows, as for `fit`; or, without specs, the statistics of at least two models, from
            `summarize` or `merge`: a list, or a mapping by model name.
        specs: at least two specs of models of these rows: a mapping by model name, or a list of
            models M1, M2, …. A model or a fitted classifier stands for its spec.
        prior: prior probability of each model, up to a common factor; equal by default.
        partition: partition to read, as for `fit`, like the arguments that follow.
        where: rows to read.
        engine: engine that reads and summarizes.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.
        cache: model store in which the statistics of units are cached.

    Raises:
        SpecError: if there are fewer than two models, the prior does not fit, or the models have
            different columns.
        DataError: if the statistics are of different rows or of none, an evidence has no closed
            form, or the source is a reader, which can be read only once.
        NotSupportedError: if an estimator has no evidence.
        TableError: if the table or partition does not exist or cannot be read.
    """
    if specs is None:
        return compare_statistics(source, prior=prior)
    named = named_models(specs, ModelSpec, SPEC_HINT, _spec_of)
    check_same_columns(named)
    table = open_table(source)
    if table.read_once:
        raise DataError(
            "each model reads the rows, and a reader can be read only once; pass a table or a path."
        )
    with open_engine(engine, workers) as opened:
        statistics = {
            name: summarize(
                table,
                spec,
                partition=partition,
                where=where,
                engine=opened,
                progress=progress,
                cache=cache,
            )
            for name, spec in named.items()
        }
    return compare_statistics(statistics, prior=prior)


def _spec_of(model: object) -> object:
    """The spec of a model or fitted classifier; anything else as it is."""
    return as_model(model).spec if is_model(model) else model
