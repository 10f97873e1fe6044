"""Fit, summarize, compare, score and evaluate: the whole pipeline.

table → fragments → statistics → parameters → log-likelihoods → posterior → table
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probclass_core.analysis.comparison import Comparison, compare_statistics, named_models
from probclass_core.analysis.evaluation import Evaluation, Evaluator
from probclass_core.analysis.health.report import Health
from probclass_core.analysis.health.sums import HealthMeter
from probclass_core.analysis.health.watch import Watch, WatchOption
from probclass_core.arrow.bundle import as_json, json_digest
from probclass_core.errors import DataError, TableError, expect
from probclass_core.estimation.statistics import Statistics, refine
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.io.filters import Where, parse_where
from probclass_core.io.memory import ReaderTable
from probclass_core.io.missing_columns import MissingColumns
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.io.selection import Selection
from probclass_core.io.table import ColumnChanges
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import LOAD_HINT, Model, finalize
from probclass_core.scoring.batch import PosteriorFormat
from probclass_core.scoring.partition import score_partitions
from probclass_core.scoring.plan import (
    Overwrite,
    PlannedPartition,
    PriorOption,
    SchemaPolicy,
    ScoringPlanner,
)
from probclass_core.scoring.reports import (
    PARTITION_FAILURES,
    PartitionFailure,
    PartitionOutcome,
    ScoreReport,
    raise_failed,
)
from probclass_core.spec.model_spec import SPEC_HINT, ModelSpec
from probclass_core.store.statistics_cache import CacheOption
from probclass_core.training.rows import TrainingRows, spec_or_auto
from probclass_core.training.shards import Shard

log = logging.getLogger(__name__)


@draws_progress("training")
def fit(
    source: Any,
    spec: ModelSpec | None = None,
    *,
    label: str | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
    cache: CacheOption = None,
) -> Model:
    """Train a model: ``finalize(merge(map(summarize, fragments)))``.

    If an estimator needs another pass over the rows, they are summarized again, see `refine`;
    ``model.training["passes"]`` is the number of passes. If the rows do not suffice for an
    estimate, another one is taken, see `ModelSpec.on_scarce`; ``model.training["notes"]`` says so
    in sentences, which are also logged as warnings.

    Args:
        source: path, table, frame, reader or dataset; see `open_table`.
        spec: the model.
        label: the class column, instead of a spec: the model is that of `ModelSpec.auto`.
        partition: partition to read, such as ``{"month": "2014-01"}``; by default all.
        where: rows to read, such as ``"month >= '2013-01' and wind in NW, SE"``, or a list of
            conditions ``("month", ">=", "2013-01")``, or an Arrow expression; by default all.
        engine: engine that reads and summarizes: ``"threads"`` (the default), ``"processes"``,
            ``"spark"``, an executor or a Spark session; see `EngineOption`. The model does not
            depend on it.
        workers: number of workers of the engine; by default one per processor. The model does not
            depend on it.
        progress: True for a bar, or a function that progress is reported to; see `ProgressOption`.
        cache: model store, or its URI, in which the statistics of fragments are cached: fragments
            in the cache are not read, the others are read and cached. `True` is the store that the
            environment variable ``PROBCLASS_STORE`` names. The model does not depend on it;
            ``model.training["cache"]`` has the number of fragments and how many were reused.

    Raises:
        SpecError: if neither or both of spec and label are given, the spec does not fit the columns
            of the table, or `cache` is `True` and no store is named.
        DataError: if the model cannot be estimated from the rows, or another pass is needed over a
            reader, which can be read only once.
        TableError: if the table or partition does not exist or cannot be read.
        PluginError: if an estimator or engine is unknown.
        StoreError: if the cache cannot be opened.
    """
    table = open_table(source)
    reading: dict[str, Any] = {"partition": partition, "where": where, "cache": cache}
    with open_engine(engine, workers) as opened:
        spec = spec_or_auto(spec, label, table, engine=opened, progress=progress, **reading)
        rows = TrainingRows(table, spec, **reading)
        statistics = rows.summarize(spec, opened, progress)
        while (refined := refine(statistics, passes=rows.passes)) is not None:
            statistics = rows.summarize(refined, opened, progress)
    if statistics.rows == 0 and (conditions := as_json(parse_where(where))):
        raise DataError(f"there is nothing to train on: no row matches {conditions}.")
    model = finalize(statistics, early=True)
    for note in model.training.get("notes", ()):
        log.warning("%s", note)
    return dataclasses.replace(model, spec=spec, training={**model.training, **rows.provenance})


@draws_progress("summarizing")
def summarize(
    source: Any,
    spec: ModelSpec,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
    cache: CacheOption = None,
    shard: Shard | str | None = None,
) -> Statistics:
    """Compute the sufficient statistics of a table: the first step of training.

    Args:
        source: as for `fit`, like all other arguments.
        spec: the model.
        partition: partition to read.
        where: rows to read.
        engine: engine that reads and summarizes.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.
        cache: model store in which the statistics of fragments are cached.
        shard: shard to read, as `plan_shards` cut it; by default the whole table.

    Raises:
        SpecError, DataError, TableError, PluginError, StoreError: as `fit`.
    """
    expect(spec, ModelSpec, SPEC_HINT)
    part = None if shard is None else Shard.parse(shard)
    rows = TrainingRows(source, spec, partition=partition, where=where, cache=cache)
    if part is not None:
        rows.plan = part.slice(rows.plan)
    with open_engine(engine, workers) as opened:
        return rows.summarize(spec, opened, progress)


@draws_progress("summarizing")
def compare(
    source: Any,
    specs: Sequence[ModelSpec] | Mapping[str, ModelSpec] | None = None,
    *,
    names: Sequence[str] | None = None,
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
        specs: at least two models of these rows: a list, or a mapping by model name.
        names: names for a list of models, by default M1, M2, …
        prior: prior probability of each model, up to a common factor; equal by default.
        partition: partition to read, as for `fit`, like the arguments that follow.
        where: rows to read.
        engine: engine that reads and summarizes.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.
        cache: model store in which the statistics of fragments are cached.

    Raises:
        SpecError: if there are fewer than two models, names or prior do not fit, or the models have
            different columns.
        DataError: if the statistics are of different rows or of none, an evidence has no closed
            form, or the source is a reader, which can be read only once.
        NotSupportedError: if an estimator has no evidence.
        TableError: if the table or partition does not exist or cannot be read.
    """
    if specs is None:
        return compare_statistics(source, names=names, prior=prior)
    named = named_models(specs, names, ModelSpec, SPEC_HINT)
    table = open_table(source)
    if isinstance(table, ReaderTable):
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


