"""What engines run: the work on one fragment or one partition, in this process or in another.

Each work is called with its part and returns what the road needs of it. It pickles, and so does
what it returns; tables in it travel as Arrow IPC.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import pyarrow as pa

from probclass_core.analysis.evaluation import EvaluationSums, Evaluator
from probclass_core.arrow.arrays import in_slices
from probclass_core.estimation.statistics import Statistics, canonical_schema, summarize_batches
from probclass_core.execution.engine import Engine
from probclass_core.io.table import Fragment, Plan, StagedPart, StagedPartition
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import Model
from probclass_core.scoring.batch import Scorer, ScorerOptions
from probclass_core.scoring.partition import Counted, ScoredPartition, committed, divided, inside
from probclass_core.spec import ModelSpec
from probclass_core.store.statistics_cache import CachedStatistics

OnRows = Callable[[int], None]
"""Told how many rows were done."""


@dataclass(frozen=True)
class SummarizeFragment:
    """The statistics of a fragment."""

    spec: ModelSpec
    schema: pa.Schema

    def __call__(self, fragment: Fragment, on_rows: OnRows = lambda rows: None) -> Statistics:
        return summarize_batches(self.spec, self.schema, fragment.read(), on_rows)


def summaries(
    plan: Plan, spec: ModelSpec, engine: Engine, kept: CachedStatistics | None, on_rows: OnRows
) -> Iterator[Statistics]:
    """Statistics of the fragments of a plan, in their order.

    Args:
        plan: what to read.
        spec: the model.
        engine: who reads.
        kept: statistics that were kept, and where to keep those that were not.
        on_rows: told of progress.

    Raises:
        DataError, SpecError, PluginError: as `summarize_batches`.
        TableError: a fragment cannot be read.
    """
    summarize = SummarizeFragment(spec, plan.schema)
    work = partial(summarize, on_rows=on_rows) if engine.in_process else summarize
    if kept is None:
        yield from _mapped(engine, work, plan.fragments, on_rows)
        return
    features = canonical_schema(plan.schema, spec.features)
    # The store is this thread's to read and write: workers need not reach it.
    held = [kept.contains(fragment.digest) for fragment in plan.fragments]
    missing = (part for part, is_held in zip(plan.fragments, held, strict=True) if not is_held)
    found = _mapped(engine, work, missing, on_rows)
    try:
        for fragment, is_held in zip(plan.fragments, held, strict=True):
            part = kept.load(fragment.digest, features) if is_held else None
            if part is not None:
                on_rows(part.rows)
            else:
                # What is held may turn out to be damaged or gone, and is then summarized after all.
                computed = _mapped(engine, work, [fragment], on_rows) if is_held else found
                part = next(computed)
                kept.save(fragment.digest, part, plan.footer_of(fragment))
            yield part
    finally:
        kept.flush()


def _mapped(
    engine: Engine,
    work: Callable[[Fragment], Statistics],
    fragments: Iterable[Fragment],
    on_rows: OnRows,
) -> Iterator[Statistics]:
    """Statistics of fragments, with progress: workers of other processes cannot tell of theirs."""
    for part in engine.map(work, fragments):
        if not engine.in_process:
            on_rows(part.rows)
        yield part


@dataclass(frozen=True)
class MeasureFragment:
    """How well a model does on the rows of a fragment, batch by batch."""

    model: Model
    decision: DecisionOption

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.model, self.decision)

    def __call__(self, fragment: Fragment) -> list[EvaluationSums]:
        batches = in_slices(fragment.read(), self.model.batch_rows)
        return [self._evaluator.measure(batch) for batch in batches]


def measures(plan: Plan, evaluator: Evaluator, engine: Engine) -> Iterator[EvaluationSums]:
    """What each batch of a plan adds to an evaluation, in their order, whoever measures."""
    if engine.in_process:
        return engine.map(evaluator.measure, plan.batches(evaluator.model.batch_rows))
    measure = MeasureFragment(evaluator.model, evaluator.compiled_rule.rule)
    return chain.from_iterable(engine.map(measure, plan.fragments))


@dataclass(frozen=True)
class PartToScore:
    """Rows of a partition on their way to the worker that writes them; the model goes another way.

    Attributes:
        name: for messages.
        plan: the rows.
        scorer: what to make of them.
        partition: that they must be in.
        target: where the scored rows go.
    """

    name: str
    plan: Plan
    scorer: ScorerOptions
    partition: Mapping[str, Any]
    target: StagedPart

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class WriteScored:
    """The scored rows of a part, written where they are staged: what the writer hands over."""

    model: Model

    def __call__(self, part: PartToScore) -> Any:
        scorer = Scorer(self.model, part.plan.schema, *part.scorer)
        with closing(part.target):
            for batch in part.plan.batches(self.model.batch_rows):
                part.target.write(scorer.score(inside(batch, part.partition)))
            return part.target.finish()


def written(
    partitions: Sequence[ScoredPartition],
    engine: Engine,
    counted: Counted,
    on_rows: OnRows,
    before_commit: Callable[[], None],
) -> Iterator[int]:
    """Score and commit partitions one after another; workers of other processes are ahead.

    They stage, and this process alone commits: a partition once all of its parts are there.

    Args:
        partitions: of one model.
        engine: whose workers score.
        counted: tells of progress, batch by batch.
        on_rows: tells of the progress that others made.
        before_commit: called before each commit; what it raises prevents it.

    Yields:
        Rows of each partition, once it is committed.
    """
    if engine.in_process or not partitions:
        for partition in partitions:
            yield partition.write(engine, counted, before_commit)
        return
    under_way: deque[_UnderWay] = deque()
    try:
        for found in engine.map(
            WriteScored(partitions[0].scorer.model),
            chain.from_iterable(on_their_way(each, under_way) for each in partitions),
        ):
            first = under_way[0]
            plan, part = first.left.popleft()
            part.adopt(found)
            on_rows(plan.rows or 0)
            if not first.left:
                yield committed(first.staged, before_commit)
                under_way.popleft().place.close()
    finally:
        for one in under_way:
            one.place.close()


@dataclass(frozen=True)
class _UnderWay:
    """A partition whose parts are with workers.

    Attributes:
        staged: where it is in the making.
        place: to be closed once it is committed, or given up.
        left: its parts that are not done.
    """

    staged: StagedPartition
    place: ExitStack
    left: deque[tuple[Plan, StagedPart]]


def on_their_way(partition: ScoredPartition, under_way: deque[_UnderWay]) -> Iterator[PartToScore]:
    """The parts of a partition, which from now on is under way."""
    sink, options = partition.sink, partition.scorer.options
    with ExitStack() as place:
        staged = place.enter_context(partition.stage())
        parts = divided(partition.plan, staged)
        under_way.append(_UnderWay(staged, place.pop_all(), deque(parts)))
    for number, (plan, target) in enumerate(parts, 1):
        name = (
            sink.location if len(parts) == 1 else f"{sink.location}, part {number} of {len(parts)}"
        )
        yield PartToScore(name, plan, options, sink.partition, target)
