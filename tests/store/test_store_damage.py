"""Damage to any file of a version is detected before it is loaded, and reported in one line."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from permissions import as_nobody, make_readable
from sample_models import SampleModel

from probclass_core.arrow.bundle import TABLES
from probclass_core.errors import StoreError
from probclass_core.store.model_store import ModelStore
from probclass_core.store.records import ModelVersion

MANIFEST = "manifest.json"


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
    """The one line of the error of loading; reading the bundle fails too."""
    with pytest.raises(StoreError) as caught:
        store.load(ref)
    message = str(caught.value)
    assert "\n" not in message
    assert "air" in message
    with pytest.raises(StoreError):
        store.read_bundle(ref)
    return message


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def truncate(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    **{
        f"tables cut to {size}": (TABLES, partial(truncate, size=size), f"'{TABLES}' is damaged")
        for size in (0, 100, -1)
    },
    **{
        f"manifest cut to {size}": (
            MANIFEST,
            partial(truncate, size=size),
            r"is damaged \(it is not JSON",
        )
        for size in (0, 100, -3)
    },
    "no tables": (TABLES, Path.unlink, f"file '{TABLES}' is missing"),
    "a folder in place of the tables": (TABLES, replace_by_folder, f"cannot read .*{TABLES}"),
    "an alias outside its model": (
        "../aliases/champion.json",
        partial(edit, id="../../secret"),
        r"champion\.json is damaged",
    ),
}
"""Files of a version, ways to damage them, and the messages."""


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_in_one_line(store: ModelStore, folder: Path, kind: str) -> None:
    file, damage, message = DAMAGE[kind]
    damage(folder / file)
    assert re.search(message, refusal(store))


def test_a_flipped_bit_anywhere_in_a_table_is_detected(store: ModelStore, folder: Path) -> None:
    intact = (folder / TABLES).read_bytes()
    for position in range(0, len(intact), 7):
        damaged = bytearray(intact)
        damaged[position] ^= 1
        (folder / TABLES).write_bytes(damaged)
        with pytest.raises(StoreError, match=f"'{TABLES}' is damaged"):
            store.read_bundle("air@champion")
    message = refusal(store)
    assert str(folder) in message
    assert "restore it from a copy, or remove this version and save it again" in message
    with pytest.raises(StoreError, match=f"'{TABLES}' is damaged"):
        store.save(SampleModel(), "air")


def test_a_flipped_bit_anywhere_in_a_manifest_does_not_change_the_content(
    store: ModelStore, folder: Path
) -> None:
    path, content_id = folder / MANIFEST, SampleModel().id
    intact = path.read_bytes()
    refused = 0
    for position in range(len(intact)):
        damaged = bytearray(intact)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        try:
            # A flip outside the content (in the time, or a space) may go unnoticed.
            assert store.read_bundle("air@champion").content_id == content_id
        except StoreError:
            refused += 1
    assert refused > len(intact) / 2


def test_a_version_without_a_manifest_does_not_exist(
    store: ModelStore, folder: Path, version: ModelVersion
) -> None:
    other = store.save(SampleModel(1), "air")
    (folder / MANIFEST).unlink()
    for ref in ("air@champion", version.ref, f"air@{version.id[:8]}"):
        assert f"versions {other.id[:12]!r}" in refusal(store, ref)
    assert store.versions("air") == [other]
    with pytest.raises(StoreError, match="exists but is incomplete; remove it and save again"):
        store.save(SampleModel(), "air")
    shutil.rmtree(folder)
    assert store.save(SampleModel(), "air").id == version.id


def test_a_version_in_the_folder_of_another_is_refused(store: ModelStore, folder: Path) -> None:
    other = folder.with_name("0" * 64)
    folder.rename(other)
    assert f"contains version {folder.name[:12]}" in refusal(store, f"air@{other.name}")


@pytest.mark.parametrize("text", ["", "null", "{}", '{"id": 1}', '{"model": "air"'])
def test_promoting_again_repairs_a_damaged_alias(
    store: ModelStore, folder: Path, version: ModelVersion, text: str
) -> None:
    path = folder.parent / "aliases" / "champion.json"
    path.write_text(text)
    assert re.search(rf"{path} is damaged \(it .*\); promote a version to it again", refusal(store))
    with pytest.raises(StoreError, match="is damaged"):
        store.aliases("air")
    store.promote("air", version, "champion")
    assert store.resolve("air@champion") == version


def test_a_store_that_is_a_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "models"
    path.write_text("not a folder")
    store = ModelStore(path)
    with pytest.raises(StoreError, match=r"cannot write .*models"):
        store.save(SampleModel(), "air")
    for ref in ("air", "air@champion", f"air@{SampleModel().id}"):
        with pytest.raises(StoreError, match=r"(is empty; check the path|cannot read .*models)"):
            store.load(ref)
    assert path.read_text() == "not a folder"


def test_what_cannot_be_read_hides_no_other_record_and_no_other_model(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    for name in ("air", "iris", "zinc"):
        store.promote(name, store.save(SampleModel(), name), "champion")
        store.promote(name, f"{name}@champion", "old")
    make_readable(tmp_path)
    for path in ("air/aliases/old.json", "iris"):
        (tmp_path / path).chmod(0)
    try:
        with as_nobody():
            air, iris, zinc = store.catalog()
    finally:
        (tmp_path / "iris").chmod(0o755)
    assert [*air.aliases] == ["champion"]
    assert air.damaged == [f"cannot read {tmp_path}/air/aliases/old.json: Permission denied."]
    assert iris.damaged == [f"cannot read {tmp_path}/iris: Permission denied."]
    assert [*zinc.aliases] == ["champion", "old"]
    assert not zinc.damaged


def test_links_in_a_circle_end(store: ModelStore, folder: Path, version: ModelVersion) -> None:
    for name in ("loop", "aliases/loop", "evaluations", "scorings"):
        (folder.parent / name).symlink_to(folder.parent, target_is_directory=True)
    entry = next(folder.parent.glob("promotions/champion/*.json"))
    values = json.loads(entry.read_text())
    edit(entry, before=values["time"], previous=values["id"])
    records = store.records("air")
    assert [one.id for one in records.versions] == [version.id]
    assert len(store.history("air")) == 1
