"""What is particular to scored Parquet files: single files, manifests, and readers of a store."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from backends import JANUARY, JANUARY_ROWS, Arrives, append, object_store, parquet
from buckets import SECRET
from fsspec.implementations.memory import MemoryFile
from monthly_lake import SPEC, rows_of, write_lake
from monthly_lake import model as model_of

import probclass_core as pc
from probclass_core.io.parquet import units
from probclass_core.scoring import partition as scoring

MONTHS = ("2014-01", "2014-02", "2014-03")


def test_a_copy_of_a_table_with_manifests_is_not_written(
    model: pc.Model, arrives: Arrives, tmp_path: Path
) -> None:
    """A reader of the copy ignores files that its manifests do not name."""
    append(model, arrives("first"), pc.TableRef(f"local://{tmp_path}/scored"), partition=JANUARY)
    backend = parquet(tmp_path)
    assert backend.xs("scored") == JANUARY_ROWS
    for overwrite in ("append", "partition"):
        with pytest.raises(pc.TableError, match=r"use its _commits; write to another directory"):
            append(
                *(model, arrives("second"), backend.ref("scored")),
                partition=JANUARY,
                options={"overwrite": overwrite},
            )
    assert backend.xs("scored") == JANUARY_ROWS


def test_a_reader_during_appends_sees_whole_inputs(
    model: pc.Model, arrives: Arrives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some fsspec stores show a file as soon as it is opened; this one is slow to fill it."""

    def write_slowly(file: MemoryFile, data: bytes) -> int:
        time.sleep(0.005)
        return BytesIO.write(file, data)

    monkeypatch.setattr(MemoryFile, "write", write_slowly, raising=False)
    sink = object_store(tmp_path).ref("scored")
    append(model, arrives("first", size=10), sink, partition=JANUARY)
    sources = [arrives(str(n), start=10.0 * n, size=10) for n in range(1, 10)]
    counts = []
    with ThreadPoolExecutor(1) as pool:
        appends = pool.submit(
            lambda: [append(model, source, sink, partition=JANUARY) for source in sources]
        )
        while not appends.done():
            counts.append(pc.open_table(sink).plan().rows)
    appends.result()
    assert counts == sorted(counts)
    assert {*counts} <= {*range(10, 101, 10)}
    assert pc.open_table(sink).plan().rows == 100


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake", *MONTHS)


def files_of(sink: pc.TableRef, month: str) -> list[str]:
    store, folder = fsspec.filesystem("memory"), sink.uri.removeprefix("memory:/")
    return sorted(store.glob(f"{folder}/month={month}/*.parquet"))


def test_a_partition_in_parts_is_committed_by_one_manifest(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "PART_ROWS", 20)
    monkeypatch.setattr(units, "_UNIT_ROWS", 1)  # each file is a unit
    backend = object_store(tmp_path)
    sink, ids = backend.ref("scored"), [*range(40), *range(100_000, 100_007)]
    expected = pc.open_table(lake).plan(["id"], partition=JANUARY)
    assert pa.Table.from_batches(expected.batches())["id"].to_pylist() == ids
    first: list[str] = []
    with ThreadPoolExecutor(2) as executor:
        for engine, seed in ((None, 50), (executor, 51)):
            report = pc.score(model_of(seed), lake, sink, partition=JANUARY, engine=engine)
            assert (report.rows, report.counts["unchanged"]) == (47, 0)
            assert backend.read("scored")["id"].to_pylist() == ids, "in the order of the source"
            files = files_of(sink, "2014-01")
            assert len(files) == 2, "those of the other model are gone"
            assert not set(files) & set(first)
            first = files
            assert pc.score(model_of(seed), lake, sink, partition=JANUARY).counts["unchanged"] == 1
    # No row of the second part matches the filter.
    few = {"partition": JANUARY, "where": [("id", "<", 30)]}
    for rows, skipped in ((30, 0), (30, 1)):
        report = pc.score(
            model_of(), lake, sink, options=pc.ScoringOptions(overwrite="append"), **few
        )
        assert (report.rows, report.counts["unchanged"]) == (rows, skipped)
    assert sorted(backend.read("scored")["id"].to_pylist()) == sorted([*ids, *range(30)])
    assert pc.clean_table(sink, older_than=timedelta(0)) == []