@draws_progress("evaluating")
def evaluate(
    model: Model,
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
    """Evaluate a model on labeled rows.

    Args:
        model: model to evaluate.
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
    expect(model, Model, LOAD_HINT)
    evaluator = Evaluator(model, decision)
    selection = Selection(open_table(source), partition, where)
    plan = selection.plan((model.spec.label,), model.spec.features, missing_columns)
    counter = RowCounter(progress, plan.rows)
    with open_engine(engine, workers) as opened:
        for measured in evaluator.measure_plan(plan, opened):
            counter.add(measured.rows)
            evaluator.add(measured)
    return evaluator.result()


@draws_progress("measuring")
def health(
    model: Model,
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
        model: model that would score the rows.
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
    expect(model, Model, LOAD_HINT)
    model.compile_rule(decision)
    selection = Selection(open_table(source), partition, where)
    plan = selection.plan((), model.spec.features, missing_columns)
    meter = HealthMeter(model)
    with open_engine(engine, workers) as opened:
        sums = meter.measure_plan(plan, decision, opened, RowCounter(progress, plan.rows))
    if not sums.rows:
        raise DataError("there are no rows to measure: the source is empty, or no row matches.")
    return meter.health(sums)


@draws_progress("scoring")
def score(
    model: Model,
    source: Any,
    sink: str | Path | TableRef,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    columns: str | Sequence[str] | None = None,
    posterior: PosteriorFormat = "columns",
    decision: DecisionOption = "map",
    prior: PriorOption = None,
    overwrite: Overwrite = "partition",
    run_id: str | None = None,
    watch: WatchOption = True,
    missing_columns: MissingColumns = "error",
    schema: SchemaPolicy = "evolve",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> ScoreReport:
    """Score a table into another, with one atomic commit per partition.

    The sink is created if it does not exist. A partition is replaced as a whole, or appended to; a
    partition that was made from the same model, input and configuration is left as it is. Readers
    see the old rows or the new ones at every instant, never a part of them. A partition that cannot
    be read or scored fails alone: the others are committed, and then the error names those that
    failed. The next call takes up only these.

    Args:
        model: model to score with.
        source: as for `fit`.
        sink: directory or URI of the scored table, or one local ``.parquet`` or ``.csv`` file; a
            `TableRef` if its format or storage needs options.
        partition: partition to read, written as this partition of the sink; by default each
            partition of the source in turn, or the whole of an unpartitioned one.
        where: rows to score; partitions without any are left as they are.
        columns: passthrough column of the scored table, or several; all by default.
        posterior: ``"columns"`` for one column per class, ``"list"`` for one list column; see
            `BatchScorer`.
        decision: decision rule; see `DecisionRule`.
        prior: shares of the classes to have the posteriors under, instead of those of the training:
            a table ``{class: share}``, or ``"estimated"`` to estimate those of each partition by
            EM, which reads its rows twice; see `analysis.health.label_shift`. It changes no log
            p(x).
        overwrite: ``"partition"`` replaces the partition; ``"append"`` adds to it, once for each
            model, input and configuration; ``"never"`` refuses a partition that exists, unless it
            was made from the same, before anything is written.
        run_id: name of the run, for the commit record.
        watch: what to check of each partition before its commit; see `Watch`. True warns by the
            default thresholds, a mapping is that of `Watch.from_dict`. Health and verdicts are
            recorded with the commit, whose id does not depend on them; False records nothing.
        missing_columns: what to do about a column of the model that no file has: ``"error"``, or
            read it as null, with a warning (``"warn"``) or without (``"allow"``). A column that
            only some files have is null in the others, with a warning unless ``"allow"``.
        schema: what to do if the sink lacks a passthrough column: ``"evolve"`` adds it, null in the
            partitions that are not scored now, and leaves a column of the sink that the rows lack
            null, with a warning; ``"same"`` is an error for both. No column is dropped, and none
            gets another type.
        engine: engine that scores; as for `fit`. A worker of another process scores a partition, or
            a part of a large one, and this process alone commits; the files are the same byte for
            byte.
        workers: number of workers of the engine; by default one per processor.
        progress: True for a bar, or a function that progress is reported to; see `ProgressOption`.

    Raises:
        SpecError: if a passthrough column has the name of a scored one, an argument is not one of
            its choices, or the decision rule or the prior does not fit the model.
        NotSupportedError: if the rule needs a density that a block knows only up to a term.
        PartitionError: if some of several partitions failed, or all for different reasons; its
            ``report`` is the `ScoreReport`, with the failed ones.
        DataError: if a column is missing or has values that it must not have.
        HealthError: if a partition does not pass a check that stops its commit.
        TableError: if source or sink cannot be read or written, the sink has other columns, or the
            source has no rows, or rows outside the partition.
    """
    began = time.monotonic()
    checks = Watch.parse(watch)
    planner = ScoringPlanner.open(
        model,
        source,
        sink,
        where,
        columns=columns,
        posterior=posterior,
        decision=decision,
        overwrite=overwrite,
        run_id=run_id,
        prior=prior,
        missing_columns=missing_columns,
        schema=schema,
    )
    partitions: Sequence[Mapping[str, Any]] = [partition or {}]
    if not partition and planner.table.partition_columns:
        partitions = planner.table.partitions(planner.where)
    planned: list[tuple[PlannedPartition, Mapping[str, Any] | None]] = []
    failures: list[tuple[Mapping[str, Any], PartitionFailure]] = []
    for values in partitions:
        try:
            one = planner.plan_partition(values)
            planned.append((one, one.committed))
        except PARTITION_FAILURES as failure:
            failures.append((values, failure))
    missing = [one for one, record in planned if record is None]
    checked = missing if overwrite == "never" else missing[:1]
    changes = [one.check_sink([each for each, _ in planned]) for one in checked]
    committed = [one for one, record in planned if record is not None]
    counter = planner.row_counter(progress, missing, committed)
    with open_engine(engine, workers) as opened:
        results = deque(score_partitions(model, missing, opened, counter, watch=checks))
    scored: list[Mapping[str, Any]] = []
    commits: list[Mapping[str, Any]] = []
    for one, before in planned:
        result = results.popleft() if before is None else before
        if isinstance(result, PARTITION_FAILURES):
            failures.append((one.sink.partition, result))
        elif result["rows"]:
            scored.append(one.sink.partition)
            commits.append(one.brief_commit(result, skipped=before is not None))
    commit_ids = [commit["commit_id"] for commit in commits]
    report = ScoreReport(
        rows=sum(int(commit["rows"]) for commit in commits),
        partitions=[values for values in scored if values],
        commits=commits,
        failed=[PartitionOutcome.of_failure(*each) for each in failures],
        skipped=sum(commit["skipped"] for commit in commits),
        model_id=model.id,
        uri=planner.sink.uri,
        commit_id=commit_ids[0] if len(commit_ids) == 1 else json_digest(commit_ids),
        seconds=time.monotonic() - began,
        changes=changes[0] if changes else ColumnChanges(),
    )
    if failures:
        raise_failed(report, failures[0][1], len(partitions))
    if not commits:
        raise TableError(f"{planner.table.uri or 'the source'} has no rows to score.")
    return report
