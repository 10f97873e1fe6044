"""Score a table into another, partition by partition."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probclass_core.analysis.distributions.watch import Watch, WatchOption
from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import json_digest
from probclass_core.errors import SpecError, TableError
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.missing_columns import MissingColumns
from probclass_core.io.references import TableRef
from probclass_core.io.sink import ColumnChanges
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import ModelOption
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


@checks_arguments
@draws_progress("scoring")
def score(
    model: ModelOption,
    source: Any,
    sink: str | Path | TableRef | None = None,
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
        model: model to score with, or a fitted `ProbClassifier`.
        source: as for `fit`.
        sink: directory or URI of the scored table, or one local ``.parquet`` or ``.csv`` file; a
            `TableRef` if its format or storage needs options. It is required: for predictions in
            memory, see `Model.predict_table`.
        partition: partition to read, written as this partition of the sink; by default each
            partition of the source in turn, or the whole of an unpartitioned one.
        where: rows to score; partitions without any are left as they are.
        columns: passthrough column of the scored table, or several; by default all except an
            index without a name that pandas wrote.
        posterior: ``"columns"`` for one column per class, ``"list"`` for one list column; see
            `BatchScorer`.
        decision: decision rule; see `DecisionRule`.
        prior: shares of the classes to have the posteriors under, instead of those of the training:
            a table ``{class: share}``, or ``"estimated"`` to estimate those of each partition by
            EM, which reads its rows twice; see `analysis.distributions.label_shift`. It changes no
            log p(x).
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
            its choices, no sink is given, or the decision rule or the prior does not fit the model.
        NotSupportedError: if the rule needs a density that a block knows only up to a term.
        PartitionError: if some of several partitions failed, or all for different reasons; its
            ``report`` is the `ScoreReport`, with the failed ones.
        DataError: if a column is missing or has values that it must not have.
        HealthError: if a partition does not pass a check that stops its commit.
        TableError: if source or sink cannot be read or written, the sink has other columns, or the
            source has no rows, or rows outside the partition.
    """
    if sink is None:
        raise SpecError(
            "score writes its rows to a table; name it, such as score(model, source, "
            "'scored.parquet'), or get them in memory by model.predict_table(rows)."
        )
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
    partitions: Sequence[Mapping[str, Any]] = [{} if partition is None else partition]
    if not partitions[0] and planner.table.partition_columns:
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
        results = deque(score_partitions(planner.model, missing, opened, counter, watch=checks))
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
        model_id=planner.model.id,
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
