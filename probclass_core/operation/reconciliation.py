"""Bring a scored table up to date: score what is missing or stale, and see what is gone.

Each partition of the source is compared with the commit record of the same partition of the sink.
Only those that differ are scored, and each is committed on its own. So it does not matter how often
this runs, what woke it, or where an earlier run was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard, get_args

import pyarrow.compute as pc

from probclass_core.analysis.distributions.watch import Watch, WatchOption
from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import as_json
from probclass_core.arrow.display import Part, Report, TablePart
from probclass_core.errors import (
    SpecError,
    TableError,
    TableMismatchError,
    one_of,
)
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Condition, Where, parse_where, typed_partition
from probclass_core.io.missing_columns import MissingColumns
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.io.sink import ColumnChanges, TypedPartition
from probclass_core.io.table import Source, balanced_parts
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import ModelOption
from probclass_core.scoring.batch import PosteriorFormat
from probclass_core.scoring.commits import commits
from probclass_core.scoring.partition import score_partitions
from probclass_core.scoring.plan import PlannedPartition, PriorOption, SchemaPolicy, ScoringPlanner
from probclass_core.scoring.reports import (
    PARTITION_FAILURES,
    Outcome,
    PartitionFailure,
    PartitionOutcome,
    raise_failed,
    verdict_sentences,
    verdicts_of,
)
from probclass_core.spec.model_spec import category_text

Deleted = Literal["keep", "remove", "fail"]
"""What happens to partitions of the sink that are gone from the source: keep them and report them,
remove them, or fail before anything is written."""

Missing = Literal["skip", "fail"]
"""What happens to a partition that was asked for by name and does not exist or has no rows."""

Partitions: TypeAlias = Where | Sequence[Mapping[str, Any]]
"""Conditions on partition columns, or a list of partitions such as ``[{"month": "2014-01"}]``."""

_NAMES_IN_MESSAGE = 5


@dataclass(frozen=True)
class PartitionRange:
    """Consecutive partitions in the order of their values, such as one of several batches.

    Attributes:
        first: values of the partition columns of the first partition.
        last: those of the last partition, which is included.
    """

    first: Mapping[str, Any]
    last: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The range as plain JSON values; the arguments of a `PartitionRange`."""
        return {"first": as_json(self.first), "last": as_json(self.last)}


