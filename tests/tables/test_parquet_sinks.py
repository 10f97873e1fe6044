"""What is particular to scored Parquet files: single files, manifests, and readers of a store."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from backends import JANUARY, JANUARY_ROWS, Arrives, append, object_store, parquet
from fsspec.implementations.memory import MemoryFile

import probclass_core as pc


def test_a_single_file_is_not_appended_to(
    model: pc.Model, arrives: Arrives, tmp_path: Path
) -> None:
    with pytest.raises(pc.TableError, match="is a file, which rows cannot be added to"):
        append(model, arrives("first"), parquet(tmp_path).ref("scored.parquet"))
    assert not (tmp_path / "scored.parquet").exists()


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
                overwrite=overwrite,
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
