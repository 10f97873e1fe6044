"""``python -m benchmarks.scale [--rows N] [--record]``: time and memory as the rows grow in number.

Generates a partitioned table, then trains on and scores prefixes of it, each ten times longer than
the last and each in its own process. The time per row and the peak memory should not grow.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks import figures, report
from benchmarks.datasets import cached
from benchmarks.worker import child_environment, peak_megabytes

HERE = Path(__file__).parent
PARTITION_ROWS = 100_000
NUMBERS = ("a", "b", "c", "d")
LABELS = ("p", "q", "r")
SPEC = pc.ModelSpec(
    "label", [pc.Block("gaussian_full", list(NUMBERS)), pc.Block("categorical", ["wind"])]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the runs, and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the longest prefix")
    parser.add_argument(
        "--lake", type=Path, default=HERE / "cache" / "scale", help="folder for the table"
    )
    parser.add_argument("--record", action="store_true", help="store the figures")
    parser.add_argument("--run", nargs=2, metavar=("WORK", "ROWS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(measure(options.run[0], int(options.run[1]), options.lake)))
        return 0
    lengths = prefixes(options.rows)
    make_lake(options.lake, lengths[-1])
    runs = [
        measure_in_process(work, rows, options.lake)
        for work in ("train", "score")
        for rows in lengths
    ]
    if options.record:
        figures.record("scale", {"runs": runs})
    print(table({"runs": runs}))
    return 0


def prefixes(rows: int) -> list[int]:
    """Numbers of rows, in ascending steps of ten from at least one partition."""
    partitions = max(1, rows // PARTITION_ROWS)
    steps = range(int(math.log10(partitions)) + 1)
    return sorted({max(1, partitions // 10**step) * PARTITION_ROWS for step in steps})


def make_lake(lake: Path, rows: int) -> None:
    """Generate partitions of normal and text columns; existing ones are not generated again."""
    for number in range(rows // PARTITION_ROWS):
        write = functools.partial(_write_partition, number)
        cached(lake / f"day={number:05d}" / "rows.parquet", write)


def _write_partition(number: int, path: Path) -> None:
    pq.write_table(partition(number), path, use_dictionary=["label", "wind"])


def partition(number: int) -> pa.Table:
    """The rows of one partition."""
    generator = np.random.default_rng(number)
    classes = generator.integers(0, len(LABELS), PARTITION_ROWS)
    columns = {name: generator.standard_normal(PARTITION_ROWS) + 0.5 * classes for name in NUMBERS}
    wind = (classes + generator.integers(0, 3, PARTITION_ROWS)) % 4
    return pa.table(
        {
            "id": number * PARTITION_ROWS + np.arange(PARTITION_ROWS),
            **columns,
            "wind": pa.array(["N", "E", "S", "W"]).take(pa.array(wind)),
            "label": pa.array(LABELS).take(pa.array(classes)),
        }
    )


def measure_in_process(work: str, rows: int, lake: Path) -> dict[str, Any]:
    """Measure the work in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--lake", str(lake), "--run"]
    ended = subprocess.run(
        [*command, work, str(rows)],
        env=child_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    run: dict[str, Any] = json.loads(ended.stdout)
    print(f"  {work} {rows:,} rows: {run['seconds']:.1f} s …", file=sys.stderr, flush=True)
    return run


def measure(work: str, rows: int, lake: Path) -> dict[str, Any]:
    """Train on or score the first rows of the table in this process.

    Returns:
        The arguments, seconds of wall and of processor time, and the peak memory in MB.
    """
    where = [("day", "<", rows // PARTITION_ROWS)]
    start, cpu_start = time.perf_counter(), time.process_time()
    if work == "train":
        processed = pc.fit(lake, SPEC, where=where).training["rows"]
    else:
        model = pc.fit(lake, SPEC, partition={"day": 0})
        sink = lake.with_name(f"{lake.name}-scored")
        shutil.rmtree(sink, ignore_errors=True)
        start, cpu_start = time.perf_counter(), time.process_time()
        processed = pc.score(
            model, lake, sink, where=where, options=pc.ScoringOptions(columns=["id"])
        ).rows
    measured = {
        "work": work,
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu_start,
        "peak_megabytes": peak_megabytes(),
    }
    if work == "score":
        again = pc.score(model, lake, sink, where=where, options=pc.ScoringOptions(columns=["id"]))
        assert again.counts["unchanged"] == rows // PARTITION_ROWS, "a second run changes nothing"
        shutil.rmtree(sink)
    assert processed == rows, f"{processed:,} rows of {rows:,}"
    return measured


def table(measured: Mapping[str, Any]) -> str:
    """The processor time per row and the peak memory of the runs, by work and number of rows."""
    cells = {
        (run["work"], run["rows"]): [
            f"{run['cpu_seconds'] / run['rows'] * 1e9:,.0f} ns",
            report.amount(run["peak_megabytes"], "MB"),
        ]
        for run in measured["runs"]
    }
    lengths = dict.fromkeys(rows for _, rows in cells)
    header = ["rows", "train, per row", "memory", "score, per row", "memory"]
    rows = ([f"{each:,}", *cells["train", each], *cells["score", each]] for each in lengths)
    return report.table(header, rows)


if __name__ == "__main__":
    sys.exit(main())
