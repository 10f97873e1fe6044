"""Processor time of one task that scores many small partitions, by the format of the sink.

python -m benchmarks.partitions [--partitions 500] [--rows 1000] [--record]

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
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks import figures, report

Result = TypeVar("Result")


def measure(folder: Path, partitions: int, rows: int) -> dict[str, Any]:
    """Milliseconds of processor time for each partition.

    Args:
        folder: empty folder for the tables.
        partitions: number of partitions.
        rows: rows of each partition.

    Returns:
        The arguments, the time of "bare", and by sink that of its first and second run.
    """
    lake = _lake(folder / "lake", partitions, rows)
    model = pc.fit(lake, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x0", "x1", "x2"])]))
    _write_bare(model, lake, folder / "warm")
    write_bare = functools.partial(_write_bare, model, lake, folder / "bare")
    bare, _ = _milliseconds(write_bare, partitions)
    sinks = {}
    for name, sink in _sinks(folder).items():
        pc.score(model, lake, _sinks(folder / "warm")[name], partition={"day": "d0000"})
        score = functools.partial(pc.score, model, lake, sink)
        scored, first = _milliseconds(score, partitions)
        unchanged, second = _milliseconds(score, partitions)
        if [len(first.scored), len(second.unchanged)] != [partitions, partitions]:
            raise RuntimeError(f"{name}: {first}, then {second}")
        sinks[name] = {"scored": scored, "unchanged": unchanged}
    return {"partitions": partitions, "rows": rows, "bare": bare, "sinks": sinks}


def table(measured: Mapping[str, Any]) -> str:
    """What `measure` returned as a Markdown table."""
    rows = [["bare", f"{measured['bare']:.1f}", "–"]]
    rows += [
        [name, *(f"{cost[run]:.1f}" for run in ("scored", "unchanged"))]
        for name, cost in measured["sinks"].items()
    ]
    size = f"{measured['partitions']:,} partitions of {measured['rows']:,} rows"
    head = f"Milliseconds of processor time for each of {size}:\n\n"
    return head + report.table(["sink", "scored", "found up to date"], rows)


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
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--record", action="store_true", help="store the figures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder), options.partitions, options.rows)
    if options.record:
        figures.record("partitions", measured)
    print(table(measured))


if __name__ == "__main__":
    main()
