"""Sums over the batches of a plan, measured on an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, Self, TypeVar

import pyarrow as pa

from probclass_core.arrow.arrays import in_slices
from probclass_core.execution.engine import Engine
from probclass_core.execution.progress import RowCounter
from probclass_core.io.table import Plan, Unit


class Summable(Protocol):
    """Sums over rows; those of batches add up."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def __add__(self, other: Self, /) -> Self: ...


Sums = TypeVar("Sums", bound=Summable)


def sum_over_batches(
    measure: Callable[[pa.RecordBatch], Sums],
    no_rows: Sums,
    plan: Plan,
    batch_rows: int,
    engine: Engine,
    counter: RowCounter,
) -> Sums:
    """Measure the batches of a plan, and add up what is measured, in order.

    Args:
        measure: called with each batch, from several threads; if the engine has workers in other
            processes, it is pickled.
        no_rows: the sums of no rows.
        plan: rows to read.
        batch_rows: most rows of a batch.
        engine: engine that runs the work, batch by batch in threads, else unit by unit.
        counter: counts the rows.
    """
    if engine.in_process:
        measured = engine.map(measure, plan.batches(batch_rows))
    else:
        parts = engine.map(_MeasureUnit(measure, batch_rows), plan.units)
        measured = chain.from_iterable(parts)
    total = no_rows
    for sums in measured:
        counter.add(sums.rows)
        total += sums
    return total


@dataclass(frozen=True)
class _MeasureUnit(Generic[Sums]):
    measure: Callable[[pa.RecordBatch], Sums]
    batch_rows: int

    def __call__(self, unit: Unit) -> list[Sums]:
        return [self.measure(batch) for batch in in_slices(unit.read(), self.batch_rows)]
