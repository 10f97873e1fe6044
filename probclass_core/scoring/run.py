"""One scoring of a table: compare its partitions with the sink, score those that differ.

Each partition of the source is compared with the commit record of the same partition of the sink,
and each is committed on its own. So it does not matter how often this runs, what woke it, or where
an earlier run was stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.execution.engine import Engine
from probclass_core.execution.progress import ProgressOption
from probclass_core.io.open import open_table
from probclass_core.io.sink import ColumnChanges, TypedPartition
from probclass_core.scoring.partition import score_partitions
from probclass_core.scoring.plan import PlannedPartition, ScoringPlanner
from probclass_core.scoring.reports import PARTITION_FAILURES, PartitionFailure, PartitionOutcome
from probclass_core.scoring.selection import Key, SelectedPartitions, key_as, key_of

_NAMES_IN_MESSAGE = 5


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

    @property
    def partitions(self) -> Sequence[PartitionOutcome]:
        """The outcomes in the order of a report."""
        return [*self.outcomes.values(), *self.orphaned.values()]

    @property
    def commits(self) -> Sequence[Mapping[str, Any]]:
        """The commits of scored and unchanged partitions, in this order."""
        return [self._commits[key] for key in self.outcomes if key in self._commits]

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
        counter = self._planner.row_counter(progress, pending.values(), self._rows_unchanged)
        results = score_partitions(self._planner, [*pending.values()], engine, counter)
        for (key, planned), result in zip(pending.items(), results, strict=True):
            before = self.outcomes[key]
            if isinstance(result, PARTITION_FAILURES):
                self._fail(key, before.partition, result)
            elif result["rows"] == 0:
                self._empty(key, before.partition, exists=before.reasons != ("missing",))
            else:
                self._commits[key] = planned.brief_commit(result, skipped=False)
                rows, commit_id = result["rows"], planned.commit_id
                self.outcomes[key] = replace(
                    before, outcome="scored", rows=rows, commit_id=commit_id
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
        return PartitionOutcome.of_failure(values, failure)
