"""Saving, naming, finding and promoting versions, in local folders and through fsspec."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sample_models import SampleModel

from probclass_core.errors import InvalidNameError, StoreError
from probclass_core.store.model_store import ModelStore


@pytest.fixture(params=["local", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ModelStore:
    """An empty store in a folder that does not exist yet: a path, a ``file://`` URI, and fsspec."""
    folder = tmp_path / "my models"
    uris = {"local": folder, "file": folder.as_uri(), "memory": f"memory://{uuid.uuid4()}/models"}
    return ModelStore(uris[request.param])


def test_a_saved_bundle_is_read_back_unchanged(store: ModelStore) -> None:
    model = SampleModel(provenance={"rows": 10})
    version = store.save(model, "air", provenance={"run": "monday"})
    assert version.ref == f"air@{model.id}"
    assert version.provenance == {"rows": 10, "run": "monday"}
    assert datetime.now(UTC) - datetime.fromisoformat(version.created) < timedelta(minutes=1)
    assert model.to_bundle().provenance == {"rows": 10}, "saving does not change the model"
    bundle = store.read_bundle(version.ref)
    assert bundle.content_id == version.id == model.id
    assert bundle.content == model.to_bundle().content
    assert bundle.provenance == version.provenance
    for name, table in model.to_bundle().tables.items():
        assert bundle.tables[name].equals(table, check_metadata=True)


def test_models_and_versions_are_listed_in_order(store: ModelStore) -> None:
    versions = [store.save(SampleModel(seed), "air") for seed in range(5)]
    assert store.save(SampleModel(), "water").id == versions[0].id
    assert store.models() == ["air", "water"]
    assert store.versions("air") == versions


def test_a_version_is_named_by_its_id_its_first_digits_and_its_aliases(store: ModelStore) -> None:
    version = store.save(SampleModel(), "air")
    store.save(SampleModel(1), "air")
    store.promote("air", version, "champion")
    selectors = ["champion", version.id, version.id[:8], version.id[:20], version.id.upper()]
    for selector in selectors:
        assert store.resolve(f"air@{selector}") == version
        assert store.read_bundle(f"air@{selector}").content_id == version.id


def test_a_bare_name_is_enough_while_there_is_one_version(store: ModelStore) -> None:
    first = store.save(SampleModel(), "air")
    assert store.resolve("air") == first
    second = store.save(SampleModel(1), "air")
    store.promote("air", first, "champion")
    with pytest.raises(StoreError, match="2 versions; choose one, as in 'air@champion'") as caught:
        store.resolve("air")
    for choice in ("'champion'", first.id[:12], second.id[:12]):
        assert choice in str(caught.value)


def test_a_version_is_promoted_only_in_place_of_the_expected_one(store: ModelStore) -> None:
    first, second, third = (store.save(SampleModel(seed), "air") for seed in range(3))
    with pytest.raises(StoreError, match="names nothing, not the expected version"):
        store.promote("air", first, "champion", expected=second)
    assert store.promote("air", first, "champion", expected=None).previous is None
    with pytest.raises(StoreError, match=f"'air@champion' .* names {first.id[:12]}…, not"):
        store.promote("air", second, "champion", expected=None)
    assert store.promote("air", second, "champion", expected=first).previous == first.id
    with pytest.raises(StoreError, match="promoted by another process"):
        store.promote("air", third, "champion", expected=first.ref)
    with pytest.raises(StoreError, match="promoted by another process"):
        store.promote("air", second, "champion", expected=first)  # whoever promoted it before
    assert store.promote("air", second, "champion", expected=second).id == second.id
    assert store.resolve("air@champion") == second


def test_a_version_of_another_model_is_not_promoted(store: ModelStore) -> None:
    version = store.save(SampleModel(), "water")
    store.save(SampleModel(), "air")
    for name in (version, version.ref):
        with pytest.raises(StoreError, match="is not a version of model 'air'"):
            store.promote("air", name, "champion")
    assert store.aliases("air") == {}


def test_an_empty_store_has_no_models(store: ModelStore) -> None:
    assert store.models() == []
    with pytest.raises(StoreError, match=r"no model 'air': the store at .*models.* is empty"):
        store.load("air@champion")


