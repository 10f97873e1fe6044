"""Measures the batches of a plan on an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

import pyarrow as pa

from probclass_core.arrow.arrays import in_slices
from probclass_core.execution.engine import Engine
from probclass_core.io.table import Plan, Unit

Measured = TypeVar("Measured")


def measure_batches(
    measure: Callable[[pa.RecordBatch], Measured], plan: Plan, batch_rows: int, engine: Engine
) -> Iterator[Measured]:
    """Measure the batches of a plan, in order.

    Args:
        measure: called with each batch, from several threads; if the engine has workers in other
            processes, it is pickled.
        plan: rows to read.
        batch_rows: most rows of a batch.
        engine: engine that runs the work, batch by batch in threads, else unit by unit.
    """
    if engine.in_process:
        return engine.map(measure, plan.batches(batch_rows))
    return chain.from_iterable(engine.map(_MeasureUnit(measure, batch_rows), plan.units))


@dataclass(frozen=True)
class _MeasureUnit(Generic[Measured]):
    measure: Callable[[pa.RecordBatch], Measured]
    batch_rows: int

    def __call__(self, unit: Unit) -> list[Measured]:
        return [self.measure(batch) for batch in in_slices(unit.read(), self.batch_rows)]
