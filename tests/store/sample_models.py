"""Small bundles and models, so that stores are tested without a fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.arrow.bundle import Bundle
from probclass_core.model.model import Model
from probclass_core.store.model_store import ModelStore
from probclass_core.store.records import ModelVersion


def sample_bundle(seed: int = 0, **provenance: Any) -> Bundle:
    """A bundle with every kind of column that parameters have; its content depends on the seed."""
    tensor = pa.fixed_shape_tensor(pa.float64(), (2, 2))
    flat = pa.array([[1.0, 0.5, 0.5, 2.0 + seed], [1.0, 0.0, 0.0, 1.0]], pa.list_(pa.float64(), 4))
    priors = pa.table(
        {
            "class": pa.array(["bad", "good"]).dictionary_encode(),
            "count": [3, 7 + seed],
            "prior": [0.3, 0.7],
        }
    )
    gaussian = pa.table(
        {
            "class": ["bad", "good"],
            "mean": [[0.0, 1.0], [2.0, 3.0]],
            "covariance": pa.ExtensionArray.from_storage(tensor, flat),
        }
    ).replace_schema_metadata({"features": '["a","b"]'})
    return Bundle(
        content={
            "spec": {"label": "air", "blocks": [{"name": "gaussian", "estimator": "by_hand"}]},
            "blocks": {"gaussian": {"estimator": "by_hand", "parameters_version": 1}},
        },
        tables={"priors": priors, "gaussian": gaussian},
        provenance=provenance,
    )


class BundledModel(Model):
    """A model that is nothing but its bundle, made by no training."""

    inputs = None

    def __init__(self, bundle: Bundle) -> None:
        vars(self)["bundle"] = bundle

    def to_bundle(self) -> Bundle:
        bundle: Bundle = vars(self)["bundle"]
        return bundle


class SampleModel(BundledModel):
    """A model whose id depends on the seed."""

    def __init__(self, seed: int = 0, provenance: dict[str, Any] | None = None) -> None:
        super().__init__(sample_bundle(seed, **(provenance or {})))


def write_in_another_format(version: ModelVersion, store: ModelStore) -> None:
    """Let a manifest say that another release wrote the version."""
    path = Path(store.uri, version.path)
    path.write_text(path.read_text().replace('"format_version": 2', '"format_version": 1'))
