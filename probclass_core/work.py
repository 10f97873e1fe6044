"""What engines run: the work on one fragment, in this process or in another.

Each work is called with a fragment and returns what the road needs of it. It pickles, and so does
what it returns; tables in it travel as Arrow IPC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pyarrow as pa

from probclass_core.decision import Decision
from probclass_core.engine import Engine
from probclass_core.evaluation import Evaluator, Measured
from probclass_core.model import Model
from probclass_core.spec import ModelSpec
from probclass_core.statistics import Statistics, summarize_batches
from probclass_core.store.statistics_cache import KeptStatistics
from probclass_core.tables.table import Fragment, Plan

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
    summarize = SummarizeFragment(spec, plan.schema)

    def here(fragment: Fragment) -> Statistics:
        part = None if kept is None else kept.load(fragment.digest)
        if part is not None:
            on_rows(part.rows)
            return part
        part = summarize(fragment, on_rows)
        if kept is not None:
            kept.save(fragment.digest, part)
        return part

    if engine.in_process:
        yield from engine.map(here, plan.fragments)
        return
    # The store is this process's to read and write: workers need not reach it.
    held = [kept is not None and kept.holds(fragment.digest) for fragment in plan.fragments]
    missing = (part for part, is_held in zip(plan.fragments, held, strict=True) if not is_held)
    found = engine.map(summarize, missing)
    for fragment, is_held in zip(plan.fragments, held, strict=True):
        if is_held:
            yield here(fragment)
            continue
        part = next(found)
        on_rows(part.rows)
        if kept is not None:
            kept.save(fragment.digest, part)
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
        return engine.map(evaluator.measure, plan.batches())
    measure = MeasureFragment(evaluator.model, evaluator.decider.rule)
    return chain.from_iterable(engine.map(measure, plan.fragments))
