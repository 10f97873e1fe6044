"""Sums over the batches of a plan, measured on an engine; moments of a few numbers of each row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, in_slices
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
        parts = engine.map(partial(_measure_unit, measure, batch_rows), plan.units)
        measured = chain.from_iterable(parts)
    total = no_rows
    for sums in measured:
        counter.add(sums.rows)
        total += sums
    return total


def _measure_unit(
    measure: Callable[[pa.RecordBatch], Sums], batch_rows: int, unit: Unit
) -> list[Sums]:
    return [measure(batch) for batch in in_slices(unit.read(), batch_rows)]


@dataclass(frozen=True)
class RowMoments:
    """Moments of ``m`` variables.

    Attributes:
        rows: number of rows.
        mean: means, ``(m,)``.
        scatter: sums of products of deviations, ``(m, m)``; NaN if a variable may be infinite.
    """

    rows: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of_rows(cls, variables: FloatArray) -> RowMoments:
        """Moments of ``n`` rows, ``(m, n)``."""
        rows = variables.shape[1]
        with np.errstate(invalid="ignore"):  # deviations of infinite variables are NaN
            mean = variables.sum(axis=1) / max(rows, 1)
            deviation = variables - mean[:, None]
            return cls(rows, mean, deviation @ deviation.T)

    def __add__(self, other: RowMoments) -> RowMoments:
        """Moments of the rows of both, by the update of Chan, Golub and LeVeque (1979)."""
        if not (self.rows and other.rows):
            return self if self.rows else other
        rows = self.rows + other.rows
        with np.errstate(invalid="ignore"):
            shift = other.mean - self.mean
            # Of an infinite mean the shift may be undefined, but not the mean of both.
            mean = self.mean * (self.rows / rows) + other.mean * (other.rows / rows)
            between = np.outer(shift, shift) * (self.rows * (other.rows / rows))
            return RowMoments(rows, mean, self.scatter + other.scatter + between)

    @property
    def standard_errors(self) -> list[float | None]:
        """Standard errors of the means; None for one that is unknown."""
        if self.rows < 2:
            return [None] * len(self.mean)
        errors = np.sqrt(np.diagonal(self.scatter) / (self.rows - 1.0) / self.rows)
        return [float(error) if np.isfinite(error) else None for error in errors]
