"""Score partitions: read, score and write the rows of each, then commit it at once.

In-process engines score the batches of one partition after another; other engines score whole
partitions in their workers. Either way this process alone commits, and the files are the same byte
for byte. Before its commit, each partition is checked against earlier ones of the same table.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left, insort
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
from probclass_core.analysis.distributions.watch import Verdict, Watch, raise_failed
from probclass_core.errors import TableError
from probclass_core.execution.engine import Engine
from probclass_core.execution.progress import RowCounter
from probclass_core.io.filters import partition_text, typed_partition
from probclass_core.io.open import open_table
from probclass_core.io.sink import Sink, StagedPart, StagedPartition, TypedPartition
from probclass_core.io.table import Plan
from probclass_core.model.model import Model
from probclass_core.scoring.batch import BatchScorer
from probclass_core.scoring.options import RowOptions
from probclass_core.scoring.plan import PlannedPartition, ScoringPlanner
from probclass_core.scoring.reports import PARTITION_FAILURES, PartitionFailure

log = logging.getLogger(__name__)

_MOST_EARLIER = 7
"""Earlier partitions to compare with: of days a week, so that a Sunday has a Sunday among them."""

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
    options: RowOptions
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


class PartitionChecks:
    """Checks the partitions of one call in order, each before its commit.

    Earlier partitions are read from the commit records of the sink, each at most once.

    Args:
        watch: what to check.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._earlier: EarlierPartitions | None = None
        self._health: dict[str, Health | None] = {}

    def check(self, planned: PlannedPartition, health: Health) -> list[Verdict]:
        """Check a partition that is about to be committed, and log its verdicts as warnings.

        Raises:
            HealthError: if a check that is not passed stops the commit.
        """
        partition = planned.sink.partition
        if self._earlier is None:
            self._earlier = _partitions_of_sink(planned)
        verdicts = self._watch.check(
            health,
            dict(self._references(planned, self._earlier)),
            missing=planned.missing,
            in_order=is_in_order(partition),
        )
        # Its own columns have one value in a partition, and several in training.
        verdicts = [
            verdict
            for verdict in verdicts
            if verdict.check not in ("nulls", "drift") or verdict.subject not in partition
        ]
        where = partition_text(partition) or planned.sink.location
        raise_failed(verdicts, where)
        for verdict in verdicts:
            log.warning("%s: %s", where, verdict)
        self._health[partition_text(partition)] = health
        self._earlier.add(partition)
        return verdicts

    def _references(
        self, planned: PlannedPartition, earlier: EarlierPartitions
    ) -> Iterator[tuple[str, Health]]:
        """The earlier partitions with a health, the last one first."""
        partition = planned.sink.partition
        if not partition:  # a whole table is compared with what it replaces
            if (health := _health_in(planned.sink)) is not None:
                yield "the table before", health
            return
        for one in earlier.before(partition):
            text = partition_text(one)
            if text not in self._health:
                self._health[text] = _health_of(planned, one)
            if (health := self._health[text]) is not None:
                yield text, health


class EarlierPartitions:
    """Partitions in the order of the numbers in their values.

    Such as months, days, hours or numbered batches; a value that does not begin with a digit, such
    as ``country=de``, has no order, and partitions of other countries are not compared.
    """

    def __init__(self) -> None:
        self._sequences: dict[tuple[Any, ...], list[tuple[Any, str]]] = {}
        self._partitions: dict[str, Mapping[str, Any]] = {}

    def add(self, partition: Mapping[str, Any]) -> None:
        """Add a partition, once."""
        text = partition_text(partition)
        if text not in self._partitions:
            self._partitions[text] = dict(partition)
            others, numbers = _order_of(partition)
            insort(self._sequences.setdefault(others, []), (numbers, text))

    def before(self, partition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Those before a partition, the last one first; none if its values have no order."""
        others, numbers = _order_of(partition)
        sequence = self._sequences.get(others, [])
        stop = bisect_left(sequence, (numbers, ""))
        last = sequence[max(0, stop - _MOST_EARLIER) : stop]
        return [self._partitions[text] for _, text in reversed(last)]


def is_in_order(partition: Mapping[str, Any]) -> bool:
    """Whether a partition is one of a sequence, such as a month."""
    return bool(_order_of(partition)[1])


def _order_of(partition: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The values without an order, and the numbers in the others, outermost first."""
    texts = {name: str(value) for name, value in partition.items()}
    others = tuple(
        (name, "" if text[:1].isdigit() else text) for name, text in sorted(texts.items())
    )
    numbers = [
        tuple(int(number) for number in re.findall(r"\d+", text))
        for text in texts.values()
        if text[:1].isdigit()
    ]
    return others, tuple(numbers)


def _partitions_of_sink(planned: PlannedPartition) -> EarlierPartitions:
    """The partitions of the scored table; none if there is no such table yet."""
    earlier, planner = EarlierPartitions(), planned.planner
    if planned.sink.partition:
        try:
            for partition in open_table(planner.sink).partitions():
                if set(partition) == set(planned.sink.partition):
                    # In the same order and of the same types as those that are planned.
                    typed = typed_partition(planner.table.schema, partition)
                    earlier.add({name: typed[name] for name in planned.sink.partition})
        except TableError as error:
            log.info("earlier partitions are not compared: %s", error)
    return earlier


def _health_of(planned: PlannedPartition, partition: Mapping[str, Any]) -> Health | None:
    """The health of an earlier partition; None if it has none, or cannot be read."""
    schema = planned.planner.table.schema
    try:
        return _health_in(planned.planner.open_sink(TypedPartition(partition, schema)))
    except TableError as error:
        log.info("%s is not compared with: %s", partition_text(partition), error)
        return None


def _health_in(sink: Sink) -> Health | None:
    """The health that the commit record of a sink has."""
    return Health.of_commit(sink.commit_record or {})
