"""A model that is loaded from a store equals the fitted model."""

from __future__ import annotations

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
