"""``python -m benchmarks.scale [--rows N]``: time and memory as the number of rows grows.

Generates a partitioned table, then trains on and scores prefixes of it, each ten times longer than
the last and each in its own process. The report shows the slope of time on a logarithmic scale,
which is 1 for linear growth, and the peak memory, which should not grow.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.worker import MEGABYTE, peak_megabytes

HERE = Path(__file__).parent
PARTITION_ROWS = 100_000
NUMBERS = ("a", "b", "c", "d")
LABELS = ("p", "q", "r")
SPEC = pc.ModelSpec(
    "label", [pc.Block("gaussian_full", list(NUMBERS)), pc.Block("categorical", ["wind"])]
)
MEBIBYTE = 2.0**20


@dataclass(frozen=True)
class Run:
    """The measurements of one process that trained on or scored the first partitions.

    Attributes:
        work: ``"train"`` or ``"score"``.
        rows: number of rows.
        seconds: wall time of the work.
        cpu_seconds: processor time of the work, all threads.
        peak_mebibytes: peak memory of the process, including imports.
    """

    work: str
    rows: int
    seconds: float
    cpu_seconds: float
    peak_mebibytes: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the runs, print and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the longest prefix")
    parser.add_argument(
        "--lake", type=Path, default=HERE / "cache" / "scale", help="folder for the table"
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for figures")
    parser.add_argument("--run", nargs=2, metavar=("WORK", "ROWS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        work, rows = options.run[0], int(options.run[1])
        print(json.dumps(asdict(measure(work, rows, options.lake))))
        return 0
    lengths = prefixes(options.rows)
    make_lake(options.lake, lengths[-1])
    runs = [
        measure_in_process(work, rows, options.lake)
        for work in ("train", "score")
        for rows in lengths
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "scale.json").write_text(json.dumps([asdict(run) for run in runs], indent=1))
    print(report(runs))
    return 0


def prefixes(rows: int) -> list[int]:
    """Numbers of rows, in ascending steps of ten from at least one partition."""
    partitions = max(1, rows // PARTITION_ROWS)
    steps = range(int(math.log10(partitions)) + 1)
    return sorted({max(1, partitions // 10**step) * PARTITION_ROWS for step in steps})


def make_lake(lake: Path, rows: int) -> None:
    """Generate partitions of normal and text columns; existing ones are not generated again."""
    lake.mkdir(parents=True, exist_ok=True)
    for number in range(rows // PARTITION_ROWS):
        folder = lake / f"day={number:05d}"
        if folder.exists():
            continue
        unfinished = lake / f"_{folder.name}"
        unfinished.mkdir(exist_ok=True)
        pq.write_table(
            partition(number), unfinished / "rows.parquet", use_dictionary=["label", "wind"]
        )
        unfinished.rename(folder)


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


def measure_in_process(work: str, rows: int, lake: Path) -> Run:
    """Measure the work in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--lake", str(lake), "--run"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [*command, work, str(rows)], env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(f"{work} of {rows:,} rows failed:\n{ended.stderr}")
    run = Run(**json.loads(ended.stdout))
    print(f"  {work} {rows:,} rows: {run.seconds:.1f} s …", file=sys.stderr, flush=True)
    return run


def measure(work: str, rows: int, lake: Path) -> Run:
    """Train on or score the first rows of the table in this process."""
    where = [("day", "<", rows // PARTITION_ROWS)]
    start, cpu_start = time.perf_counter(), time.process_time()
    if work == "train":
        processed = pc.fit(lake, SPEC, where=where).training["rows"]
    else:
        model = pc.fit(lake, SPEC, partition={"day": 0})
        sink = lake.with_name(f"{lake.name}-scored")
        shutil.rmtree(sink, ignore_errors=True)
        start, cpu_start = time.perf_counter(), time.process_time()
        report = pc.score(model, lake, sink, where=where, columns=["id"])
        processed = report.rows
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    if work == "score":
        again = pc.score(model, lake, sink, where=where, columns=["id"])
        assert again.skipped == rows // PARTITION_ROWS, "a second run changes nothing"
        shutil.rmtree(sink)
    assert processed == rows, f"{processed:,} rows of {rows:,}"
    peak = peak_megabytes() * MEGABYTE / MEBIBYTE
    return Run(work, rows, seconds, cpu_seconds, peak)


def report(runs: Sequence[Run]) -> str:
    """A Markdown table: time, time per row, slope from the line before, and peak memory."""
    lines = [
        "| work | rows | wall | processor time per row | slope | peak |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    previous: Run | None = None
    for run in runs:
        slope = "–"
        if previous is not None and previous.work == run.work:
            growth = math.log(run.seconds / previous.seconds) / math.log(run.rows / previous.rows)
            slope = f"{growth:.2f}"
        per_row = run.cpu_seconds / run.rows * 1e9
        lines.append(
            f"| {run.work} | {run.rows:,} | {run.seconds:.2f} s | {per_row:.0f} ns | {slope} "
            f"| {run.peak_mebibytes:.0f} MiB |"
        )
        previous = run
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
