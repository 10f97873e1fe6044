"""A table for engines, units that fail in a worker, and values to compare."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lakes import write_rows

import probclass_core as pc
from probclass_core.io.table import Plan, Source, Unit

SPEC = pc.ModelSpec(
    "air",
    [
        pc.Block("gaussian_diagonal", ["x"]),
        pc.Block("gaussian_full", ["y", "e"]),
        pc.Block("gaussian_shared", ["l", "m"]),
        pc.Block("categorical", ["wind"]),
        pc.Block("categorical_joint", ["s", "t"]),
        pc.Block("discretized", ["n"], cells=50),
        pc.Block("bernoulli", ["g"]),
        pc.Block("multinomial", ["h", "i"]),
        pc.Block("poisson", ["j"]),
        pc.Block("bernoulli", ["words"], "bernoulli_of_terms"),
        pc.Block("multinomial", ["tally"], "multinomial_of_terms"),
        pc.Block("poisson", ["events"], "poisson_of_terms"),
        pc.Block("knn_density", ["z"]),
    ],
    weight="w",
)
"""Every estimator."""
WEIGHTED = pc.ModelSpec(
    "air",
    [
        pc.Block("gaussian_full", ["x", "y"]),
        pc.Block("discretized", ["x"], "bins"),
        pc.Block("categorical", ["wind"]),
        pc.Block("categorical", ["wind"], "pair", given=["z"]),
        pc.Block("bernoulli", ["words"]),
    ],
    weight="w",
    block_weights="fit",
)
"""Blocks with fitted weights, some of which share columns; one needs two passes."""
UNLABELED = pc.ModelSpec(None, [pc.Block("knn_density", ["z"]), pc.Block("gaussian_full", ["x"])])


def rows_of(seed: int, rows: int = 60) -> pa.Table:
    """Rows whose sums round differently in every order; some files lack a class."""
    noise = np.random.default_rng(seed)
    gap = noise.random(rows) < 0.1
    air = noise.integers(0, 1 + (seed + 2) % 3, rows)
    return pa.table(
        {
            "id": 1000 * seed + np.arange(rows),
            "x": pa.array(noise.lognormal(0, 9, rows), mask=gap),
            "y": 1e6 + noise.normal(size=rows) + air,
            "z": noise.normal(air).round(2),
            "e": noise.normal(0, 1e-3, rows),
            "l": noise.normal(0, 1, rows),
            "m": noise.normal(5, 1, rows),
            "n": noise.normal(air),
            "wind": pa.array(noise.choice(["N", "S"], rows), mask=noise.random(rows) < 0.1),
            "s": noise.choice(["p", "q", "r"], rows),
            "t": pa.array(noise.integers(0, 9, rows), mask=gap),
            "g": noise.random(rows) < 0.3,
            "h": noise.poisson(3, rows),
            "i": noise.poisson(4, rows),
            "j": pa.array(noise.poisson(5, rows), mask=gap),
            "words": [list(noise.choice(["p", "q", "r"], 3)) for _ in range(rows)],
            "tally": pa.array(
                [[("p", noise.integers(9)), (f"q{noise.integers(9)}", 2)] for _ in range(rows)],
                pa.map_(pa.string(), pa.int64()),
            ),
            "events": [list(noise.choice(["p", "q", "r"], noise.poisson(3))) for _ in range(rows)],
            "w": noise.random(rows),
            "air": np.array(["good", "fair", "bad"])[air],
        }
    )


def write_lake(root: Path, months: int = 5) -> Path:
    """Write a partition of two files for each month."""
    for month in range(months):
        write_rows(root / f"month={month:02d}", rows_of(2 * month), rows_of(2 * month + 1))
    return root


def scored_rows(scored: Any) -> list[dict[str, Any]]:
    """The rows of a scored table, sorted by id."""
    plan = pc.open_table(scored).plan()
    return pa.Table.from_batches(plan.batches(), plan.schema).sort_by("id").to_pylist()


def kill_worker(flag: Path) -> None:
    """Kill this process, as the kernel does when it takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_worker_once(flag: Path) -> None:
    """Kill the first process that calls this."""
    if _is_first(flag):
        os.kill(os.getpid(), signal.SIGKILL)


def raise_error(flag: Path) -> None:
    """Raise an error of a kind that probclass does not know."""
    raise RuntimeError("no such luck")


def raise_error_once(flag: Path) -> None:
    """Raise an error in the first process that calls this."""
    if _is_first(flag):
        raise OSError("the disk was away")


def take_a_nap(flag: Path) -> None:
    """Sleep for a short or a longer moment."""
    time.sleep(random.choice([0.01, 0.03]))


def _is_first(flag: Path) -> bool:
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class FaultyUnit(Unit):
    """A unit that calls a function before it is read."""

    digest: str | None
    unit: Unit
    fault: Callable[[Path], None]
    flag: Path

    def read(self) -> Iterator[pa.RecordBatch]:
        self.fault(self.flag)
        yield from self.unit.read()

    def __str__(self) -> str:
        return str(self.unit)


class FaultyTable(Source):
    """A table with one faulty unit.

    Args:
        root: root of the table, or the table.
        number: position of the unit.
        fault: function to call before the unit is read.
        flag: path that the function gets.
    """

    def __init__(
        self, root: Path | Source, number: int, fault: Callable[[Path], None], flag: Path
    ) -> None:
        self._table: Source = pc.open_table(root)
        self._fault = number, fault, flag
        self.uri = self._table.uri
        self.partition_columns = self._table.partition_columns

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def partitions(self, where: Any = None) -> Any:
        return self._table.partitions(where)

    def plan(self, *arguments: Any, **options: Any) -> Plan:
        plan = self._table.plan(*arguments, **options)
        number, fault, flag = self._fault
        units = list(plan.units)
        units[number] = FaultyUnit(units[number].digest, units[number], fault, flag)
        return replace(plan, units=units)


def private_memory() -> int:
    """Bytes of memory of this process that belong to no file, and so are not shared.

    Pages of a file would count as private, too, until another process looks at them.
    """
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in rollup if line.startswith("Anonymous:"))


@dataclass(frozen=True)
class LogDensities:
    """The private memory of the worker after it scored a batch, and the log densities."""

    model: pc.Model

    def __call__(self, batch: pa.RecordBatch) -> tuple[int, np.ndarray]:
        densities = self.model.posterior(batch).log_density
        return private_memory(), densities
