"""What engines run: the work on one fragment or one partition, in this process or in another.

Each work is called with its part and returns what the road needs of it. It pickles, and so does
what it returns; tables in it travel as Arrow IPC.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import pyarrow as pa

from probclass_core.decision import Decision
from probclass_core.engine import Engine
from probclass_core.errors import NotSupportedError
from probclass_core.evaluation import Evaluator, Measured
from probclass_core.model import Model
from probclass_core.scored_table import Counted, ScoredPartition, committed, inside
from probclass_core.scoring import Scorer, ScorerOptions
from probclass_core.spec import ModelSpec
from probclass_core.statistics import Statistics, canonical_schema, summarize_batches
from probclass_core.store.kept_statistics import KeptStatistics
from probclass_core.tables.table import Fragment, Plan, Staged, WrittenElsewhere
from probclass_core.threads import ahead

OnRows = Callable[[int], None]
"""Told how many rows were done."""


@dataclass(frozen=True)
class SummarizeFragment:
    """Its statistics."""

    spec: ModelSpec
    schema: pa.Schema

    def __call__(self, fragment: Fragment, on_rows: OnRows = lambda rows: None) -> Statistics:
        return summarize_batches(self.spec, self.schema, fragment.read(), on_rows)


def summaries(
    plan: Plan, spec: ModelSpec, engine: Engine, kept: KeptStatistics | None, on_rows: OnRows
) -> Iterator[Statistics]:
    """Statistics of the fragments of a plan, in their order.

    Args:
        plan: what to read.
        spec: the model.
        engine: who reads.
        kept: statistics that were kept, and where to keep those that were not.
        on_rows: told of progress.
    """
    work: Callable[[Fragment], Statistics] = SummarizeFragment(spec, plan.schema)
    if engine.in_process:
        work = partial(SummarizeFragment(spec, plan.schema), on_rows=on_rows)
    if kept is None:
        yield from _mapped(engine, work, plan.fragments, on_rows)
        return
    features = canonical_schema(plan.schema, spec.features)
    # The store is this thread's to read and write: workers need not reach it.
    held = [kept.holds(fragment.digest) for fragment in plan.fragments]
    missing = (part for part, is_held in zip(plan.fragments, held, strict=True) if not is_held)
    found = _mapped(engine, work, missing, on_rows)
    try:
        for fragment, is_held in zip(plan.fragments, held, strict=True):
            part = kept.load(fragment.digest, features) if is_held else None
            if part is not None:
                on_rows(part.rows)
            else:
                part = next(found if not is_held else _mapped(engine, work, [fragment], on_rows))
                kept.save(fragment.digest, part, getattr(fragment, "footer", None))
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
    """How well a model does on its rows, batch by batch."""

    model: Model
    decision: Decision

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator(self.model, self.decision)

    def __call__(self, fragment: Fragment) -> list[Measured]:
        return [self._evaluator.measure(batch) for batch in fragment.read()]


def measures(plan: Plan, evaluator: Evaluator, engine: Engine) -> Iterator[Measured]:
    """What each batch of a plan adds to an evaluation, in their order, whoever measures."""
    if engine.in_process:
        return engine.map(evaluator.measure, ahead(plan.batches()))
    measure = MeasureFragment(evaluator.model, evaluator.decider.rule)
    return chain.from_iterable(engine.map(measure, plan.fragments))


@dataclass(frozen=True)
class StagedPartition:
    """A partition on its way to the worker that writes it; its model goes another way, once.

    Attributes:
        place: for messages.
        plan: the rows.
        scorer: what to make of them.
        partition: that they must be in.
        staged: where the scored rows go.
    """

    place: str
    plan: Plan
    scorer: ScorerOptions
    partition: Mapping[str, Any]
    staged: Staged

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True)
class WritePartition:
    """Its scored rows, written where they are staged: what is handed over, none of no rows."""

    model: Model

    def __call__(self, part: StagedPartition) -> Any:
        scorer = Scorer(self.model, part.plan.schema, *part.scorer)
        for batch in part.plan.batches():
            part.staged.write(scorer.score(inside(batch, part.partition)))
        if isinstance(part.staged, WrittenElsewhere) and part.staged.rows:
            return part.staged.hand_over()
        return None


def written(
    parts: Sequence[ScoredPartition],
    engine: Engine,
    counted: Counted,
    on_rows: OnRows,
    before_commit: Callable[[], None],
) -> Iterator[int]:
    """Score and commit partitions one after another; workers of other processes are ahead.

    They stage, and this process alone commits.

    Args:
        parts: of one model.
        engine: whose workers score.
        counted: tells of progress, batch by batch.
        on_rows: tells of the progress that others made.
        before_commit: called before each commit; what it raises prevents it.

    Returns:
        Rows of each partition.
    """
    if engine.in_process or not parts:
        for part in parts:
            yield part.write(engine, counted, before_commit)
        return
    with ExitStack() as places:
        staged: deque[Staged] = deque()

        def on_its_way(part: ScoredPartition) -> StagedPartition:
            staged.append(place := places.enter_context(part.stage()))
            if not isinstance(place, WrittenElsewhere):
                raise NotSupportedError(
                    f"{part.sink.place}: tables of this format are written by this process alone; "
                    "score with the engine 'threads'."
                )
            return StagedPartition(
                part.sink.place, part.plan, part.scorer.options, part.sink.partition, place
            )

        write = WritePartition(parts[0].scorer.model)
        for part, found in zip(parts, engine.map(write, map(on_its_way, parts)), strict=True):
            place = staged.popleft()
            on_rows(part.rows or 0)
            if found is not None and isinstance(place, WrittenElsewhere):
                place.take_over(found)
            yield committed(place, before_commit)