def test_files_that_no_manifest_names_are_ignored_and_cleaned(lake: Path, tmp_path: Path) -> None:
    backend, store = object_store(tmp_path), fsspec.filesystem("memory")
    sink = backend.ref("scored")
    pc.score(model_of(), lake, sink, partition=JANUARY)
    [named] = files_of(sink, "2014-01")
    stray = f"{named.rpartition('/')[0]}/part-abc-{'0' * 32}.parquet"
    # Nor are those of a partition without a manifest read: another writer may be about to commit.
    other = stray.replace("2014-01", "2014-02")
    for path in (stray, other):
        store.pipe_file(path, store.cat(named))
        assert backend.read("scored").num_rows == 47
    with pytest.raises(pc.TableError, match="has no Parquet files"):
        backend.read("scored/month=2014-02")
    assert not pc.clean_table(sink, dry_run=True), "their writer may still be running"
    leftovers = pc.clean_table(sink, older_than=timedelta(0), dry_run=True)
    names = [leftover.path.rpartition("/")[2] for leftover in leftovers]
    assert names == [path.rpartition("/")[2] for path in (stray, other)]
    # A partition that lost a file is scored again.
    store.rm(named)
    with pytest.raises(pc.TableError, match="which its manifest names"):
        backend.read("scored")
    assert pc.score(model_of(), lake, sink, partition=JANUARY).counts["unchanged"] == 0
    assert backend.read("scored").num_rows == 47


def test_refused_sources_and_sinks(lake: Path, tmp_path: Path) -> None:
    ref = object_store(tmp_path).ref
    pc.score(model_of(), lake, ref("source"))
    kept: dict[str, Any] = {"options": {"columns": ["id"]}}
    for source, sink, options, message in [
        (ref("source"), ref("source"), kept, "is the source"),
        (ref("source"), ref("source/month=2014-09"), kept, "is inside memory://"),
        (ref("source"), ref("scored.parquet"), kept, "a single file cannot be written|name a dir"),
        (lake, ref("scored"), {"partition": {"month": "2013-01"}}, "has no partition"),
        (ref("sea"), ref("scored"), {}, "memory://.*/sea does not exist"),
        (dataclasses.replace(ref("source"), version=3), ref("scored"), {}, "has no versions"),
        (rows_of(1), ref("source"), {}, "contains 'month=2014-01'"),
    ]:
        with pytest.raises(pc.TableError, match=message):
            pc.score(model_of(), source, sink, **options)


def test_the_snapshot_of_a_table_with_manifests_identifies_its_state(
    lake: Path, tmp_path: Path
) -> None:
    table, spec = object_store(tmp_path).ref("scored"), pc.ModelSpec("prediction", SPEC.blocks)
    snapshots = []
    for seed in (50, 50, 51):
        pc.score(model_of(seed), lake, table, partition=JANUARY)
        snapshots.append(pc.fit(table, spec).training["snapshot"])
    assert snapshots[0] == snapshots[1] != snapshots[2]


def test_a_uri_is_not_a_path(tmp_path: Path) -> None:
    with pytest.raises(pc.TableError, match="was a URI before it was made a Path"):
        pc.fit(Path("s3://bucket/lake"), SPEC)
    with pytest.raises(pc.TableError, match="must not contain a password") as caught:
        pc.fit(f"s3://tester:{SECRET}@bucket/lake", SPEC)
    assert SECRET not in str(caught.value)
    with pytest.raises(pc.TableError, match="'acess_key'"):
        pc.fit(pc.TableRef("s3://bucket/lake", options={"acess_key": "x", "region": "x"}), SPEC)
    with pytest.raises(pc.TableError, match="takes no options"):
        pc.fit(pc.TableRef(str(tmp_path), options={"region": "x"}), SPEC)
