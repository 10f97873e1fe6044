"""What a commit wrote survives a power cut: each file is synced, and each folder up to the top."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from backends import BACKENDS
from delta_and_iceberg import rows

import probclass_core as pc

LOCAL = [name for name in BACKENDS if name != "object store"]


@contextmanager
def recorded_syncs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Record what is synced, in order, by the names that it has in the end."""
    inodes: list[int] = []
    synced: list[Path] = []
    sync = os.fsync

    def recording(descriptor: int) -> None:
        inodes.append(os.fstat(descriptor).st_ino)
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", recording)
        yield synced
    names = {path.stat().st_ino: path for path in (folder, *folder.rglob("*"))}
    synced += [names[inode] for inode in inodes if inode in names]


def files_with_content(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.stat().st_size}


@pytest.mark.parametrize("kind", LOCAL)
def test_all_files_and_folders_of_a_commit_are_synced(
    kind: str, model: pc.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = BACKENDS[kind](tmp_path).ref("new/scored" if kind != "iceberg" else "scored")
    before = files_with_content(tmp_path)
    with recorded_syncs(tmp_path, monkeypatch) as synced:
        pc.score(model, rows("2014-01"), sink)
    made = files_with_content(tmp_path) - before
    assert any(path.suffix == ".parquet" for path in made)
    assert_synced({path for path in made if path.suffix != ".db"}, tmp_path, synced)  # by SQLite
    log = [index for index, path in enumerate(synced) if path.suffix == ".json"]
    data = [index for index, path in enumerate(synced) if path.suffix == ".parquet"]
    assert not log or max(data) < min(log), "data before the log that names them"


def test_a_saved_and_promoted_model_is_synced_with_all_folders(
    model: pc.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded_syncs(tmp_path, monkeypatch) as synced:
        store = pc.ModelStore(tmp_path / "new" / "store")
        store.promote("air", store.save(model, "air"), "champion")
    assert_synced(files_with_content(tmp_path), tmp_path, synced)


def assert_synced(files: set[Path], top: Path, synced: list[Path]) -> None:
    assert files <= {*synced}
    folders = {folder for path in files for folder in path.parents}
    assert {folder for folder in folders if folder.is_relative_to(top)} <= {*synced}
