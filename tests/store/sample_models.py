"""Small bundles and models, so that stores are tested without a fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.arrow.bundle import Bundle
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


@dataclass(frozen=True)
class SampleModel:
    """A model that a store can save; its id depends on the seed."""

    seed: int = 0
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.to_bundle().content_id

    def to_bundle(self) -> Bundle:
        return sample_bundle(self.seed, **self.provenance)


def write_in_another_format(version: ModelVersion, store: ModelStore) -> None:
    """Let a manifest say that another release wrote the version."""
    path = Path(store.uri, version.path)
    path.write_text(path.read_text().replace('"format_version": 2', '"format_version": 1'))
