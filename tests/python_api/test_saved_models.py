"""Models in folders of their own, and scored tables in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

import probclass_core as pc
from probclass_core.errors import StoreError


@pytest.fixture(scope="module")
def model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, label="species")


def test_a_saved_model_is_loaded_as_it_was(
    model: pc.Model, penguins: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "models" / "penguins"
    model.save(path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    model.save(str(path))  # the same again changes nothing
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert [file.name for file in path.parent.iterdir()] == ["penguins"]
    loaded = pc.load(path)
    assert loaded.id == model.id
    assert {loaded, model} == {model}
    assert loaded.training["rows"] == penguins.num_rows
    assert loaded.predict(penguins) == model.predict(penguins)
    assert {file.suffix for file in path.iterdir()} == {".arrow", ".json"}


def test_a_version_of_a_store_is_a_saved_model(model: pc.Model, tmp_path: Path) -> None:
    version = pc.ModelStore(tmp_path).save(model, "penguins")
    assert pc.load(tmp_path / "penguins" / version.id).id == model.id
    with pytest.raises(StoreError, match=r"model store with the models 'penguins'; load one by"):
        pc.load(tmp_path)


BROKEN: list[tuple[Callable[[Path], object], str]] = [
    (lambda m: (m / "tables.arrow").unlink(), "file 'tables.arrow' is missing"),
    (lambda m: (m / "manifest.json").unlink(), "has no manifest.json, so it is not a saved"),
    (lambda m: m.rename(m.with_name("moved")), "there is no such folder; check the path"),
]


@pytest.mark.parametrize(("damage", "message"), BROKEN)
def test_a_damaged_folder_is_refused(
    damage: Callable[[Path], object], message: str, model: pc.Model, tmp_path: Path
) -> None:
    model.save(tmp_path / "m")
    damage(tmp_path / "m")
    with refused(StoreError, message):
        pc.load(tmp_path / "m")


def test_a_path_with_anything_else_is_refused_and_left_alone(
    model: pc.Model, penguins: pa.Table, tmp_path: Path
) -> None:
    model.save(tmp_path / "m")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").touch()
    other = pc.fit(penguins, pc.ModelSpec("species", {"categorical": "island"}))
    for name, found in (("m", "another model"), ("file", "something"), ("folder", "something")):
        with pytest.raises(StoreError, match=f"exists and contains {found}"):
            other.save(tmp_path / name)
    assert pc.load(tmp_path / "m").id == model.id
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder", "m"]
    with pytest.raises(StoreError, match="this is a file; give the folder"):
        pc.load(tmp_path / "file")
    for path in ("", None, 3):
        with pytest.raises(StoreError, match="expected the path of a folder"):
            pc.load(path)


RULE = pc.DecisionRule(min_probability=0.9)


@pytest.mark.parametrize(
    "options",
    [{}, {"columns": "island"}, {"columns": [], "posterior": "list"}, {"decision": RULE}],
    ids=str,
)
def test_predict_table_is_what_score_writes(
    options: dict[str, Any], model: pc.Model, penguins: pa.Table, tmp_path: Path
) -> None:
    pc.score(model, penguins, tmp_path / "scored.parquet", options=options)
    written = pq.read_table(tmp_path / "scored.parquet")
    scored = model.predict_table(penguins, options=options)
    assert scored.schema.names == written.schema.names
    plain = written.replace_schema_metadata(None)
    assert scored.cast(plain.schema).equals(plain)
    assert (
        model.predict_table(penguins.to_pandas(), options={"columns": []}).num_rows
        == penguins.num_rows
    )
    assert (
        model.predict_table(penguins.slice(0, 0), options=options).schema.names
        == scored.schema.names
    )
