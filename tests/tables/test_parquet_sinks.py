"""What is particular to scored Parquet files on object stores: one object is a partition."""

from __future__ import annotations

import dataclasses
import itertools
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import JANUARY, Arrives, object_store
from fsspec.implementations.memory import MemoryFile
from monthly_lake import model as model_of
from monthly_lake import rows_of, write_lake
from reading import read_rows

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.parquet import sink as parquet_sink

MONTHS = ("2014-01", "2014-02", "2014-03")


def test_a_reader_sees_whole_objects(
    model: pc.Model, arrives: Arrives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some fsspec stores show a file as soon as it is opened; this one is slow to fill it."""

    def write_slowly(file: MemoryFile, data: bytes) -> int:
        time.sleep(0.005)
        return BytesIO.write(file, data)

    monkeypatch.setattr(MemoryFile, "write", write_slowly, raising=False)
    sink = object_store(tmp_path).ref("scored")
    sources = [arrives(str(n), size=n) for n in range(10, 20)]
    pc.score(model, sources[0], sink, partition=JANUARY)
    counts = []
    with ThreadPoolExecutor(1) as pool:
        scored = pool.submit(
            lambda: [pc.score(model, source, sink, partition=JANUARY) for source in sources]
        )
        while not scored.done():
            with suppress(TableError):  # the object was replaced while it was read
                counts.append(pc.open_table(sink).plan().rows)
    scored.result()
    assert counts == sorted(counts)
    assert {*counts} <= {*range(10, 20)}
    assert pc.open_table(sink).plan().rows == 19


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake", *MONTHS)


def files_of(sink: pc.TableRef, month: str) -> list[str]:
    store, folder = fsspec.filesystem("memory"), sink.uri.removeprefix("memory:/")
    return sorted(store.glob(f"{folder}/month={month}/*.parquet"))


def test_a_partition_is_one_object_with_every_engine(lake: Path, tmp_path: Path) -> None:
    sink, ids = pc.TableRef(f"local://{tmp_path}/scored"), [*range(40), *range(100_000, 100_007)]
    with (
        ThreadPoolExecutor(2) as threads,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes,
    ):
        for engine, seed in ((None, 50), (threads, 51), (processes, 52)):
            report = pc.score(model_of(seed), lake, sink, partition=JANUARY, engine=engine)
            assert (report.rows, report.counts["unchanged"]) == (47, 0)
            scored = read_rows(sink)
            assert scored["id"].to_pylist() == ids, "in the order of the source"
            assert set(scored["model_id"].to_pylist()) == {model_of(seed).id}
            left = [path.name for path in (tmp_path / "scored").rglob("*") if path.is_file()]
            assert left == ["part-0.parquet"]
            assert pc.score(model_of(seed), lake, sink, partition=JANUARY).counts["unchanged"] == 1


def test_a_reader_between_two_objects_gets_an_error_and_no_rows(lake: Path, tmp_path: Path) -> None:
    """The pages of an object cannot be read with the footer of the one that it replaced."""
    sink, store = object_store(tmp_path).ref("scored"), fsspec.filesystem("memory")
    objects = []
    for seed in (50, 51, 52):
        pc.score(model_of(seed), lake, sink, partition=JANUARY)
        [name] = files_of(sink, "2014-01")
        objects.append(store.cat(name))
    for old, new in itertools.pairwise(objects):
        footer = pq.read_metadata(BytesIO(old))
        for column in footer.schema.names:
            with pytest.raises((OSError, pa.ArrowException)):
                pq.ParquetFile(BytesIO(new), metadata=footer).read([column])


def test_a_partition_larger_than_one_request_is_refused(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = object_store(tmp_path)
    pc.score(model_of(50), lake, backend.ref("scored"))
    monkeypatch.setattr(parquet_sink, "_MOST_BYTES", 1_000)
    with pytest.raises(TableError, match=r"one request can put 1,000; divide .* Delta table"):
        pc.score(model_of(51), lake, backend.ref("scored"), partition=JANUARY)
    assert set(backend.read("scored")["model_id"].to_pylist()) == {model_of(50).id}


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
        with pytest.raises(TableError, match=message):
            pc.score(model_of(), source, sink, **options)
