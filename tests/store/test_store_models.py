"""A model that is loaded from a store equals the fitted model, calibrated or not."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sample_models import SampleModel

import probclass_core as pc
from probclass_core.errors import PluginError

BLOCKS = [
    pc.Block("gaussian_full", ["bill_length_mm", "bill_depth_mm"]),
    pc.Block("gaussian_diagonal", ["flipper_length_mm"]),
    pc.Block("categorical", ["sex"], domain={"sex": ["FEMALE", "MALE"]}),
    pc.Block("knn_density", ["body_mass_g"], k=10),
]
SPEC = pc.ModelSpec(label="species", blocks=BLOCKS)


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> pc.ModelStore:
    return pc.ModelStore(tmp_path if request.param == "local" else f"memory://{uuid.uuid4()}")


def test_a_saved_model_predicts_the_same(
    store: pc.ModelStore, penguins: pa.Table, tmp_path: Path
) -> None:
    model = pc.fit(penguins, SPEC)
    version = store.save(model, "penguins")
    assert version.id == model.id
    assert store.save(pc.fit(penguins, SPEC), "penguins") == version
    assert store.save(model.with_prior("uniform"), "penguins") != version
    store.promote("penguins", version, alias="champion")
    loaded = store.load("penguins@champion")
    assert loaded.id == model.id
    assert loaded.spec == model.spec
    assert loaded.training == model.training
    assert loaded.predict(penguins).equals(model.predict(penguins))
    assert np.array_equal(loaded.predict_log_proba(penguins), model.predict_log_proba(penguins))
    assert np.array_equal(loaded.score_samples(penguins), model.score_samples(penguins))
    copy = pc.ModelStore(tmp_path / "copy").save(loaded, "penguins")
    assert (copy.id, copy.provenance) == (version.id, version.provenance)


def test_a_bundle_is_readable_without_its_estimator(store: pc.ModelStore) -> None:
    store.save(SampleModel(), "air")
    with pytest.raises(PluginError, match="by_hand"):
        store.load("air")
    assert store.read_bundle("air").tables["gaussian"].column_names[:2] == ["class", "mean"]


BILL = pc.Block("gaussian_full", ["bill_length_mm", "bill_depth_mm"])


@pytest.fixture
def held_out(penguins: pa.Table) -> pa.Table:
    """The penguins, a fifth of them with the species of another row, so that calibration helps."""
    species = penguins["species"].to_pylist()
    species[::5] = species[::5][::-1]
    return penguins.set_column(0, "species", pa.array(species))


@pytest.fixture
def model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, pc.ModelSpec("species", [BILL]))


def test_a_calibrated_model_is_read_back_unchanged(
    tmp_path: Path, penguins: pa.Table, held_out: pa.Table, model: pc.Model
) -> None:
    calibrated = pc.with_density_quantiles(pc.calibrate(model, held_out), penguins)
    store = pc.ModelStore(tmp_path)
    version = store.save(calibrated, "penguins")
    loaded = store.load(version.ref)
    assert loaded.id == calibrated.id == version.id
    assert loaded.calibration == calibrated.calibration
    assert loaded.density_quantiles == calibrated.density_quantiles
    assert list(loaded.parameters) == ["gaussian_full"]
    np.testing.assert_array_equal(
        loaded.predict_proba(penguins), calibrated.predict_proba(penguins)
    )
    rule = pc.DecisionRule(min_rarity=0.02)
    assert loaded.predict(penguins, rule) == calibrated.predict(penguins, rule)
    record = loaded.training["calibration"]
    assert record == calibrated.training["calibration"]
    assert (record["applied"], record["rows"]) == (True, 344)
    assert record["calibrated_log_loss"] < record["uncalibrated_log_loss"]
    # The loaded model is saved as the same version: nothing was lost.
    assert pc.ModelStore(tmp_path / "other").save(loaded, "penguins").id == version.id


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int32(), pa.dictionary(pa.int8(), pa.string())])
def test_classes_of_every_type_are_calibrated(tmp_path: Path, kind: pa.DataType) -> None:
    words = {pa.bool_(): [True, False], pa.int32(): [3, 12]}.get(kind, ["no", "yes"])
    table = pa.table({"x": [1.0, 2.0, 3.0, 2.5, 4.0, 5.0], "y": pa.array([*words] * 3, kind)})
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])
    calibrated = pc.calibrate(pc.fit(table, spec), table)
    version = pc.ModelStore(tmp_path).save(calibrated, "m")
    loaded = pc.ModelStore(tmp_path).load(version.ref)
    probabilities = loaded.predict_proba(table)
    np.testing.assert_array_equal(probabilities, calibrated.predict_proba(table))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    costs = {str(words[0]).lower(): {str(words[1]).lower(): 0.0}}
    assert loaded.predict(table, {"costs": costs}).type == loaded.classes.type


def test_calibration_and_quantiles_are_part_of_the_content_id(
    penguins: pa.Table, held_out: pa.Table, model: pc.Model
) -> None:
    first_rows = held_out.slice(0, 300)
    others = [
        pc.calibrate(model, held_out),
        pc.calibrate(model, first_rows),
        pc.with_density_quantiles(model, penguins),
        pc.with_density_quantiles(model, first_rows),
    ]
    assert len({model.id, *(other.id for other in others)}) == 5
    without = dataclasses.replace(others[0], calibration=None)
    assert without.id == model.id
    assert pc.calibrate(model, held_out).id == others[0].id