@dataclass(frozen=True, repr=False)
class ReconcileReport(Report):
    """Result of `reconcile`.

    Attributes:
        partitions: what was found and done for each partition: those of the source in its order,
            then those of the sink that are gone from the source.
        commits: commits of the scored and unchanged partitions, for `ModelStore.record_scoring`;
            see `ScoreReport`.
        dry_run: whether nothing was written because that was asked for.
        model_id: content id of the model.
        uri: path or URI of the sink.
        seconds: wall time.
        changes: columns that the sink gained, and columns of the sink that the rows lack.
    """

    partitions: Sequence[PartitionOutcome]
    commits: Sequence[Mapping[str, Any]]
    dry_run: bool
    model_id: str
    uri: str
    seconds: float
    changes: ColumnChanges = field(default_factory=ColumnChanges)

    @property
    def scored(self) -> list[PartitionOutcome]:
        """The partitions that were scored now."""
        return self._with("scored")

    @property
    def unchanged(self) -> list[PartitionOutcome]:
        """The partitions that were scored before from the same input, model and rule."""
        return self._with("unchanged")

    @property
    def pending(self) -> list[PartitionOutcome]:
        """The partitions that are to be scored: all in a dry run, else those beyond the limit."""
        return self._with("pending")

    @property
    def orphaned(self) -> list[PartitionOutcome]:
        """The partitions of the sink that are gone from the source and were kept."""
        return self._with("orphaned")

    @property
    def removed(self) -> list[PartitionOutcome]:
        """The partitions that were removed from the sink."""
        return self._with("removed")

    @property
    def empty(self) -> list[PartitionOutcome]:
        """The partitions that have no rows or, if asked for by name, do not exist."""
        return self._with("empty")

    @property
    def failed(self) -> list[PartitionOutcome]:
        """The partitions that could not be scored; `error` says why."""
        return self._with("failed")

    @property
    def rows(self) -> int:
        """Number of rows that were scored now."""
        return sum(one.rows or 0 for one in self.scored)

    @property
    def warnings(self) -> list[str]:
        """The checks that partitions scored now did not pass, and columns that became null."""
        scored = [one for one in self.commits if not one["skipped"]]
        return [*self.changes.warnings, *verdict_sentences(verdicts_of(scored))]

    @property
    def counts(self) -> dict[str, int]:
        """Number of partitions of each outcome."""
        return {outcome: len(self._with(outcome)) for outcome in get_args(Outcome)}

    def _with(self, outcome: str) -> list[PartitionOutcome]:
        return [one for one in self.partitions if one.outcome == outcome]

    def batches(
        self, count: int = 32, min_rows: int = 1_000_000, *, orphaned: bool = False
    ) -> list[PartitionRange]:
        """Divide the pending partitions into ranges with about the same number of rows.

        Partitions that failed count as well: what cannot be read now may be readable then.

        Args:
            count: largest number of ranges.
            min_rows: number of rows for which a range of its own is worthwhile.
            orphaned: whether the ranges cover the orphaned partitions, too, to remove them.

        Returns:
            The ranges in order; empty if nothing is pending.

        Raises:
            SpecError: if count is less than 1.
        """
        if count < 1:
            raise SpecError(f"count must be at least 1, got {count}.")
        pending = self.pending + self.failed + (self.orphaned if orphaned else [])
        pending.sort(key=lambda one: _sort_key(one.partition))
        if not pending:
            return []
        # A partition of unknown size, as one that cannot be read, counts as one row.
        rows = [max(one.rows or 0, 1) for one in pending]
        parts = balanced_parts(rows, max(1, min(count, sum(rows) // max(min_rows, 1))))
        groups: dict[int, list[PartitionOutcome]] = {}
        for one, part in zip(pending, parts, strict=True):
            groups.setdefault(part, []).append(one)
        return [PartitionRange(g[0].partition, g[-1].partition) for g in groups.values()]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values: counts, and the partitions that are not unchanged."""
        return {
            "rows": self.rows,
            **self.counts,
            "partitions": [one.to_dict() for one in self.partitions if one.outcome != "unchanged"],
            "warnings": self.warnings,
            "dry_run": self.dry_run,
            "model_id": self.model_id,
            "uri": self.uri,
            "seconds": self.seconds,
            **self.changes.to_dict(),
        }

    def _report(self) -> list[Part]:
        """The counts of the outcomes, the warnings, and the partitions that are not unchanged."""
        changed = [one for one in self.partitions if one.outcome != "unchanged"]
        parts: list[Part] = [f"Reconciled {self}", self.warnings]
        if changed:
            columns: dict[str, list[Any]] = {
                "partition": [str(one) for one in changed],
                "outcome": [one.outcome for one in changed],
                "rows": [one.rows for one in changed],
                "reasons": [one.error or ", ".join(one.reasons) for one in changed],
            }
            parts.append(TablePart(columns))
        return parts

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.counts.items() if count)
        return f"{self.uri}: {counts or 'no partitions'}"


@checks_arguments
@draws_progress("scoring")
def reconcile(
    model: ModelOption,
    source: Any,
    sink: str | Path | TableRef,
    *,
    partitions: Partitions = None,
    batch: PartitionRange | None = None,
    catch_up: int = 0,
    scored_by: Sequence[str] | None = None,
    where: Where = None,
    columns: str | Sequence[str] | None = None,
    posterior: PosteriorFormat = "columns",
    decision: DecisionOption = "map",
    prior: PriorOption = None,
    deleted: Deleted = "keep",
    missing: Missing = "skip",
    limit: int | None = None,
    dry_run: bool = False,
    run_id: str | None = None,
    watch: WatchOption = True,
    missing_columns: MissingColumns = "error",
    schema: SchemaPolicy = "evolve",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> ReconcileReport:
    """Score the partitions of a table that are missing in another or stale there.

    A partition is stale if its input, the model or the rule (conditions, columns, decision) changed
    since it was scored. Each partition is committed on its own. One that cannot be read or scored
    fails alone: the others are committed, and then the error names those that failed. A call that
    was stopped is completed by the next one.

    Args:
        model: model to score with, or a fitted `ProbClassifier`.
        source: as for `score`, like the arguments that are not listed.
        sink: scored table.
        partitions: conditions on partition columns, or a list of partitions; all by default.
        batch: consecutive partitions to consider, of `ReconcileReport.batches`; all by default.
        catch_up: with one partition, number of partitions before it that are scored as well if they
            are missing in the sink, such as those of runs that failed. Partitions before the first
            one of the sink are not missing.
        scored_by: content ids of models; only partitions that one of them scored are considered,
            such as those of a version that was rolled back.
        where: rows to score.
        columns: passthrough columns.
        posterior: as for `score`.
        decision: decision rule.
        prior: shares of the classes to have the posteriors under.
        deleted: partitions of the sink that are gone from the source, or have no rows there any
            more: ``"keep"`` and report them, ``"remove"`` each in one step, or ``"fail"`` before
            anything is written.
        missing: partitions that were asked for by name and do not exist or have no rows:
            ``"skip"`` or ``"fail"``.
        limit: largest number of partitions to score now; by default all.
        dry_run: find out what would be done, and write nothing.
        run_id: name of the run, for the commit records.
        watch: what to check of each partition before its commit, as for `score`. A partition that
            does not pass a check that stops its commit fails alone.
        missing_columns: what to do about a column of the model that no file of a partition has; as
            for `score`.
        schema: whether the sink gains passthrough columns that it lacks; as for `score`.
        engine: engine that scores.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Raises:
        PartitionError: if some partitions failed; its ``report`` has the outcome of all.
        SpecError, NotSupportedError: as `score`; or if a condition is not on a partition column.
        DataError: as `score`, if all partitions fail for the same reason.
        TableError: as `score`, likewise; or if partitions are gone and `deleted` is ``"fail"``.
    """
    began = time.monotonic()
    if limit is not None and limit < 1:
        raise SpecError(f"limit must be at least 1, got {limit}.")
    if catch_up < 0:
        raise SpecError(f"catch_up must be at least 0, got {catch_up}.")
    checks = Watch.parse(watch)
    planner = ScoringPlanner.open(
        model,
        source,
        sink,
        where,
        columns=columns,
        posterior=posterior,
        decision=decision,
        prior=prior,
        overwrite="partition",
        run_id=run_id,
        missing_columns=missing_columns,
        schema=schema,
    )
    selected = _Selected(planner.table, partitions, batch, planner.where)
    if catch_up:
        selected.add_missed(planner.sink, catch_up)
    if scored_by is not None:
        selected.restrict_to(planner.sink, {*scored_by})
    found = _Comparison(planner, selected)
    found.compare(fail_missing=missing == "fail")
    if deleted == "fail" and found.orphaned:
        raise TableMismatchError(
            f"{len(found.orphaned)} partitions of {planner.sink.uri} are gone from "
            f"{planner.table.uri}: "
            f"{_some(found.orphaned.values())}; nothing was written. Score with deleted='remove' "
            "or 'keep'."
        )
    changes = ColumnChanges()
    if not dry_run:
        pending = dict(list(found.pending.items())[:limit])
        planned = list(pending.values())
        for one in planned[:1]:
            changes = one.check_sink(list(found.pending.values()))
        counter = planner.row_counter(progress, planned)
        with open_engine(engine, workers) as opened:
            scored = score_partitions(planner.model, planned, opened, counter, watch=checks)
            for (key, one), result in zip(pending.items(), scored, strict=True):
                found.finish(key, one, result)
        if deleted == "remove":
            found.remove_orphaned()
    report = ReconcileReport(
        partitions=[*found.outcomes.values(), *found.orphaned.values()],
        commits=found.commits,
        dry_run=dry_run,
        model_id=planner.model.id,
        uri=planner.sink.uri,
        seconds=time.monotonic() - began,
        changes=changes,
    )
    raise_failed(report, found.first_failure, len(report.partitions), dry_run=dry_run)
    return report


class _Selected:
    """The partitions to consider, of the source and of the sink.

    Raises:
        SpecError: if the table has no partitions, or a condition is on another column.
        TableError: if a column does not exist.
    """

    def __init__(
        self, table: Source, partitions: Partitions, batch: PartitionRange | None, where: Where
    ) -> None:
        self.table = table
        self.columns = table.partition_columns
        self.where = where
        if not self.columns and (partitions is not None or batch is not None):
            raise SpecError(
                f"{table.uri or 'the source'} has no partitions to choose from; leave partitions "
                "and batch out."
            )
        self.named: list[Mapping[str, Any]] | None = None
        self.conditions: Where = None
        if _are_partitions(partitions):
            self.named = [self._typed(one) for one in partitions]
        else:
            self.conditions = self._checked(parse_where(partitions))
        self.keys: Set[_Key] | None = None
        self.first_and_last = None
        if batch is not None:
            first, last = (_sort_key(self._typed(end)) for end in (batch.first, batch.last))
            self.first_and_last = first, last
            if self.named is not None:
                self.named = [one for one in self.named if first <= _sort_key(one) <= last]

    def add_missed(self, sink: TableRef, count: int) -> None:
        """Add those of the partitions before the named one that are missing in the sink.

        Args:
            sink: scored table, which need not exist.
            count: number of partitions before the named one to consider.

        Raises:
            SpecError: if not one partition is named, or the table has several partition columns.
        """
        if len(self.columns) != 1 or self.named is None or len(self.named) != 1:
            raise SpecError(
                "catch_up needs one partition of a table with one partition column, such as "
                "partitions=[{'day': '2014-01-31'}]; partitions that are missing are scored in any "
                "case if none is named."
            )
        (column,) = self.columns
        last = self.named[0][column]
        try:
            listed = open_table(sink).partitions()
        except TableError:
            return  # there is no sink yet
        scored = {typed_partition(self.table.schema, one)[column] for one in listed} - {None}
        values = [one[column] for one in self.table.partitions() if one[column] is not None]
        before = sorted(value for value in values if value < last)[-count:]
        first = min(scored, default=last)
        self.named[:0] = [{column: v} for v in before if v > first and v not in scored]

    def restrict_to(self, sink: TableRef, model_ids: Set[str]) -> None:
        """Leave only partitions that one of these models scored.

        Raises:
            TableError: if the sink does not exist or cannot be read.
        """
        scored = (one["partition"] for one in commits(sink) if one["model_id"] in model_ids)
        self.keys = keys = {_key(self._typed(one)) for one in scored}
        if self.named is not None:
            self.named = [one for one in self.named if _key(one) in keys]

    def typed(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values of a partition of the sink, which may guess their types, as the source has them.

        Values that the source cannot have are left as they are.
        """
        try:
            return typed_partition(self.table.schema, values)
        except SpecError:
            return values

    def _typed(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        typed = typed_partition(self.table.schema, partition)
        if {*typed} != {*self.columns}:
            raise SpecError(
                f"partition {dict(partition)} does not have a value for each of the partition "
                f"columns of {self.table.uri}: {one_of(self.columns)}."
            )
        return {name: typed[name] for name in self.columns}

    def _checked(self, conditions: Sequence[Condition] | pc.Expression | None) -> Where:
        if isinstance(conditions, pc.Expression):
            raise SpecError("partitions must be text, conditions or partitions, not an expression.")
        for column, *_ in conditions or ():
            if column not in self.columns:
                raise SpecError(
                    f"{column!r} is not a partition column of {self.table.uri}; it has "
                    f"{one_of(self.columns)}. Conditions on rows go to where=."
                )
        return conditions

    def in_source(self) -> list[Mapping[str, Any]]:
        """The partitions of the source, in its order; one without columns if it has none."""
        if not self.columns:
            return [{}] if self.keys is None or _key({}) in self.keys else []
        return self._select(self.table)

    def with_rows(self) -> set[_Key] | None:
        """The partitions that may have rows of the filter; None for all."""
        if self.where is None or not self.columns:
            return None
        return {_key(one) for one in self.table.partitions(self.where)}

    def in_sink(self, sink: Source) -> list[Mapping[str, Any]]:
        """The partitions of the sink; none if it is partitioned by other columns."""
        return self._select(sink) if {*sink.partition_columns} == {*self.columns} else []

    def _select(self, table: Source) -> list[Mapping[str, Any]]:
        listed: list[Mapping[str, Any]] = [
            {name: one[name] for name in self.columns} for one in table.partitions(self.conditions)
        ]
        if self.named is not None:
            wanted = {_key_as(table, one) for one in self.named}
            listed = [one for one in listed if _key(one) in wanted]
        if self.keys is not None:
            keys = self.keys
            listed = [one for one in listed if _key_as(self.table, one) in keys]
        if self.first_and_last is not None:
            first, last = self.first_and_last
            listed = [one for one in listed if first <= _sort_key(self.typed(one)) <= last]
        return listed


class _Comparison:
    """Compares the partitions of a source with those of a sink, and keeps what became of them.

    Attributes:
        outcomes: outcome of each partition of the source.
        pending: the partitions to score.
        orphaned: outcome of each partition that has rows in the sink only.
        commits: commits of the scored and unchanged partitions; see `ScoreReport`.
        first_failure: error of the first partition that failed; None if none did.
    """

    def __init__(self, planner: ScoringPlanner, selected: _Selected) -> None:
        self.planner = planner
        self.selected = selected
        self.outcomes: dict[_Key, PartitionOutcome] = {}
        self.pending: dict[_Key, PlannedPartition] = {}
        self.orphaned: dict[_Key, PartitionOutcome] = {}
        self.commits: list[dict[str, Any]] = []
        self._in_sink: dict[_Key, TypedPartition] = {}
        self.first_failure: PartitionFailure | None = None
        self._sink_exists = False

    def compare(self, *, fail_missing: bool) -> None:
        """Compare all selected partitions; nothing is written."""
        source = self.selected.in_source()
        with_rows = self.selected.with_rows()
        for values in source:
            if with_rows is None or _key(values) in with_rows:
                self._compare(values)
        self._find_orphaned(source)
        for values in self.selected.named or ():
            key = _key(values)
            outcome = self.outcomes.get(key, PartitionOutcome(values, "empty"))
            if outcome.outcome == "empty" and key not in self.orphaned:
                self.outcomes[key] = outcome
                if fail_missing:
                    uri = self.planner.table.uri
                    self._fail(key, values, TableError(f"{uri} has no rows of {outcome}."))

    def _compare(self, values: Mapping[str, Any]) -> None:
        key = _key(values)
        try:
            planned = self.planner.plan_partition(values)
            record = planned.sink.commit_record
            exists = record is not None or planned.sink.exists
        except PARTITION_FAILURES as failure:
            self._fail(key, values, failure)
            return
        self._sink_exists |= exists
        if planned.rows == 0:
            self._empty(key, values, exists=exists)
        elif record is not None and planned.committed_by(record):
            rows, commit_id = record["rows"], record["commit_id"]
            self.commits.append(planned.brief_commit(record, skipped=True))
            self.outcomes[key] = PartitionOutcome(values, "unchanged", (), rows, commit_id)
        else:
            changes = ("unrecorded",) if exists else ("missing",)
            reasons = changes if record is None else planned.changes_since(record)
            self.pending[key] = planned
            self.outcomes[key] = PartitionOutcome(values, "pending", reasons, planned.rows)

    def _find_orphaned(self, source: Sequence[Mapping[str, Any]]) -> None:
        if not self.selected.columns:
            return
        try:
            sink = open_table(self.planner.sink)
            listed = self.selected.in_sink(sink)
        except TableError:
            if self._sink_exists:
                raise
            return  # there is no sink yet
        known = {_key_as(sink, one) for one in source}
        for values in listed:
            key = _key(values)
            if key not in known:
                self.orphaned[key] = PartitionOutcome(self.selected.typed(values), "orphaned")
                self._in_sink[key] = TypedPartition(values, sink.schema)

    def _empty(self, key: _Key, values: Mapping[str, Any], *, exists: bool) -> None:
        """Note a partition without rows, which is orphaned if the sink has rows of it."""
        if exists:
            self.outcomes.pop(key, None)
            self.orphaned[key] = PartitionOutcome(values, "orphaned")
            self._in_sink[key] = TypedPartition(values, self.planner.table.schema)
        else:
            self.outcomes[key] = PartitionOutcome(values, "empty")

    def finish(
        self, key: _Key, planned: PlannedPartition, result: Mapping[str, Any] | PartitionFailure
    ) -> None:
        """Note what became of a pending partition: its commit record, or why it failed."""
        before = self.outcomes[key]
        if isinstance(result, PARTITION_FAILURES):
            self._fail(key, before.partition, result)
        elif result["rows"] == 0:
            self._empty(key, before.partition, exists=before.reasons != ("missing",))
        else:
            rows, commit_id = result["rows"], planned.commit_id
            self.commits.append(planned.brief_commit(result, skipped=False))
            self.outcomes[key] = replace(before, outcome="scored", rows=rows, commit_id=commit_id)

    def remove_orphaned(self) -> None:
        """Remove the orphaned partitions of the sink, one after another."""
        for key, one in self.orphaned.items():
            try:
                sink = self.planner.open_sink(self._in_sink[key])
                if not sink.exists:  # another writer named its folder, such as month=02
                    raise TableMismatchError(
                        f"{sink.location} does not exist, so the orphaned partition has a folder "
                        "of another name; remove that folder, or score with deleted='keep'."
                    )
                sink.remove()
                self.orphaned[key] = replace(one, outcome="removed")
            except PARTITION_FAILURES as failure:
                self.orphaned[key] = self._failed(one.partition, failure)

    def _fail(self, key: _Key, values: Mapping[str, Any], failure: PartitionFailure) -> None:
        self.outcomes[key] = self._failed(values, failure)

    def _failed(self, values: Mapping[str, Any], failure: PartitionFailure) -> PartitionOutcome:
        self.first_failure = self.first_failure or failure
        return PartitionOutcome.of_failure(values, failure)


_Key = tuple[tuple[str, str | None], ...]
"""Names and texts of a partition's values, sorted by name."""


def _key(values: Mapping[str, Any]) -> _Key:
    return tuple(
        (name, None if values[name] is None else category_text(values[name]))
        for name in sorted(values)
    )


def _key_as(table: Source, values: Mapping[str, Any]) -> _Key:
    """The key of a partition whose values have the types that another table gives them.

    A directory of Parquet files has integers where the source may have text such as ``"01"``.
    """
    try:
        return _key(typed_partition(table.schema, values))
    except SpecError:
        return _key(values)


def _sort_key(values: Mapping[str, Any]) -> tuple[tuple[bool, str, Any], ...]:
    """A key to sort partitions by, column by column, null first."""
    return tuple((value is not None, type(value).__name__, value) for value in values.values())


def _are_partitions(partitions: Partitions) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Whether it is a list of partitions, and not conditions."""
    if isinstance(partitions, str) or not isinstance(partitions, Sequence):
        return False
    return all(isinstance(one, Mapping) for one in partitions)


def _some(outcomes: Iterable[PartitionOutcome]) -> str:
    """The names of the first partitions, and the number of the others."""
    names = [str(one) for one in outcomes]
    rest = len(names) - _NAMES_IN_MESSAGE
    return ", ".join(names[:_NAMES_IN_MESSAGE]) + (f" and {rest} more" if rest > 0 else "")
