"""Score partitions: read, score and write the rows of each, then commit it at once.

In-process engines score the batches of one partition after another; other engines score whole
partitions in their workers. Either way this process alone commits, and the files are the same byte
for byte.
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
from probclass_core.analysis.distributions.meter import HealthMeter, HealthSums
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

ScoredBatch = tuple[pa.RecordBatch, HealthSums | None]
ScoreBatch = Callable[[pa.RecordBatch], ScoredBatch]
MapBatches = Callable[[ScoreBatch, Iterable[pa.RecordBatch]], Iterator[ScoredBatch]]


def score_partitions(
    planner: ScoringPlanner,
    partitions: Sequence[PlannedPartition],
    engine: Engine,
    counter: RowCounter,
) -> Iterator[Mapping[str, Any] | PartitionFailure]:
    """Score partitions and commit each once its rows are staged.

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
    watch = Watch.parse(planner.options.watch)
    work = ScoreRows(planner.model, watch is not None)
    checks = None if watch is None else PartitionChecks(watch)
    open_partitions: deque[_OpenPartition] = deque()
    staged = (_stage(one, open_partitions) for one in partitions)
    try:
        for finished in _score_rows(work, staged, engine, counter):
            current = open_partitions[0]
            outcome: Mapping[str, Any] | PartitionFailure
            try:
                if not engine.in_process:
                    counter.add(current.planned.rows or 0)
                outcome = _commit(current, finished, checks, counter)
            except PARTITION_FAILURES as failure:
                outcome = failure
            open_partitions.popleft().context.close()
            yield outcome
    finally:
        for one in open_partitions:
            one.context.close()


def _score_rows(
    work: ScoreRows,
    staged: Iterable[StagedRows | PartitionFailure],
    engine: Engine,
    counter: RowCounter,
) -> Iterator[ScoredRows | PartitionFailure]:
    """Score the rows of partitions, in order."""
    if engine.in_process:

        def map_batches(
            score: ScoreBatch, batches: Iterable[pa.RecordBatch]
        ) -> Iterator[ScoredBatch]:
            return engine.map(score, counter.count(batches))

        return map(replace(work, map_batches=map_batches), staged)
    return engine.map(work, staged)


@dataclass(frozen=True)
class StagedRows:
    """The rows of a partition that one worker scores into one file; it pickles.

    Attributes:
        name: name in messages.
        plan: rows to read.
        options: how to score them.
        schema: schema of the scored rows.
        partition: values of the partition columns that every row must have.
        target: staged file for the scored rows.
    """

    name: str
    plan: Plan
    options: ScoringOptions
    schema: pa.Schema
    partition: Mapping[str, Any]
    target: StagedPart

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ScoredRows:
    """Result of scoring the rows of a partition.

    Attributes:
        file: what `StagedPart.finish` returned.
        summary: entries of the commit record that follow from the rows.
    """

    file: Any
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ScoreRows:
    """The work of an engine in scoring: score the rows of a partition and write them to its file.

    Attributes:
        model: model to score with; sent to workers once, not with each partition.
        watch: whether to measure the health of the rows.
        map_batches: how the batches of a partition are scored.
    """

    model: Model
    watch: bool
    map_batches: MapBatches = map

    @cached_property
    def meter(self) -> HealthMeter:
        """Measures the health of the rows."""
        return HealthMeter(self.model)

    def __call__(self, rows: StagedRows | PartitionFailure) -> ScoredRows | PartitionFailure:
        """Score staged rows; a failure to stage them is passed on."""
        if isinstance(rows, PARTITION_FAILURES):
            return rows
        try:
            return self._score(rows)
        except PARTITION_FAILURES as failure:
            return failure

    def _score(self, rows: StagedRows) -> ScoredRows:
        scorer = BatchScorer(self.model, rows.schema, rows.options)

        def score(batch: pa.RecordBatch) -> ScoredBatch:
            _check_partition(batch, rows.partition)
            if not self.watch:
                return scorer.score(batch), None
            return scorer.score_and_measure(batch, self.meter)

        total = self.meter.zero() if self.watch else None
        with closing(rows.target):
            batches = rows.plan.batches(scorer.batch_rows)
            for scored, sums in self.map_batches(score, batches):
                rows.target.write(scored)
                if total is not None and sums is not None:
                    total += sums
            if total is None or not total.rows:
                return ScoredRows(rows.target.finish())
            health = self.meter.health(total, rows.options.prior)
            summary = {"health": health.to_dict()}
            return ScoredRows(rows.target.finish(summary), summary)


@dataclass
class _OpenPartition:
    """A partition whose rows are being scored.

    Attributes:
        planned: the partition.
        context: to be closed once the partition is committed or given up.
        staged: the staged partition, once there is one.
    """

    planned: PlannedPartition
    context: ExitStack = field(default_factory=ExitStack)
    staged: StagedPartition = field(init=False)


def _stage(
    planned: PlannedPartition, open_partitions: deque[_OpenPartition]
) -> StagedRows | PartitionFailure:
    """Stage a partition and add it to the open ones."""
    current, sink, scorer = _OpenPartition(planned), planned.sink, planned.scorer
    open_partitions.append(current)
    try:
        current.staged = current.context.enter_context(planned.stage())
        return StagedRows(
            sink.location,
            planned.plan,
            scorer.options,
            scorer.schema,
            sink.partition,
            current.staged.part,
        )
    except PARTITION_FAILURES as failure:
        return failure


def _commit(
    current: _OpenPartition,
    scored: ScoredRows | PartitionFailure,
    checks: PartitionChecks | None,
    counter: RowCounter,
) -> Mapping[str, Any]:
    """Check and publish a staged partition unless it is empty, and return its commit record."""
    if isinstance(scored, PARTITION_FAILURES):
        raise scored
    current.staged.part.adopt(scored.file)
    planned, staged = current.planned, current.staged
    verdicts: Sequence[Verdict] = ()  # they follow from other partitions, too
    if staged.rows:
        if checks is not None and "health" in scored.summary:
            verdicts = checks.check(planned, Health.from_dict(scored.summary["health"]))
        counter.report()
        staged.publish(scored.summary)
    record = {**planned.record, **scored.summary, "rows": staged.rows}
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
