"""Damage to any file of a version is found before anything is loaded, and told in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from sample_models import SampleModel

from probclass_core.arrow.bundle import READER_VERSION
from probclass_core.errors import StoreError
from probclass_core.store.model_store import ModelStore
from probclass_core.store.references import ModelVersion

TABLES = ["gaussian.arrow", "priors.arrow"]
FILES = ["manifest.json", *TABLES]


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path)


@pytest.fixture
def version(store: ModelStore) -> ModelVersion:
    version = store.save(SampleModel(), "air")
    store.promote("air", version, "champion")
    return version


@pytest.fixture
def folder(tmp_path: Path, version: ModelVersion) -> Path:
    return tmp_path / "air" / version.id


def refusal(store: ModelStore, ref: str = "air@champion") -> str:
    """The one line with which loading is refused; reading and saving again refuse alike."""
    with pytest.raises(StoreError) as caught:
        store.load(ref)
    message = str(caught.value)
    assert "\n" not in message
    assert "air" in message
    with pytest.raises(StoreError):
        store.read_bundle(ref)
    return message


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("name", TABLES)
def test_one_flipped_byte_anywhere_in_a_table(store: ModelStore, folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        (folder / name).write_bytes(damaged)
        with pytest.raises(StoreError, match=f"'{name}' is damaged"):
            store.read_bundle("air@champion")
    message = refusal(store)
    assert str(folder) in message
    assert "restore it from a copy, or remove this version and save it again" in message
    with pytest.raises(StoreError, match=f"'{name}' is damaged"):
        store.save(SampleModel(), "air")


def test_one_flipped_byte_anywhere_in_a_manifest(store: ModelStore, folder: Path) -> None:
    path, content_id = folder / "manifest.json", SampleModel().id
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        try:
            # What is no part of the content (the time, a space) may pass; nothing else does.
            assert store.read_bundle("air@champion").content_id == content_id
        except StoreError:
            refused += 1
    assert refused > len(whole) / 2


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("left", [0, 100, -1])
def test_a_truncated_table(store: ModelStore, folder: Path, name: str, left: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:left])
    assert f"{name!r} has" in (message := refusal(store))
    assert "bytes instead of" in message


@pytest.mark.parametrize("left", [0, 100, -3])
def test_a_truncated_manifest(store: ModelStore, folder: Path, left: int) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:left])
    assert f"{path} is not a JSON object" in refusal(store)


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table(store: ModelStore, folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"file {name!r} is missing" in refusal(store)


def test_a_missing_manifest_is_a_version_that_is_not_there(
    store: ModelStore, folder: Path, version: ModelVersion
) -> None:
    other = store.save(SampleModel(1), "air")
    (folder / "manifest.json").unlink()
    for ref in ("air@champion", version.ref, f"air@{version.id[:8]}"):
        assert f"versions {other.id[:12]!r}" in refusal(store, ref)
    assert store.versions("air") == [other]
    with pytest.raises(StoreError, match="exists but is incomplete; remove it and save again"):
        store.save(SampleModel(), "air")
    shutil.rmtree(folder)
    assert store.save(SampleModel(), "air").id == version.id


def test_an_edited_manifest(store: ModelStore, folder: Path) -> None:
    edited(folder / "manifest.json", content={"spec": {"label": "water"}})
    assert "the manifest was edited" in refusal(store)


def test_a_newer_format(store: ModelStore, folder: Path) -> None:
    newer = READER_VERSION + 1
    edited(folder / "manifest.json", format_version=newer, min_reader_version=newer, content="new")
    assert "newer probclass" in (message := refusal(store))
    assert message.endswith("upgrade probclass.")


def test_a_version_in_the_folder_of_another(store: ModelStore, folder: Path) -> None:
    other = folder.with_name("0" * 64)
    folder.rename(other)
    assert f"contains version {folder.name[:12]}" in refusal(store, f"air@{other.name}")


@pytest.mark.parametrize("text", ["", "null", "{}", '{"id": 1}', '{"model": "air"'])
def test_a_damaged_alias_is_mended_by_promoting_again(
    store: ModelStore, folder: Path, version: ModelVersion, text: str
) -> None:
    path = folder.parent / "aliases" / "champion.json"
    path.write_text(text)
    assert f"{path} is damaged; promote a version to it again" in refusal(store)
    with pytest.raises(StoreError, match="is damaged"):
        store.aliases("air")
    store.promote("air", version, "champion")
    assert store.resolve("air@champion") == version


def test_an_alias_cannot_reach_outside_its_model(store: ModelStore, folder: Path) -> None:
    edited(folder.parent / "aliases" / "champion.json", id="../../secret")
    assert "champion.json is damaged" in refusal(store)


def test_a_table_that_cannot_be_read_is_told(store: ModelStore, folder: Path) -> None:
    (folder / "priors.arrow").unlink()
    (folder / "priors.arrow").mkdir()
    assert f"cannot read {folder / 'priors.arrow'}" in refusal(store)


def test_a_store_that_is_a_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "models"
    path.write_text("no folder")
    store = ModelStore(path)
    with pytest.raises(StoreError, match=r"cannot write .*models"):
        store.save(SampleModel(), "air")
    for ref in ("air", "air@champion", f"air@{SampleModel().id}"):
        with pytest.raises(StoreError, match=r"(is empty; check the path|cannot read .*models)"):
            store.load(ref)
    assert path.read_text() == "no folder"
