"""Models that hold what was measured after their fit: stored, loaded, and told apart."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.arrow.bundle import Bundle

BILL = pc.Block("gaussian_full", ["bill_length_mm", "bill_depth_mm"])


@pytest.fixture
def model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, pc.ModelSpec("species", [BILL]))


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_a_calibrated_model_comes_back_as_it_was(
    tmp_path: Path, penguins: pa.Table, model: pc.Model, method: str
) -> None:
    measured = pc.with_density_quantiles(pc.calibrate(model, penguins, method), penguins)
    store = pc.ModelStore(tmp_path)
    version = store.save(measured, "penguins")
    loaded = store.load(version.ref)
    assert loaded.id == measured.id == version.id
    assert loaded.calibration == measured.calibration
    assert loaded.density_quantiles == measured.density_quantiles
    assert list(loaded.parameters) == ["gaussian_full"]
    np.testing.assert_array_equal(loaded.predict_proba(penguins), measured.predict_proba(penguins))
    rule = pc.DecisionRule(min_density_quantile=0.02)
    assert loaded.predict(penguins, rule) == measured.predict(penguins, rule)
    assert loaded.training["calibration"] == {"method": method, "rows": 344}
    # SampleModel from what was loaded, it is the same version; nothing is lost on the way.
    assert pc.ModelStore(tmp_path / "other").save(loaded, "penguins").id == version.id


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
@pytest.mark.parametrize("kind", [pa.bool_(), pa.int32(), pa.dictionary(pa.int8(), pa.string())])
def test_classes_of_every_type_are_calibrated(
    tmp_path: Path, method: str, kind: pa.DataType
) -> None:
    words = {pa.bool_(): [True, False], pa.int32(): [3, 12]}.get(kind, ["no", "yes"])
    table = pa.table({"x": [1.0, 2.0, 3.0, 2.5, 4.0, 5.0], "y": pa.array([*words] * 3, kind)})
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])
    calibrated = pc.calibrate(pc.fit(table, spec), table, method)
    version = pc.ModelStore(tmp_path).save(calibrated, "m")
    loaded = pc.ModelStore(tmp_path).load(version.ref)
    found = loaded.predict_proba(table)
    np.testing.assert_array_equal(found, calibrated.predict_proba(table))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    costs = {str(words[0]).lower(): {str(words[1]).lower(): 0.0}}
    assert loaded.predict(table, {"costs": costs}).type == loaded.classes.type


def test_what_was_measured_is_part_of_the_identity(penguins: pa.Table, model: pc.Model) -> None:
    some = penguins.slice(0, 300)
    others = [
        pc.calibrate(model, penguins),
        pc.calibrate(model, some),
        pc.calibrate(model, penguins, "isotonic"),
        pc.with_density_quantiles(model, penguins),
        pc.with_density_quantiles(model, some),
    ]
    assert len({model.id, *(other.id for other in others)}) == 6
    without = dataclasses.replace(others[0], calibration=None)
    assert without.id == model.id
    assert pc.calibrate(model, penguins).id == others[0].id


def test_a_model_without_them_is_stored_as_ever(model: pc.Model) -> None:
    bundle = model.to_bundle()
    assert list(bundle.tables) == ["priors", "gaussian_full"]
    again = pc.Model.from_bundle(Bundle.from_files(bundle.manifest(), bundle.files().__getitem__))
    assert (again.calibration, again.density_quantiles) == (None, None)
    assert again.id == model.id


def test_a_reader_that_would_not_calibrate_is_told_to_stop(
    penguins: pa.Table, model: pc.Model
) -> None:
    measured = pc.with_density_quantiles(model, penguins)
    calibrated = pc.calibrate(measured, penguins)
    needs = [
        each.to_bundle().manifest()["min_reader_version"] for each in (model, measured, calibrated)
    ]
    assert needs == [1, 1, 2]


def test_the_tables_are_readable_by_themselves(
    tmp_path: Path, penguins: pa.Table, model: pc.Model
) -> None:
    store = pc.ModelStore(tmp_path)
    version = store.save(pc.calibrate(model, penguins), "penguins")
    file = tmp_path / "penguins" / version.id / "calibration.arrow"
    (row,) = pa.ipc.open_file(file.read_bytes()).read_all().to_pylist()
    assert (row["method"], row["class"], row["knot"]) == ("temperature", None, None)
    assert row["value"] > 0