def test_an_unknown_model_lists_the_models_and_suggests_the_nearest(store: ModelStore) -> None:
    store.save(SampleModel(), "air_quality")
    store.save(SampleModel(), "water")
    calls = [
        lambda: store.load("air_qualty"),
        lambda: store.load("air_qualty@champion"),
        lambda: store.load("air_qualty@0123456789"),
        lambda: store.versions("air_qualty"),
        lambda: store.aliases("air_qualty"),
        lambda: store.promote("air_qualty", "0123456789", "champion"),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="has 'air_quality', 'water'") as caught:
            call()
        assert "Did you mean 'air_quality'?" in str(caught.value)


@pytest.mark.parametrize("selector", ["champoin", "0123456789", "f" * 64])
def test_an_unknown_version_lists_the_aliases_and_versions(
    store: ModelStore, selector: str
) -> None:
    version = store.save(SampleModel(), "air")
    store.promote("air", version, "champion")
    with pytest.raises(StoreError) as caught:
        store.load(f"air@{selector}")
    assert f"aliases 'champion'; versions {version.id[:12]!r}" in str(caught.value)
    assert ("Did you mean 'champion'?" in str(caught.value)) == (selector == "champoin")


def test_digits_that_match_several_versions_are_refused(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    version = store.save(SampleModel(), "air")
    twin = version.id[:10] + "0" * 54
    (tmp_path / "air" / twin).mkdir()
    (tmp_path / "air" / twin / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match=r"matches 2 versions, .*; give more digits"):
        store.resolve(f"air@{version.id[:10]}")
    assert store.resolve(version.ref) == version


BAD_NAMES = ["", ".", "..", "../air", "a/b", "a\\b", "-x", "a@b", "a b", "x" * 129, "a\n", "é"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_must_be_valid_on_every_file_system(tmp_path: Path, name: str) -> None:
    store = ModelStore(tmp_path)
    with pytest.raises(InvalidNameError, match="cannot name a model; use up to 128 letters"):
        store.save(SampleModel(), name)
    with pytest.raises(InvalidNameError, match="cannot name a model"):
        store.versions(name)
    assert store.models() == []
    store.save(SampleModel(), "air")
    with pytest.raises(InvalidNameError, match="cannot be an alias"):
        store.promote("air", "air", name)
    if "@" not in name:
        with pytest.raises(InvalidNameError, match="cannot be an alias"):
            store.load(f"air@{name}")


@pytest.mark.parametrize("alias", ["deadbeef", "0123456789", "DEADBEEF", "f" * 64])
def test_an_alias_that_looks_like_an_id_is_refused(tmp_path: Path, alias: str) -> None:
    store = ModelStore(tmp_path)
    version = store.save(SampleModel(), "air")
    with pytest.raises(InvalidNameError, match="looks like a content id"):
        store.promote("air", version, alias)


def test_the_layout_on_disk_is_the_documented_one(tmp_path: Path) -> None:
    store = ModelStore(str(tmp_path))
    version = store.save(SampleModel(), "air")
    store.promote("air", version, "champion")
    paths = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    files = ["manifest.json", "tables.arrow"]
    (promotion,) = store.history("air")
    moment = promotion.time.replace(":", "").replace("+0000", "Z")
    assert paths == [
        *(f"air/{version.id}/{name}" for name in files),
        "air/aliases/champion.json",
        f"air/promotions/champion/{moment}-{version.id[:12]}.json",
    ]
    alias = json.loads((tmp_path / "air" / "aliases" / "champion.json").read_text())
    assert alias == dataclasses.asdict(store.aliases("air")["champion"])


def test_files_of_a_killed_writer_are_removed_once_they_are_old(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    old, young = tmp_path / "air" / ".staging-old", tmp_path / "air" / ".staging-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "tables.arrow").write_bytes(b"half")
    two_days_ago = time.time() - 2 * 24 * 3600
    for path in (old / "tables.arrow", old):
        os.utime(path, (two_days_ago, two_days_ago))
    assert store.models() == []
    store.save(SampleModel(), "air")
    assert re.findall(r"\.staging-\w+", str(list((tmp_path / "air").iterdir()))) == [
        ".staging-young"
    ]
