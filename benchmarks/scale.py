"""``python -m benchmarks.scale [--rows N]``: time and memory from many rows to very many.

A lake of partitions is made on the fly; prefixes of it, ten times longer each, are trained on and
scored, each in a process of its own. What grows with the rows shows as the slope of time on a
logarithmic scale, 1 for linear; what must not grow is the peak of memory.
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
    """What one process did with the first partitions of the lake.

    Attributes:
        work: ``"train"`` or ``"score"``.
        rows: how many there were.
        seconds: wall time of the work alone.
        cpu_seconds: processor time of it, all threads.
        peak_mebibytes: of the process, imports included.
    """

    work: str
    rows: int
    seconds: float
    cpu_seconds: float
    peak_mebibytes: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the longest prefix")
    parser.add_argument("--lake", type=Path, default=HERE / "cache" / "scale", help="made here")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where figures go")
    parser.add_argument("--run", nargs=2, metavar=("WORK", "ROWS"), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.run:
        work, rows = asked.run[0], int(asked.run[1])
        print(json.dumps(asdict(measured(work, rows, asked.lake))))
        return 0
    lengths = prefixes(asked.rows)
    make_lake(asked.lake, lengths[-1])
    runs = [alone(work, rows, asked.lake) for work in ("train", "score") for rows in lengths]
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "scale.json").write_text(json.dumps([asdict(run) for run in runs], indent=1))
    print(report(runs))
    return 0


def prefixes(rows: int) -> list[int]:
    """Lengths in rows, in steps of ten, down to one partition; the last is the longest."""
    partitions = max(1, rows // PARTITION_ROWS)
    steps = range(int(math.log10(partitions)) + 1)
    return sorted({max(1, partitions // 10**step) * PARTITION_ROWS for step in steps})


def make_lake(lake: Path, rows: int) -> None:
    """Partitions of normal and text columns; those that are there are kept."""
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
    """The rows of one day."""
    noise = np.random.default_rng(number)
    classes = noise.integers(0, len(LABELS), PARTITION_ROWS)
    columns = {name: noise.standard_normal(PARTITION_ROWS) + 0.5 * classes for name in NUMBERS}
    wind = (classes + noise.integers(0, 3, PARTITION_ROWS)) % 4
    return pa.table(
        {
            "id": number * PARTITION_ROWS + np.arange(PARTITION_ROWS),
            **columns,
            "wind": pa.array(["N", "E", "S", "W"]).take(pa.array(wind)),
            "label": pa.array(LABELS).take(pa.array(classes)),
        }
    )


def alone(work: str, rows: int, lake: Path) -> Run:
    """The work in a process of its own."""
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


def measured(work: str, rows: int, lake: Path) -> Run:
    """Train on, or score, the first rows of the lake in this process."""
    where = [("day", "<", rows // PARTITION_ROWS)]
    began, used = time.perf_counter(), time.process_time()
    if work == "train":
        done = pc.fit(lake, SPEC, where=where).training["rows"]
    else:
        model = pc.fit(lake, SPEC, partition={"day": 0})
        sink = lake.with_name(f"{lake.name}-scored")
        shutil.rmtree(sink, ignore_errors=True)
        began, used = time.perf_counter(), time.process_time()
        report = pc.score(model, lake, sink, where=where, columns=["id"])
        done = report.rows
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - used
    if work == "score":
        again = pc.score(model, lake, sink, where=where, columns=["id"])
        assert again.skipped == rows // PARTITION_ROWS, "a rerun changes nothing"
        shutil.rmtree(sink)
    assert done == rows, f"{done:,} rows of {rows:,}"
    peak = peak_megabytes() * MEGABYTE / MEBIBYTE
    return Run(work, rows, seconds, cpu_seconds, peak)


def report(runs: Sequence[Run]) -> str:
    """A table in Markdown: time, time by row, the slope from the line before, peak of memory."""
    lines = [
        "| work | rows | wall | processor time a row | slope | peak |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    before: Run | None = None
    for run in runs:
        slope = "–"
        if before is not None and before.work == run.work:
            grown = math.log(run.seconds / before.seconds) / math.log(run.rows / before.rows)
            slope = f"{grown:.2f}"
        each = run.cpu_seconds / run.rows * 1e9
        lines.append(
            f"| {run.work} | {run.rows:,} | {run.seconds:.2f} s | {each:.0f} ns | {slope} "
            f"| {run.peak_mebibytes:.0f} MiB |"
        )
        before = run
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
