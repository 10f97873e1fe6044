"""The file system of a store, by its URI."""

from __future__ import annotations

import sys
import threading
import uuid
from collections import Counter
from pathlib import Path
from typing import ClassVar

import fsspec
import pyarrow as pa
import pytest
from daily_lake import rows_of
from fsspec.implementations.memory import MemoryFileSystem
from lakes import write_rows
from sample_models import BundledModel, SampleModel

import probclass_core as pc
from probclass_core.arrow.bundle import Bundle
from probclass_core.errors import StoreError
from probclass_core.io.object_stores import open_location
from probclass_core.store.model_store import ModelStore


def test_a_path_and_its_file_uri_are_the_same_store(tmp_path: Path) -> None:
    folder = tmp_path / "böse # namen %41?"
    version = ModelStore(folder).save(SampleModel(), "air")
    assert ModelStore(str(folder)).versions("air") == [version]
    assert ModelStore(folder.as_uri()).versions("air") == [version]


def test_a_folder_that_is_made_while_it_is_listed_is_empty_or_there(tmp_path: Path) -> None:
    location, folder = open_location(str(tmp_path)), tmp_path / "made"
    ended = threading.Event()

    def make_and_remove() -> None:
        while not ended.is_set():
            folder.mkdir()
            folder.rmdir()

    thread = threading.Thread(target=make_and_remove)
    thread.start()
    try:
        assert all(location.entries("made") == [] for _ in range(5_000))
    finally:
        ended.set()
        thread.join()


def test_a_relative_path_is_relative_to_the_folder_where_the_store_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = ModelStore("models")
    assert list(tmp_path.iterdir()) == [], "opening creates nothing"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.save(SampleModel(), "air")
    assert (tmp_path / "models" / "air").is_dir()


def test_only_large_local_tables_are_memory_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ModelStore(tmp_path)
    points = pa.table({"x": pa.array(range(1_000_000), pa.float64())})
    store.save(BundledModel(Bundle({}, {"points": points})), "air")
    assert isinstance(store.read_bundle("air").data, bytes)
    monkeypatch.setattr("probclass_core.io.filesystem._MOST_IN_MEMORY", 1_000_000)
    before = pa.total_allocated_bytes()
    bundle = store.read_bundle("air")
    assert isinstance(bundle.data, pa.Buffer)
    assert pa.total_allocated_bytes() - before < 100_000
    assert bundle.tables["points"]["x"][-1].as_py() == 999_999


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("file://data/models", "names the host 'data'; a local path is 'file:///…'"),
        ("nosuch://bucket/models", "cannot open nosuch://bucket/models"),
        ("nosuch://me:secret@host/models", r"nosuch://\*\*\*@host/models"),
    ],
)
def test_a_wrong_uri_is_refused_without_its_password(uri: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught:
        ModelStore(uri)
    assert "secret" not in str(caught.value)


def test_only_a_local_store_works_without_fsspec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(StoreError, match=r"needs fsspec: pip install 'probclass\[fsspec\]'"):
        ModelStore("memory://bucket/models")
    store = ModelStore(tmp_path)
    store.promote("air", store.save(SampleModel(), "air"), "champion")
    assert store.read_bundle("air@champion").content_id == SampleModel().id


class CachingFileSystem(MemoryFileSystem):
    """A client that caches listings, as clients of object stores do."""

    protocol = "caching"
    listed: ClassVar[dict[str, list[str]]] = {}

    def ls(self, path: str, detail: bool = True, **options: object) -> list[str]:
        if path not in self.listed:
            self.listed[path] = super().ls(path, detail=detail, **options)
        return self.listed[path]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("caching://", "memory://")))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listed.clear()


def test_files_of_another_client_are_seen() -> None:
    fsspec.register_implementation("caching", CachingFileSystem, clobber=True)
    folder = uuid.uuid4()
    ours, theirs = ModelStore(f"caching://{folder}").files, ModelStore(f"memory://{folder}").files
    theirs.write("aliases/one.json", b"{}")
    assert ours.names("aliases") == ["one.json"]
    theirs.write("aliases/two.json", b"{}")
    assert ours.names("aliases") == ["one.json", "two.json"]


def test_other_files_in_a_store_are_ignored(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    store.save(SampleModel(), "air")
    for folder in (tmp_path, tmp_path / "air"):
        (folder / "README.md").write_text("About these models")
        (folder / "notes").mkdir()
    assert store.models() == ["air"]
    assert len(store.versions("air")) == 1


def test_a_training_that_is_judged_promoted_and_scored_leaves_nine_files(tmp_path: Path) -> None:
    for day in ("1", "2", "3"):
        write_rows(tmp_path / "lake" / f"day={day}", rows_of(int(day)))
    store, lake = ModelStore(tmp_path / "models"), str(tmp_path / "lake")
    model = pc.fit(lake, label="air", where="day < 3", cache=store)
    version = store.save(model, "air")
    judged = pc.evaluate(model, lake, partition={"day": "3"})
    store.record_evaluation(version, judged, on={"source": lake})
    store.promote("air", version, "champion")
    pc.score(version, lake, tmp_path / "scored", partition={"day": "3"}, store=store)
    files = [path for path in (tmp_path / "models").rglob("*") if path.is_file()]
    assert Counter(path.relative_to(tmp_path / "models").parts[1] for path in files) == {
        **{folder.name: 1 for folder in (tmp_path / "models" / "_statistics").iterdir()},
        version.id: 2,
        "trainings": 1,
        "aliases": 1,
        "promotions": 1,
        "evaluations": 1,
        "scorings": 1,
    }
    assert len(files) <= 9
