"""``python -m benchmarks.billion [--rows N] [--record]``: train on a billion rows after a kill.

The table has 64 files, which are links to one. A first process trains with cached statistics and is
killed in the middle; a second one continues; a third one trains from the beginning without a cache.
Both models must have the same id.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks import figures, report
from benchmarks.scale import HERE, PARTITION_ROWS, SPEC, partition
from benchmarks.worker import child_environment, peak_megabytes

FILES = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the three processes and print what they measured; return 1 if the models differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.billion", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000_000, help="rows of the table")
    parser.add_argument("--folder", type=Path, default=HERE / "cache" / "billion")
    parser.add_argument("--record", action="store_true", help="store the figures")
    parser.add_argument("--run", choices=["cached", "plain"], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        _train(options.folder, use_cache=options.run == "cached")
        return 0
    rows = _make_table(options.folder / "table", options.rows)
    shutil.rmtree(options.folder / "store", ignore_errors=True)
    killed = _run(options.folder, "cached", kill_at=rows // 2)
    resumed = _run(options.folder, "cached")
    whole = _run(options.folder, "plain")
    if resumed["id"] != whole["id"] or whole["rows"] != rows:
        print(f"the models differ: {resumed}, {whole}", file=sys.stderr)
        return 1
    runs = {"killed": killed, "resumed": resumed, "whole": whole}
    measured = {"rows": rows, "files": FILES, "runs": runs}
    if options.record:
        figures.record("billion", measured)
    print(summary(measured))
    return 0


def summary(measured: Mapping[str, Any]) -> str:
    """The runs in a sentence."""

    def cost(run: str) -> str:
        figures = measured["runs"][run]
        memory = report.amount(figures["peak_megabytes"], "MB")
        return f"{report.amount(figures['cpu_seconds'], 's')} of processor time and {memory}"

    killed = measured["runs"]["killed"]["rows"]
    return (
        f"{measured['rows']:,} rows in {measured['files']} files take {cost('whole')}. "
        f"Killed after {killed:,} rows, the rest takes {cost('resumed')}."
    )


def _make_table(folder: Path, rows: int) -> int:
    """Write the file of which all files are links, and return the number of rows of the table."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    first, size = folder / "00.parquet", rows // FILES
    with pq.ParquetWriter(first, partition(0).schema, use_dictionary=["label", "wind"]) as writer:
        for number in range(-(-size // PARTITION_ROWS)):
            part = partition(number)
            writer.write_table(part[: size - number * PARTITION_ROWS])
    for number in range(1, FILES):
        os.link(first, folder / f"{number:02}.parquet")
    return size * FILES


def _train(folder: Path, *, use_cache: bool) -> None:
    """Train in this process; print the rows that are done, then what was measured."""
    model = pc.fit(
        folder / "table",
        SPEC,
        cache=folder / "store" if use_cache else None,
        progress=lambda done, total: print(json.dumps({"rows": done}), flush=True),
    )
    measured = {
        "rows": model.training["rows"],
        "id": model.id,
        "cpu_seconds": time.process_time(),
        "peak_megabytes": peak_megabytes(),
    }
    print(json.dumps(measured), flush=True)


def _run(folder: Path, work: str, kill_at: int | None = None) -> dict[str, Any]:
    """Train in another process, and return its last line; kill it at a number of rows, if given."""
    command = [sys.executable, "-m", "benchmarks.billion", "--folder", str(folder), "--run", work]
    start = time.perf_counter()
    last: dict[str, Any] = {}
    with subprocess.Popen(
        command, env=child_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = json.loads(line)
            if kill_at is not None and last["rows"] >= kill_at:
                process.kill()
                break
    if kill_at is None and process.returncode:
        raise SystemExit(f"training failed with exit code {process.returncode}.")
    return {"seconds": time.perf_counter() - start, **last}


if __name__ == "__main__":
    sys.exit(main())
