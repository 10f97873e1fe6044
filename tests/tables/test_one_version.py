"""A file that is replaced while it is read is an error: no result mixes two versions of it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.errors import TableError

ROWS = 200_000
READS = int(os.environ.get("PROBCLASS_KILLS", "20"))
CHANGED = "has changed while it was being read; run it again"


def version(value: float) -> pa.Table:
    """Rows whose column x has one value only, and whose files have one size."""
    return pa.table({"x": np.full(ROWS, value), "y": ["a", "b"] * (ROWS // 2)})


def write(rows: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pa.csv.write_csv(rows, path)
    else:
        pq.write_table(rows, path, row_group_size=20_000, use_dictionary=False)
    return path


@pytest.fixture(params=["parquet", "csv"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """The only file of a table, and another version of it next to the table."""
    suffix = f".{request.param}"
    table = write(version(1.0), tmp_path / "lake" / f"part{suffix}")
    return table, write(version(2.0), tmp_path / f"other{suffix}")


def swap(first: Path, second: Path) -> None:
    """Let two files take each other's names: both keep their sizes and times of change."""
    spare = first.with_name(".spare")
    first.rename(spare)
    second.rename(first)
    spare.rename(second)


def values(batches: Iterator[pa.RecordBatch]) -> set[float]:
    return {value for batch in batches for value in np.unique(batch.column("x").to_numpy())}


def swap_twice(first: Path, second: Path) -> None:
    swap(first, second)
    swap(first, second)


def remove(first: Path, second: Path) -> None:
    first.unlink()


@pytest.mark.parametrize(
    ("change", "begun"),
    [(swap, True), (swap, False), (swap_twice, True), (remove, True), (remove, False)],
)
def test_a_file_that_is_replaced_while_it_is_read(
    files: tuple[Path, Path], change: Callable[[Path, Path], None], begun: bool
) -> None:
    [unit] = pc.open_table(files[0].parent).plan().units
    batches = unit.read()
    if begun:
        next(batches)
    change(*files)
    with pytest.raises(TableError, match=CHANGED):
        list(batches)
    if files[0].exists():
        assert len(values(pc.open_table(files[0].parent).plan().batches())) == 1


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_no_model_and_no_partition_of_two_versions(tmp_path: Path, engine: str) -> None:
    lake, other = tmp_path / "lake", tmp_path / "other.parquet"
    for number in range(12):
        last = write(version(1.0), lake / f"part-{number:02}.parquet")
    spec = pc.ModelSpec("y", {"gaussian_diagonal": ["x"]})
    model = pc.fit(lake, spec)

    def replace_the_last_file(done: int, total: int | None) -> None:
        if other.exists() and done:
            other.rename(last)

    options = {"engine": engine, "workers": 2, "progress": replace_the_last_file}
    write(version(2.0), other)
    with pytest.raises(TableError, match=CHANGED):
        pc.fit(lake, spec, **options)
    write(version(1.0), other)
    options["engine"] = "threads"  # others score a partition of one part in one step
    with pytest.raises(TableError, match=CHANGED):
        pc.score(model, lake, tmp_path / "scored", **options)
    assert not list(tmp_path.glob("scored/**/*.parquet"))


TOOLS = {
    "pyarrow": lambda sink: pq.ParquetFile(sink / "part-0.parquet").read(["x"]),
    "pyarrow from a handle": lambda sink: with_handle(sink, pq.read_table),
    "polars from a handle": lambda sink: with_handle(sink, lambda f: pl.read_parquet(f).to_arrow()),
    "probclass": lambda sink: pa.Table.from_batches(pc.open_table(sink).plan().batches()),
}
"""Readers of a partition that open a file once. By path, Polars, DuckDB and ``pq.read_table`` open
it again, and may read two files as one."""


def with_handle(sink: Path, read: Callable[[Any], pa.Table]) -> pa.Table:
    with (sink / "part-0.parquet").open("rb") as file:
        return read(file)


@pytest.mark.parametrize("exchanged", [True, False], ids=["exchanged", "renamed twice"])
def test_readers_see_old_or_new_while_a_partition_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchanged: bool
) -> None:
    """Where names cannot be exchanged, they may find no partition, but never a part of one."""
    if not exchanged:
        monkeypatch.setattr(sys, "platform", "unknown")
    rows = [version(value).slice(0, size) for value, size in ((1.0, 40_000), (2.0, 30_000))]
    model = pc.fit(rows[0], pc.ModelSpec("y", {"gaussian_diagonal": ["x"]}))
    sink = tmp_path / "scored"
    pc.score(model, rows[0], sink)
    stop = threading.Event()

    def score_both_in_turn() -> None:
        while not stop.is_set():
            for one in rows:
                pc.score(model, one, sink)

    writer = threading.Thread(target=score_both_in_turn)
    writer.start()
    seen: dict[str, list[str]] = {name: [] for name in TOOLS}
    try:
        for _ in range(READS):
            for name, read in TOOLS.items():
                try:
                    table = read(sink)
                except FileNotFoundError:
                    seen[name].append("none")
                except TableError as error:
                    said = "changed" in str(error)
                    assert said or not exchanged
                    seen[name].append("run again")
                else:
                    found = table.num_rows, {*table["x"].to_pylist()}
                    assert found in ((40_000, {1.0}), (30_000, {2.0})), name
                    seen[name].append("one version")
    finally:
        stop.set()
        writer.join()
    assert not list(tmp_path.rglob("_staging*"))
    for name, states in seen.items():
        assert "one version" in states, name
        assert "none" not in states or not exchanged, name
