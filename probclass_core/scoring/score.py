"""Score a table into another: compare its partitions with the sink, score those that differ.

Each partition of the source is compared with the commit record of the same partition of the sink,
and each is committed on its own. So it does not matter how often this runs, what woke it, or where
an earlier run was stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import plain_json
from probclass_core.errors import SpecError, StoreError, TableError, TableMismatchError
from probclass_core.execution.engine import Engine, EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.io.filters import Where, partition_text
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef, recorded_uri
from probclass_core.io.sink import ColumnChanges, TypedPartition
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.scoring.options import ScoringOption, ScoringOptions
from probclass_core.scoring.partition import score_partitions
from probclass_core.scoring.plan import PlannedPartition, ScoringPlanner
from probclass_core.scoring.reports import (
    PARTITION_FAILURES,
    PartitionFailure,
    PartitionOutcome,
    ScoreReport,
)
from probclass_core.scoring.selection import (
    Key,
    PartitionOption,
    Partitions,
    SelectedPartitions,
    key_as,
    key_of,
)
from probclass_core.store.model_store import ModelStore
from probclass_core.store.records import ModelVersion
from probclass_core.store.results import unscored

log = logging.getLogger(__name__)

_NAMES_IN_MESSAGE = 5

StoredModelOption: TypeAlias = ModelOption | ModelVersion | str
"""A model; with a store, a version in it or a reference to one."""

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
        engine: engine that scores; as for `fit`. A worker of another process scores a partition,
            and this process alone commits; the files are the same byte for byte.
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
    planner = ScoringPlanner(scorer, source, sink, where, options, facts)
    run = ScoringRun(planner)
    one, chosen = _one_or_several(partition, planner.table.partition_columns)
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
    if deleted == "fail":
        run.refuse_orphaned()
    if not dry_run:
        with open_engine(engine, workers) as opened:
            run.score(opened, progress, chosen.limit)
        if deleted == "remove":
            run.remove_orphaned()
    for each in required:
        run.require_rows(each)
    report = run.report(time.monotonic() - began, chosen, dry_run=dry_run)
    is_empty = all(each.outcome == "empty" for each in run.outcomes.values())
    part = partition_text(partition) if isinstance(partition, Mapping) else ""
    if one is None and is_empty and (part or (chosen == Partitions() and not run.orphaned)):
        of = f" of {part}" if part else ""
        raise TableError(f"{planner.table.uri or 'the source'} has no rows{of} to score.")
    record_scored(store, version, report, facts)
    report.raise_failed(run.first_failure)
    return report


def _one_or_several(
    partition: PartitionOption, columns: Sequence[str]
) -> tuple[Mapping[str, Any] | None, Partitions]:
    """The one partition to score without listing any, or None; and which ones to consider."""
    if partition is not None and not isinstance(partition, Mapping):
        return None, Partitions.parse(partition)
    values = partition or {}
    if values.keys() < {*columns}:  # such as a day of a table by region and day
        return None, Partitions([values] if values else None)
    return values, Partitions()


def _failed_before(
    store: ModelStore | None, version: ModelVersion | None, sink: str
) -> list[Mapping[str, Any]]:
    """The partitions that earlier runs could not score, and that were not scored since."""
    if store is None or version is None:
        return []
    stopped = unscored(store.scorings(version.model))
    uri = recorded_uri(sink)
    return [one["partition"] for record, one in stopped if recorded_uri(record.sink) == uri]


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


class ScoringRun:
    """The partitions of one call of `score`, and what became of them.

    Attributes:
        outcomes: outcome of each partition of the source.
        orphaned: outcome of each partition that has rows in the sink only.
        changes: how the columns of the sink differ from those that are written.
        first_failure: error of the first partition that failed; None if none did.

    Args:
        planner: planner of the partitions.
    """

    def __init__(self, planner: ScoringPlanner) -> None:
        self._planner = planner
        self.outcomes: dict[Key, PartitionOutcome] = {}
        self.orphaned: dict[Key, PartitionOutcome] = {}
        self.changes = ColumnChanges()
        self.first_failure: PartitionFailure | None = None
        self._pending: dict[Key, PlannedPartition] = {}
        self._commits: dict[Key, Mapping[str, Any]] = {}
        self._in_sink: dict[Key, TypedPartition] = {}
        self._sink_exists = False
        self._rows_unchanged = 0

    def report(self, seconds: float, selected: Partitions, *, dry_run: bool) -> ScoreReport:
        """What became of the partitions.

        Args:
            seconds: wall time.
            selected: the partitions that were considered.
            dry_run: whether nothing was written because that was asked for.
        """
        return ScoreReport(
            [*self.outcomes.values(), *self.orphaned.values()],
            [self._commits[key] for key in self.outcomes if key in self._commits],
            self._planner.model.id,
            self._planner.sink.uri,
            seconds,
            dry_run,
            self.changes,
            selected,
        )

    def compare(self, values: Mapping[str, Any]) -> None:
        """Compare a partition of the source with that of the sink; nothing is written."""
        key = key_of(values)
        try:
            planned = self._planner.plan_partition(values)
            records = planned.commit_records()
            exists = bool(records) or planned.sink.exists
        except PARTITION_FAILURES as failure:
            self._fail(key, values, failure)
            return
        self._sink_exists |= exists
        values = planned.sink.partition
        record = next((one for one in records if planned.committed_by(one)), None)
        if planned.rows == 0:
            self._empty(key, values, exists=exists)
        elif record is not None:
            self._rows_unchanged += planned.rows or 0
            self._commits[key] = planned.brief_commit(record, skipped=True)
            rows, commit_id = record["rows"], record["commit_id"]
            self.outcomes[key] = PartitionOutcome(values, "unchanged", (), rows, commit_id)
        else:
            reasons: Sequence[str] = ("unrecorded",) if exists else ("missing",)
            if records:
                reasons = planned.changes_since(records[-1])
            self._pending[key] = planned
            self.outcomes[key] = PartitionOutcome(values, "pending", reasons, planned.rows)

    def compare_all(self, selected: SelectedPartitions) -> None:
        """Compare the selected partitions of the source and of the sink."""
        source, with_rows = selected.in_source(), selected.with_rows()
        for values in source:
            if with_rows is None or key_of(values) in with_rows:
                self.compare(values)
        self._find_orphaned(source, selected)
        for values in selected.named or ():
            if (key := key_of(values)) not in self.orphaned:
                self.outcomes.setdefault(key, PartitionOutcome(values, "empty"))

    def score(self, engine: Engine, progress: ProgressOption, limit: int | None = None) -> None:
        """Score and commit the pending partitions.

        Args:
            engine: engine that runs the work.
            progress: function that progress is reported to.
            limit: largest number of partitions to score; the others stay pending.

        Raises:
            TableError: if the sink has other columns, or refuses to replace a partition; nothing
                is written then.
        """
        pending = dict([*self._pending.items()][:limit])
        everything = [*self._pending.values()]
        for number, planned in enumerate(pending.values()):
            planned.check_absent()
            if number == 0:
                self.changes = planned.check_sink(everything)
        done, rows = self._rows_unchanged, [one.rows for one in pending.values()]
        counter = RowCounter(
            progress, None if None in rows else done + sum(one or 0 for one in rows)
        )
        if done:
            counter.add(done)
        results = score_partitions(self._planner, [*pending.values()], engine, counter)
        for (key, planned), result in zip(pending.items(), results, strict=True):
            before = self.outcomes[key]
            if isinstance(result, PARTITION_FAILURES):
                self._fail(key, before.partition, result)
            elif result["rows"] == 0:
                self._empty(key, before.partition, exists=before.reasons != ("missing",))
            else:
                self._commits[key] = planned.brief_commit(result, skipped=False)
                self.outcomes[key] = replace(
                    before, outcome="scored", rows=result["rows"], commit_id=planned.commit_id
                )

    def require_rows(self, partition: Mapping[str, Any]) -> None:
        """Let a partition that was asked for by its values fail if it has no rows."""
        key = key_of(partition)
        outcome = self.outcomes.get(key) or self.orphaned.pop(key)
        if outcome.outcome in ("empty", "orphaned"):
            uri = self._planner.table.uri or "the source"
            of = f" of {outcome}" if partition else ""
            self._fail(key, partition, TableError(f"{uri} has no rows{of} to score."))

    def refuse_orphaned(self) -> None:
        """Refuse partitions of the sink that are gone from the source.

        Raises:
            TableMismatchError: if there are some.
        """
        if self.orphaned:
            names = [str(one) for one in self.orphaned.values()]
            more = len(names) - _NAMES_IN_MESSAGE
            raise TableMismatchError(
                f"{len(names)} partitions of {self._planner.sink.uri} are gone from "
                f"{self._planner.table.uri}: {', '.join(names[:_NAMES_IN_MESSAGE])}"
                f"{f' and {more} more' if more > 0 else ''}; nothing was written. Score with "
                "deleted='remove' or 'keep'."
            )

    def remove_orphaned(self) -> None:
        """Remove the partitions of the sink that are gone from the source, one after another."""
        for key, one in self.orphaned.items():
            try:
                sink = self._planner.open_sink(self._in_sink[key])
                if not sink.exists:  # another writer named its folder, such as month=02
                    raise TableMismatchError(
                        f"{sink.location} does not exist, so the orphaned partition has a folder "
                        "of another name; remove that folder, or score with deleted='keep'."
                    )
                sink.remove()
                self.orphaned[key] = replace(one, outcome="removed")
            except PARTITION_FAILURES as failure:
                self.orphaned[key] = self._failed(one.partition, failure)

    def _find_orphaned(
        self, source: Sequence[Mapping[str, Any]], selected: SelectedPartitions
    ) -> None:
        if not selected.columns or self._planner.options.overwrite == "append":
            return  # rows that are appended come from several sources
        try:
            sink = open_table(self._planner.sink)
            listed = selected.in_sink(sink)
        except TableError:
            if self._sink_exists:
                raise
            return  # there is no sink yet
        known = {key_as(sink, one) for one in source} if listed else set()
        for values in listed:
            key = key_of(values)
            if key not in known:
                self.orphaned[key] = PartitionOutcome(selected.typed(values), "orphaned")
                self._in_sink[key] = TypedPartition(values, sink.schema)

    def _empty(self, key: Key, values: Mapping[str, Any], *, exists: bool) -> None:
        """Note a partition without rows, which is orphaned if the sink has rows of it."""
        if exists:
            self.outcomes.pop(key, None)
            self.orphaned[key] = PartitionOutcome(values, "orphaned")
            self._in_sink[key] = TypedPartition(values, self._planner.table.schema)
        else:
            self.outcomes[key] = PartitionOutcome(values, "empty")

    def _fail(self, key: Key, values: Mapping[str, Any], failure: PartitionFailure) -> None:
        self.outcomes[key] = self._failed(values, failure)

    def _failed(self, values: Mapping[str, Any], failure: PartitionFailure) -> PartitionOutcome:
        self.first_failure = self.first_failure or failure
        transient = failure.is_transient
        return PartitionOutcome(values, "failed", error=str(failure), is_transient=transient)


def load_scorer(
    model: StoredModelOption, store: ModelStore | None
) -> tuple[Model, ModelVersion | None]:
    """The model, and its version if it is in a store.

    Raises:
        SpecError: if it is a model without a name although a store is given, or no model.
        StoreError: if the version does not exist or cannot be read.
    """
    if store is None:
        return as_model(cast("ModelOption", model)), None
    if not isinstance(model, (ModelVersion, str)):
        raise SpecError(
            "with store, model must be a version or a reference such as 'air@champion', so that "
            f"the scoring is recorded with it, got a {type(model).__name__}."
        )
    version = store.resolve(model)
    return store.load(version), version


def record_scored(
    store: ModelStore | None,
    version: ModelVersion | None,
    report: ScoreReport,
    provenance: Mapping[str, Any],
) -> None:
    """Record what was scored with a version of a store, if there is one."""
    if store is None or version is None or report.dry_run:
        return
    try:
        store.record_scoring(version, report, provenance=provenance)
    except StoreError as error:  # the rows are committed, and the store may be read-only
        log.warning("scored, but not recorded in the store: %s", error)
