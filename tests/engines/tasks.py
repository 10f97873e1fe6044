"""Lakes for engines, estimators that fail in a worker, and what to compare."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from probclass_core.io.table import Fragment, Plan, Table

SPEC = pc.ModelSpec(
    "air",
    [
        pc.Block("gaussian_full", ["x", "y"]),
        pc.Block("categorical", ["wind"]),
        pc.Block("knn_density", ["z"]),
        pc.Block("bernoulli", ["words"]),
    ],
    weight="w",
)


def rows_of(seed: int, rows: int = 60) -> pa.Table:
    """Rows whose sums round differently in every order."""
    noise = np.random.default_rng(seed)
    good = noise.random(rows) < 0.5
    return pa.table(
        {
            "id": 1000 * seed + np.arange(rows),
            "x": pa.array(noise.lognormal(0, 6, rows), mask=noise.random(rows) < 0.1),
            "y": 1e6 + noise.normal(size=rows) + good,
            "z": noise.normal(good),
            "wind": pa.array(noise.choice(["N", "S"], rows), mask=noise.random(rows) < 0.1),
            "words": [list(noise.choice(["p", "q", "r"], 3)) for _ in range(rows)],
            "w": noise.random(rows),
            "air": np.where(good, "good", "bad"),
        }
    )


def write_lake(root: Path, months: int = 5) -> Path:
    """A partition of two files for each month; fragments are row groups of 25 rows and less."""
    for month in range(months):
        folder = root / f"month={month:02d}"
        folder.mkdir(parents=True)
        for part in range(2):
            pq.write_table(rows_of(2 * month + part), folder / f"{part}.parquet")
    return root


def digests(root: Path) -> dict[str, str]:
    """Of every file below, by its path."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def rows_in(place: Any) -> list[dict[str, Any]]:
    """Of a scored table, in order of their ids."""
    plan = pc.open_table(place).plan()
    return pa.Table.from_batches(plan.batches(), plan.schema).sort_by("id").to_pylist()


def die(flag: Path) -> None:
    """What the kernel does to a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(flag: Path) -> None:
    """The first time only, whoever it is."""
    if _first(flag):
        os.kill(os.getpid(), signal.SIGKILL)


def fail(flag: Path) -> None:
    """As a library does that nobody has thought of."""
    raise RuntimeError("no such luck")


def fail_once(flag: Path) -> None:
    """The first time only."""
    if _first(flag):
        raise OSError("the disk was away")


def meet(folder: Path) -> None:
    """Wait until two processes are at it."""
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    given_up = time.monotonic() + 60.0
    while len(list(folder.iterdir())) < 2:
        if time.monotonic() > given_up:
            raise TimeoutError("nobody else came")
        time.sleep(0.01)


def _first(flag: Path) -> bool:
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class Cursed:
    """A fragment that something befalls."""

    fragment: Fragment
    befalls: Callable[[Path], None]
    flag: Path

    @property
    def digest(self) -> str | None:
        return self.fragment.digest

    def read(self) -> Iterator[pa.RecordBatch]:
        self.befalls(self.flag)
        yield from self.fragment.read()

    def __str__(self) -> str:
        return str(self.fragment)


class CursedTable:
    """A table one of whose fragments is cursed.

    Args:
        root: of the table, or the table.
        number: of the fragment.
        befalls: what it does where it is read.
        flag: a file that tells that it did.
    """

    def __init__(
        self, root: Path | Table, number: int, befalls: Callable[[Path], None], flag: Path
    ) -> None:
        self._table: Table = pc.open_table(root)
        self._curse = number, befalls, flag
        self.schema = self._table.schema
        self.uri = self._table.uri
        self.partition_columns = self._table.partition_columns
        self.partitions = self._table.partitions

    def plan(self, *given: Any, **rows: Any) -> Plan:
        plan = self._table.plan(*given, **rows)
        number, befalls, flag = self._curse
        fragments = list(plan.fragments)
        fragments[number] = Cursed(fragments[number], befalls, flag)
        return Plan(
            plan.schema, fragments, plan.rows, plan.snapshot, plan.version, plan.fragment_rows
        )


def own_memory() -> int:
    """Bytes of memory of this process that are not those of a file, and so of no other's.

    Pages of a file count as private, too, while no other process has looked at them.
    """
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in rollup if line.startswith("Anonymous:"))


@dataclass(frozen=True)
class Densities:
    """Log densities of a batch, and the memory that the worker has taken for itself by then."""

    model: pc.Model

    def __call__(self, batch: pa.RecordBatch) -> tuple[int, np.ndarray]:
        found = self.model.posterior(batch).log_density
        return own_memory(), found


@dataclass(frozen=True)
class DensitiesByStore:
    """The same, of a model that the worker loads."""

    store: str
    ref: str

    def __call__(self, batch: pa.RecordBatch) -> tuple[int, np.ndarray]:
        return Densities(pc.ModelStore(self.store).load(self.ref))(batch)
