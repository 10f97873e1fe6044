"""This release reads the models of every release and gives the results they had then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from make import results

import probclass_core as pc
from probclass_core.arrow.bundle import TABLES, from_ipc

HERE = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/release.json"))
MODELS = [
    (release, name)
    for release in RELEASES
    for name in json.loads((HERE / release / "release.json").read_text())["models"]
]
every_model = pytest.mark.parametrize(("release", "name"), MODELS)


def rows(release: str) -> pa.Table:
    return from_ipc((HERE / release / "rows.arrow").read_bytes())


def load(release: str, name: str) -> pc.Model:
    return pc.ModelStore(HERE / release / "models").load(name)


def stored_results(release: str, name: str) -> pa.Table:
    return from_ipc((HERE / release / "results" / f"{name}.arrow").read_bytes())


def matrix(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist())


@every_model
def test_a_model_gives_the_results_of_its_release(release: str, name: str) -> None:
    before, now = stored_results(release, name), results(load(release, name), rows(release))
    for column in before.column_names:
        if column in ("joint", "posterior", "log_density"):
            numbers = matrix(now[column]), matrix(before[column])
            np.testing.assert_allclose(*numbers, rtol=1e-9, atol=1e-12)
        else:  # decisions by some rule
            assert now[column].to_pylist() == before[column].to_pylist()


@every_model
def test_a_model_keeps_its_id_and_tables(release: str, name: str) -> None:
    """Its id is the name of its folder, and saving it with this release keeps the id."""
    (folder,) = (HERE / release / "models" / name).iterdir()
    model = load(release, name)
    assert model.id == folder.name
    stored = pa.ipc.open_file(pa.memory_map(str(folder / TABLES))).read_all()
    tables = model.to_bundle().tables
    assert stored.column_names == list(tables)
    for name, table in tables.items():
        rows = pa.Table.from_struct_array(stored[name].chunk(0).values)
        assert rows.schema.equals(table.schema)
        assert stored.field(name).metadata == table.schema.metadata
        assert str(rows.to_pydict()) == str(table.to_pydict())  # as text, NaN equals NaN


def test_this_release_has_golden_models() -> None:
    assert pc.__version__ in RELEASES, "run make golden, which writes the models of a new release"
