"""A scoring killed before any step leaves the old partition or the new one, and readers see one.

Scorings of every format are killed at random instants in ``test_kills.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from monthly_lake import contents, model, rows_of, write_rows

import probclass_core as pc

REPLACEMENTS = 200
PROCESSES = Path(__file__).parent / "scoring_processes.py"
ROWS = {"old": 4_000, "new": 6_000}


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, PROCESSES, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models, two lakes with different numbers of rows, and a table scored by ``old``."""
    store = pc.ModelStore(tmp_path / "store")
    for seed, (which, rows) in enumerate(ROWS.items(), start=50):
        store.promote(which, store.save(model(seed), which), alias="champion")
        write_rows(tmp_path / which / "month=2014-01", rows_of(1))
        write_rows(tmp_path / which / "month=2014-02", rows_of(2, rows))
    pc.score(model(50), tmp_path / "old", tmp_path / "scored")
    return tmp_path


def state(table: pa.Table) -> str:
    """Return which model scored a partition; it must have all rows of one scoring and no others."""
    [model_id] = set(table["model_id"].to_pylist())
    which = {model(50).id: "old", model(51).id: "new"}[model_id]
    assert table.num_rows == ROWS[which]
    # Each id once: the sum of 2000, 2001, …
    expected = sum(range(2000, 2000 + ROWS[which]))
    assert compute.sum(table["id"].cast(pa.int64())).as_py() == expected
    return which


def with_duckdb(sink: Path) -> pa.Table:
    query = "select id, model_id from read_parquet($1, hive_partitioning = true) where month = $2"
    with duckdb.connect() as connection:
        found = connection.sql(query, params=[f"{sink}/**/*.parquet", "2014-02"])
        return found.to_arrow_table()


def with_polars(sink: Path) -> pa.Table:
    scan = pl.scan_parquet(sink, hive_partitioning=True)
    return scan.filter(pl.col("month") == "2014-02").select("id", "model_id").collect().to_arrow()


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "pyarrow": lambda sink: pq.read_table(sink / "month=2014-02", columns=["id", "model_id"]),
    "pyarrow dataset": lambda sink: ds.dataset(sink, partitioning="hive").to_table(
        columns=["id", "model_id"], filter=ds.field("month") == "2014-02"
    ),
    "duckdb": with_duckdb,
    "polars": with_polars,
}


def test_killed_before_any_step_the_partition_is_old_or_new_and_a_rerun_completes(
    folder: Path,
) -> None:
    finish(start("killed_before_every_step", folder))
    january = {path: file for path, file in contents(folder / "scored").items() if "-01" in path}
    steps = sorted((folder / "steps").iterdir())
    states = []
    for step in steps:
        sink = step / "scored"
        found = {state(read(sink)) for read in READERS.values()}
        assert len(found) == 1
        states.extend(found)
        report = pc.score(model(51), folder / "new", sink, partition={"month": "2014-02"})
        assert report.skipped == (1 if found == {"new"} else 0)
        assert {state(read(sink)) for read in READERS.values()} == {"new"}
        assert {path: digest for path, (digest, _) in contents(sink).items() if "-01" in path} == {
            path: digest for path, (digest, _) in january.items()
        }
    # Old before the step that commits, new after it; kills came before and after it.
    assert states == sorted(states, reverse=True)
    assert 5 < states.count("old") < len(states) - 2


def with_polars_from_a_handle(sink: Path) -> pa.Table:
    """Read from a handle: by path, polars opens a file twice and fails if it was replaced."""
    with (sink / "month=2014-02" / "part-0.parquet").open("rb") as file:
        return pl.read_parquet(file, columns=["id", "model_id"]).to_arrow()


def test_readers_see_old_or_new_while_a_partition_is_replaced(folder: Path) -> None:
    readers = {**READERS, "polars": with_polars_from_a_handle}
    seen: dict[str, list[str]] = {name: [] for name in readers}
    process = start("replaced_repeatedly", folder, REPLACEMENTS)
    while process.poll() is None:
        for name, read in readers.items():
            try:
                seen[name].append(state(read(folder / "scored")))
            except duckdb.Error:  # it opens a file twice, too, and detects the replacement
                seen[name].append("try again")
    finish(process)
    for name, states in seen.items():
        assert {"old", "new"} <= set(states)
        assert states.count("try again") <= (0.2 * len(states) if name == "duckdb" else 0)
    assert not list(folder.rglob("_staging*"))


def test_a_scoring_removes_old_leftovers_of_its_table(folder: Path) -> None:
    leftover = folder / f"_staging-scored-{uuid.uuid4().hex}"
    other = folder / f"_staging-another-{uuid.uuid4().hex}"
    for staging in (leftover, other):
        shutil.copytree(folder / "scored" / "month=2014-02", staging / "content")
    pc.score(model(51), folder / "new", folder / "scored")
    assert leftover.is_dir(), "its writer may still be running"
    a_day_ago = time.time() - 25 * 3600
    for staging in (leftover, other):
        for path in (staging, *staging.rglob("*")):
            os.utime(path, (a_day_ago, a_day_ago))
    pc.score(model(50), folder / "old", folder / "scored")
    assert not leftover.exists()
    assert other.is_dir(), "it belongs to another table"


def test_a_partition_is_replaced_whole_if_names_cannot_be_exchanged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two renames a reader may find no partition, but never a part of one."""
    monkeypatch.setattr(sys, "platform", "unknown")
    sink = folder / "scored"
    stop = threading.Event()
    seen = []

    def read() -> None:
        while not stop.is_set():
            try:
                # By path, pyarrow opens a file twice, and may read two files as one.
                with (sink / "month=2014-02" / "part-0.parquet").open("rb") as file:
                    seen.append(state(pq.read_table(file)))
            except FileNotFoundError:
                seen.append("none")

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(10):
        which = ("new", "old")[number % 2]
        pc.score(model(51 - number % 2), folder / which, sink, partition={"month": "2014-02"})
        assert state(READERS["pyarrow"](sink)) == which
    stop.set()
    reader.join()
    assert set(seen) <= {"old", "new", "none"}
    assert {"old", "new"} <= set(seen)
