"""Which file system a URI names, and what is needed for it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import ClassVar

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from sample_models import SampleModel

from probclass_core.arrow.bundle import Bundle
from probclass_core.errors import StoreError
from probclass_core.store.files import open_files
from probclass_core.store.model_store import ModelStore

HERE = Path(__file__).parent


def test_a_path_and_its_file_uri_are_one_store(tmp_path: Path) -> None:
    folder = tmp_path / "böse # namen %41?"
    version = ModelStore(folder).save(SampleModel(), "air")
    assert ModelStore(str(folder)).versions("air") == [version]
    assert ModelStore(folder.as_uri()).versions("air") == [version]


def test_a_relative_path_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = ModelStore("models")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.save(SampleModel(), "air")
    assert (tmp_path / "models" / "air").is_dir()


class Large:
    def to_bundle(self) -> Bundle:
        points = pa.table({"x": pa.array(range(1_000_000), pa.float64())})
        return Bundle("model", {}, {"points": points})


def test_local_tables_are_mapped_not_copied(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    store.save(Large(), "air")
    before = pa.total_allocated_bytes()
    bundle = store.read_bundle("air")
    assert pa.total_allocated_bytes() - before < 100_000
    assert bundle.tables["points"]["x"][-1].as_py() == 999_999


def test_opening_a_store_makes_nothing(tmp_path: Path) -> None:
    assert ModelStore(tmp_path / "models").models() == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_uri_with_a_host_is_a_slash_too_few() -> None:
    with pytest.raises(StoreError, match=r"names the host 'data'; a local path is 'file:///…'"):
        ModelStore("file://data/models")


def test_an_unknown_scheme_is_told() -> None:
    with pytest.raises(StoreError, match="cannot open nosuch://bucket/models"):
        ModelStore("nosuch://bucket/models")


def test_a_password_is_not_told() -> None:
    with pytest.raises(StoreError, match=r"nosuch://\*\*\*@host/models") as caught:
        ModelStore("nosuch://me:secret@host/models")
    assert "secret" not in str(caught.value)


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(StoreError, match=r"needs fsspec: pip install 'probclass\[fsspec\]'"):
        ModelStore("memory://bucket/models")


def test_a_local_store_does_without_fsspec(tmp_path: Path) -> None:
    command = (
        "import sys; sys.modules['fsspec'] = None\n"
        "from sample_models import SampleModel\n"
        "from probclass_core.store.model_store import ModelStore\n"
        "store = ModelStore(sys.argv[1])\n"
        "store.promote('air', store.save(SampleModel(), 'air'), 'champion')\n"
        "assert store.read_bundle('air@champion').content_id == SampleModel().id\n"
    )
    subprocess.run(
        [sys.executable, "-c", command, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=HERE,
        check=True,
    )


class Remembering(MemoryFileSystem):
    """A client that lists a folder once, as those of object stores do, until told to forget."""

    protocol = "remembering"
    listed: ClassVar[dict[str, list[str]]] = {}

    def ls(self, path: str, detail: bool = True, **options: object) -> list[str]:
        if path not in self.listed:
            self.listed[path] = super().ls(path, detail=detail, **options)
        return self.listed[path]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("remembering://", "memory://")))

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listed.clear()


def test_what_another_client_wrote_is_seen() -> None:
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    folder = uuid.uuid4()
    here, elsewhere = open_files(f"remembering://{folder}"), open_files(f"memory://{folder}")
    elsewhere.write("aliases/one.json", b"{}")
    assert here.names("aliases") == ["one.json"]
    elsewhere.write("aliases/two.json", b"{}")
    assert here.names("aliases") == ["one.json", "two.json"]


def test_a_file_that_strayed_into_a_store_does_no_harm(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    store.save(SampleModel(), "air")
    for place in (tmp_path, tmp_path / "air"):
        (place / "README.md").write_text("what these models are for")
        (place / "notes").mkdir()
    assert store.models() == ["air"]
    assert len(store.versions("air")) == 1
