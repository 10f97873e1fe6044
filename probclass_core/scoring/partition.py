"""Score partitions: read, score and write their parts, then commit each partition at once.

In-process engines score the batches of one part after another; other engines score whole parts in
their workers. Either way this process alone commits, and the files are the same byte for byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.sums import HealthMeter, HealthSums
from probclass_core.analysis.distributions.watch import Verdict, Watch
from probclass_core.errors import TableError
from probclass_core.execution.engine import Engine
from probclass_core.execution.progress import RowCounter
from probclass_core.io.sink import StagedPart, StagedPartition
from probclass_core.io.table import Plan
from probclass_core.model.model import Model
from probclass_core.scoring.batch import BatchScorer
from probclass_core.scoring.checks import PartitionChecks
from probclass_core.scoring.options import ScoringOptions
from probclass_core.scoring.plan import PlannedPartition, ScoringPlanner
from probclass_core.scoring.reports import PARTITION_FAILURES, PartitionFailure

PART_ROWS = 2**24
"""Rows of a partition above which it is written as several files, each scored by one worker."""

_MOST_PARTS = 4096
"""Most files of a partition."""

ScoredBatch = tuple[pa.RecordBatch, HealthSums | None]
ScoreBatch = Callable[[pa.RecordBatch], ScoredBatch]
MapBatches = Callable[[ScoreBatch, Iterable[pa.RecordBatch]], Iterator[ScoredBatch]]


def score_partitions(
    planner: ScoringPlanner,
    partitions: Sequence[PlannedPartition],
    engine: Engine,
    counter: RowCounter,
) -> Iterator[Mapping[str, Any] | PartitionFailure]:
    """Score partitions and commit each once all of its parts are staged.

    A partition that cannot be read, scored or committed fails alone.

    Args:
        planner: planner of the partitions, with the model and the options.
        partitions: partitions to score, in order.
        engine: engine that runs the work.
        counter: counts the rows, and reports once more before each commit: an exception that the
            progress function raises then prevents the commit.

    Yields:
        For each partition in order its commit record with its ``rows``, once it is committed, or
        its error; if the rows are 0, nothing was committed.
    """
    model, watch = planner.model, Watch.parse(planner.options.watch)
    work = ScorePart(model, watch is not None)
    checks = None if watch is None else PartitionChecks(watch)
    open_partitions: deque[_OpenPartition] = deque()

    def finished_partitions() -> Iterator[Mapping[str, Any] | PartitionFailure]:
        while open_partitions and not open_partitions[0].unfinished:
            current = open_partitions[0]
            outcome: Mapping[str, Any] | PartitionFailure
            try:
                outcome = current.failure or _commit(current, work, checks, counter)
            except PARTITION_FAILURES as failure:
                outcome = failure
            open_partitions.popleft().context.close()
            yield outcome

    parts = (part for one in partitions for part in _stage_parts(one, open_partitions))
    try:
        for finished in _score_parts(work, parts, engine, counter):
            yield from finished_partitions()  # those that could not be staged
            current = open_partitions[0]
            part = current.unfinished.popleft()
            if isinstance(finished, PARTITION_FAILURES):
                current.failure = current.failure or finished
            else:
                part.target.adopt(finished.file)
                current.summary = finished.summary
                current.sums += finished.sums
            if not engine.in_process:
                counter.add(part.plan.rows or 0)
            yield from finished_partitions()
        yield from finished_partitions()
    finally:
        for one in open_partitions:
            one.context.close()


def _score_parts(
    work: ScorePart, parts: Iterable[Part], engine: Engine, counter: RowCounter
) -> Iterator[FinishedPart | PartitionFailure]:
    """Score the parts, in order."""
    if engine.in_process:

        def map_batches(
            score: ScoreBatch, batches: Iterable[pa.RecordBatch]
        ) -> Iterator[ScoredBatch]:
            return engine.map(score, counter.count(batches))

        return map(replace(work, map_batches=map_batches), parts)
    return engine.map(work, parts)


@dataclass(frozen=True)
class Part:
    """Rows of a partition that one worker scores into one file; it pickles.

    Attributes:
        name: name in messages.
        plan: rows to read.
        options: how to score them.
        schema: schema of the scored rows.
        partition: values of the partition columns that every row must have.
        target: staged file for the scored rows.
        whole: whether it is all of the partition.
    """

    name: str
    plan: Plan
    options: ScoringOptions
    schema: pa.Schema
    partition: Mapping[str, Any]
    target: StagedPart
    whole: bool

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FinishedPart:
    """What scoring a part leaves.

    Attributes:
        file: what `StagedPart.finish` returned.
        summary: entries of the commit record that follow from the rows, if it is a whole partition.
        sums: what the summary follows from, if it is one of several parts; empty if not watched.
    """

    file: Any
    summary: Mapping[str, Any] = field(default_factory=dict)
    sums: Sequence[HealthSums] = ()


@dataclass(frozen=True)
class ScorePart:
    """The work of an engine in scoring: score a part and write it to its staged file.

    Attributes:
        model: model to score with; sent to workers once, not with each part.
        watch: whether to measure the health of the rows.
        map_batches: how the batches of a part are scored.
    """

    model: Model
    watch: bool
    map_batches: MapBatches = map

    @cached_property
    def meter(self) -> HealthMeter:
        """Measures the health of the rows."""
        return HealthMeter(self.model)

    def __call__(self, part: Part) -> FinishedPart | PartitionFailure:
        try:
            return self._score(part)
        except PARTITION_FAILURES as failure:
            return failure

    def _score(self, part: Part) -> FinishedPart:
        scorer = BatchScorer(self.model, part.schema, part.options)

        def score(batch: pa.RecordBatch) -> ScoredBatch:
            _check_partition(batch, part.partition)
            if not self.watch:
                return scorer.score(batch), None
            return scorer.score_and_measure(batch, self.meter)

        total = self.meter.zero() if self.watch else None
        with closing(part.target):
            batches = part.plan.batches(scorer.batch_rows)
            for scored, sums in self.map_batches(score, batches):
                part.target.write(scored)
                if total is not None and sums is not None:
                    total += sums
            if total is None or not total.rows:
                return FinishedPart(part.target.finish())
            if not part.whole:
                return FinishedPart(part.target.finish(), sums=[total])
            summary = self.summarize(total, part.options)
            return FinishedPart(part.target.finish(summary), summary)

    def summarize(self, sums: HealthSums, options: ScoringOptions) -> Mapping[str, Any]:
        """The entries of a commit record that follow from the rows; none without rows."""
        if not sums.rows:
            return {}
        return {"health": self.meter.health(sums, options.prior).to_dict()}


@dataclass
class _OpenPartition:
    """A partition whose parts are being scored.

    Attributes:
        planned: the partition; None if it could not be staged.
        staged: the staged partition, likewise.
        context: to be closed once the partition is committed or given up.
        unfinished: its parts that are not finished yet, in order.
        failure: the error of the first part that failed, or of the staging.
        sums: what the health follows from, of those of several parts that are finished.
        summary: entries of the commit record that follow from the rows.
    """

    planned: PlannedPartition | None
    staged: StagedPartition | None
    context: ExitStack
    unfinished: deque[Part]
    failure: PartitionFailure | None = None
    sums: list[HealthSums] = field(default_factory=list)
    summary: Mapping[str, Any] = field(default_factory=dict)


def _stage_parts(
    partition: PlannedPartition, open_partitions: deque[_OpenPartition]
) -> Iterator[Part]:
    """Stage a partition, add it to the open ones, and yield its parts."""
    try:
        staged = _stage(partition)
    except PARTITION_FAILURES as failure:
        staged = _OpenPartition(None, None, ExitStack(), deque(), failure)
    open_partitions.append(staged)
    yield from tuple(staged.unfinished)


def _stage(partition: PlannedPartition) -> _OpenPartition:
    plan, sink, scorer = partition.plan, partition.sink, partition.scorer
    with ExitStack() as context:
        staged = context.enter_context(partition.stage())
        plans = _divide(plan)
        targets = staged.parts(len(plans))
        plans = plans if len(targets) > 1 else [plan]
        names = [sink.location]
        if len(plans) > 1:
            names = [f"{sink.location}, part {n} of {len(plans)}" for n in range(1, len(plans) + 1)]
        parts = [
            Part(
                name,
                rows,
                scorer.options,
                scorer.schema,
                sink.partition,
                target,
                whole=len(plans) == 1,
            )
            for name, rows, target in zip(names, plans, targets, strict=True)
        ]
        return _OpenPartition(partition, staged, context.pop_all(), deque(parts))


def _divide(plan: Plan) -> list[Plan]:
    """Divide the rows of a partition into one plan per file.

    The number of files follows from the plan and the sink alone, so that every engine writes the
    same files.
    """
    count = -(-sum(plan.unit_rows) // PART_ROWS)
    return plan.split(min(max(count, 1), _MOST_PARTS))


def _commit(
    partition: _OpenPartition, work: ScorePart, checks: PartitionChecks | None, counter: RowCounter
) -> Mapping[str, Any]:
    """Check and publish a staged partition unless it is empty, and return its commit record."""
    planned, staged, summary = partition.planned, partition.staged, partition.summary
    assert planned is not None
    assert staged is not None
    if partition.sums:
        summary = work.summarize(work.meter.total(partition.sums), planned.scorer.options)
    verdicts: Sequence[Verdict] = ()  # they follow from other partitions, too
    if staged.rows:
        if checks is not None and "health" in summary:
            verdicts = checks.check(planned, Health.from_dict(summary["health"]))
        counter.report()
        staged.publish(summary)
    record = {**planned.record, **summary, "rows": staged.rows}
    return {**record, "verdicts": [one.to_dict() for one in verdicts]} if verdicts else record


def _check_partition(batch: pa.RecordBatch, partition: Mapping[str, Any]) -> None:
    """Refuse rows outside the partition.

    Raises:
        TableError: if there is one.
    """
    for name, value in partition.items():
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        equal = column.is_null() if value is None else pc.equal(column, value)
        strays = column.filter(pc.invert(pc.fill_null(equal, fill_value=False)))
        if len(strays):
            raise TableError(
                f"{len(strays)} rows are outside the partition {name}={value}; the first has "
                f"{strays[0].as_py()!r}. Nothing of it was written."
            )
