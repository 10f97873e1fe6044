"""Processor time of one task that scores many small partitions, by the format of the sink.

python -m benchmarks.partitions [--partitions 500] [--rows 1000] [--page docs/tables.md]

"Bare" scores the same partitions in memory, and writes each with pyarrow, without a commit. Every
sink is measured in the same process, after a run that warms up. The second run of each sink finds
that all of its partitions are up to date.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.report import update_page

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """Processor time for each partition, in milliseconds.

    Attributes:
        bare: of scoring in memory and writing with pyarrow.
        scored: of the first run, which scores all partitions.
        unchanged: of the second run, which finds all of them up to date.
    """

    bare: float
    scored: float
    unchanged: float


def measure(folder: Path, partitions: int, rows: int) -> dict[str, Cost]:
    """The cost of each sink, by name.

    Args:
        folder: empty folder for the tables.
        partitions: number of partitions.
        rows: rows of each partition.
    """
    lake = _lake(folder / "lake", partitions, rows)
    model = pc.fit(lake, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x0", "x1", "x2"])]))
    _write_bare(model, lake, folder / "warm")
    write_bare = functools.partial(_write_bare, model, lake, folder / "bare")
    bare, _ = _milliseconds(write_bare, partitions)
    costs = {}
    for name, sink in _sinks(folder).items():
        pc.score(model, lake, _sinks(folder / "warm")[name], partition={"day": "d0000"})
        reconcile = functools.partial(pc.reconcile, model, lake, sink)
        scored, first = _milliseconds(reconcile, partitions)
        unchanged, second = _milliseconds(reconcile, partitions)
        if [len(first.scored), len(second.unchanged)] != [partitions, partitions]:
            raise RuntimeError(f"{name}: {first}, then {second}")
        costs[name] = Cost(bare, scored, unchanged)
    return costs


def table(costs: Mapping[str, Cost], partitions: int, rows: int) -> str:
    """The costs as a Markdown table; arguments as for `measure`."""
    lines = [
        f"Milliseconds of processor time for each of {partitions:,} partitions of {rows:,} rows:",
        "",
        "| sink | scored | over bare scoring | found up to date |",
        "|---|--:|--:|--:|",
    ]
    for name, cost in costs.items():
        over = cost.scored - cost.bare
        lines.append(f"| {name} | {cost.scored:.0f} | {over:.0f} | {cost.unchanged:.1f} |")
    return "\n".join(lines)


def _lake(lake: Path, partitions: int, rows: int) -> Path:
    rng = np.random.default_rng(17)
    for number in range(partitions):
        label = rng.integers(0, 2, rows)
        columns = {f"x{column}": rng.normal(label) for column in range(5)}
        path = lake / f"day=d{number:04d}" / "rows.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"y": label.astype(str), **columns}), path)
    return lake


def _sinks(folder: Path) -> dict[str, pc.TableRef]:
    folder.mkdir(exist_ok=True)
    options = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    return {
        "Parquet": pc.TableRef(str(folder / "parquet")),
        "Delta": pc.TableRef(str(folder / "delta"), format="delta"),
        "Iceberg": pc.TableRef("iceberg://lake/air.scored", options=options),
    }


def _write_bare(model: pc.Model, lake: Path, sink: Path) -> None:
    for path in sorted(lake.rglob("*.parquet")):
        out = sink / path.parent.name
        out.mkdir(parents=True)
        scored = model.predict_table(pq.read_table(path, partitioning=None))
        pq.write_table(scored, out / path.name)


def _milliseconds(call: Callable[[], Result], partitions: int) -> tuple[float, Result]:
    """Processor time for each partition, and what the call returned."""
    began = time.process_time()
    result = call()
    return (time.process_time() - began) / partitions * 1e3, result


def main() -> None:
    """Measure, print the table, and write it into a page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--page", type=Path, help="page whose table is replaced")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(Path(folder), options.partitions, options.rows)
    figures = table(costs, options.partitions, options.rows)
    print(figures)
    if options.page is not None:
        update_page(options.page, figures)


if __name__ == "__main__":
    main()
