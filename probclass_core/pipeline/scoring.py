"""Score a table into another, partition by partition."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import plain_json
from probclass_core.errors import SpecError, TableError
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.references import TableRef
from probclass_core.scoring.options import ScoringOption, ScoringOptions
from probclass_core.scoring.plan import ScoringPlanner
from probclass_core.scoring.recording import StoredModelOption, load_scorer, record_scored
from probclass_core.scoring.reports import ScoreReport
from probclass_core.scoring.run import ScoringRun
from probclass_core.scoring.selection import PartitionOption, Partitions, SelectedPartitions
from probclass_core.store.model_store import ModelStore
from probclass_core.store.references import ModelVersion
from probclass_core.store.scorings import unscored

Deleted = Literal["keep", "remove", "fail"]
"""What happens to partitions of the sink that are gone from the source: keep them and report them,
remove them, or fail before anything is written."""


@checks_arguments
@draws_progress("scoring")
def score(
    model: StoredModelOption,
    source: Any,
    sink: str | Path | TableRef | None = None,
    *,
    partition: PartitionOption = None,
    where: Where = None,
    options: ScoringOption = None,
    deleted: Deleted = "keep",
    dry_run: bool = False,
    store: ModelStore | None = None,
    provenance: Mapping[str, Any] | None = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> ScoreReport:
    """Score the partitions of a table that are missing in another or stale there.

    A partition is stale if its input, the model or the rule (conditions, columns, decision) changed
    since it was scored. Each is committed on its own: readers see the old rows or the new ones at
    every instant, never a part of them. One that cannot be read or scored fails alone: the others
    are committed, and then the error names those that failed. A call that was stopped is completed
    by the next one. The sink is created if it does not exist.

    Args:
        model: model to score with, or a fitted `ProbClassifier`; with `store`, a version in it or a
            reference to one.
        source: as for `fit`.
        sink: directory or URI of the scored table, or one local ``.parquet`` or ``.csv`` file; a
            `TableRef` if its format or storage needs options. It is required: for predictions in
            memory, see `Model.predict_table`.
        partition: one partition by its values, which must have rows and is written as this
            partition of the sink, or by the values of some partition columns all partitions that
            have them; or `Partitions`, conditions on partition columns or a list of partitions. By
            default all of the source, or the whole of an unpartitioned one.
        where: rows to score.
        options: what is written for each row, what is checked, how the sink may change; see
            `ScoringOptions`, or a mapping of its fields.
        deleted: partitions of the sink that are gone from the source, or have no rows there any
            more: ``"keep"`` and report them, ``"remove"`` each in one step, or ``"fail"`` before
            anything is written. With ``overwrite="append"`` the sink has rows of other sources,
            too, and they are not looked for.
        dry_run: find out what would be done, and write nothing.
        store: store in which to record what was scored; that it cannot be written to is a warning.
        provenance: plain JSON values to record with each commit and in the store, such as a run id.
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
            ``report`` is the `ScoreReport`.
        DataError: if a column is missing or has values that it must not have.
        HealthError: if a partition does not pass a check that stops its commit.
        TableError: if source or sink cannot be read or written, the sink has other columns, the
            source has no rows, or rows outside the partition, or if partitions are gone and
            `deleted` is ``"fail"``.
    """
    if sink is None:
        raise SpecError(
            "score writes its rows to a table; name it, such as score(model, source, "
            "'scored.parquet'), or get them in memory by model.predict_table(rows)."
        )
    began = time.monotonic()
    facts = plain_json(provenance or {}, "provenance")
    options = ScoringOptions.parse(options)
    if options.overwrite == "append" and deleted != "keep":
        raise SpecError(
            f"deleted={deleted!r} compares the sink with one source, and overwrite='append' adds "
            "rows of several; leave one of them out."
        )
    scorer, version = load_scorer(model, store)
    planner = ScoringPlanner.open(scorer, source, sink, where, options, facts)
    run = ScoringRun(planner)
    one, chosen = _one_or_several(partition, planner)
    if one is not None:
        run.compare(one)
        required = [one]
    else:
        ids = None if chosen.scored_by is None else {_id(store, ref) for ref in chosen.scored_by}
        failed = _failed_before(store, version, planner.sink.uri) if chosen.catch_up else []
        selected = SelectedPartitions(
            planner.table, planner.sink, chosen, planner.where, ids, failed
        )
        run.compare_all(selected)
        required = selected.required
        if isinstance(partition, Mapping):
            required = selected.named or []
    if deleted == "fail":
        run.refuse_orphaned()
    if not dry_run:
        with open_engine(engine, workers) as opened:
            run.score(opened, progress, chosen.limit)
        if deleted == "remove":
            run.remove_orphaned()
    for each in required:
        run.require_rows(each)
    if (
        one is None
        and chosen == Partitions()
        and all(at.outcome == "empty" for at in run.partitions)
    ):
        raise TableError(f"{planner.table.uri or 'the source'} has no rows to score.")
    report = ScoreReport(
        partitions=run.partitions,
        commits=run.commits,
        model_id=planner.model.id,
        uri=planner.sink.uri,
        seconds=time.monotonic() - began,
        dry_run=dry_run,
        changes=run.changes,
        selected=chosen,
    )
    record_scored(store, version, report, facts)
    report.raise_failed(run.first_failure)
    return report


def _one_or_several(
    partition: PartitionOption, planner: ScoringPlanner
) -> tuple[Mapping[str, Any] | None, Partitions]:
    """The one partition to score without listing any, or None; and which ones to consider."""
    if partition is not None and not isinstance(partition, Mapping):
        return None, Partitions.parse(partition)
    values, columns = partition or {}, {*planner.table.partition_columns}
    if values.keys() < columns:  # such as a day of a table by region and day
        return None, Partitions([values] if values else None)
    return values, Partitions()


def _failed_before(
    store: ModelStore | None, version: ModelVersion | None, sink: str
) -> list[Mapping[str, Any]]:
    """The partitions that earlier runs could not score, and that were not scored since."""
    if store is None or version is None:
        return []
    stopped = unscored(store.scorings(version.model))
    return [one["partition"] for record, one in stopped if record.sink == sink]


def _id(store: ModelStore | None, ref: str) -> str:
    """The content id of a version.

    Raises:
        SpecError: if it is a reference, and no store is given.
    """
    if "@" not in ref:
        return ref
    if store is None:
        raise SpecError(f"scored_by {ref!r} is a reference: give the store that has it, or its id.")
    return store.resolve(ref).id
