"""A training is known by its inputs: repeated, it names the version that it made before."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import write_rows
from python_processes import output_of_python

import probclass_core as pc

SPEC = pc.ModelSpec("kind", [pc.Block("gaussian_full", list("abcdef"))])

TRAIN = """
import sys
import probclass_core as pc
spec = pc.ModelSpec("kind", [pc.Block("gaussian_full", list("abcdef"))])
model = pc.fit(sys.argv[1], spec)
print(model.id, pc.ModelStore(sys.argv[2]).save(model, "kinds").id)
"""


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Two days of six correlated columns."""
    rng = np.random.default_rng(7)
    for day in ("1", "2"):
        values = rng.normal(size=(4000, 6)) @ rng.normal(size=(6, 6))
        kinds = np.where(rng.random(4000) < 0.4, "x", "y")
        table = pa.table({"kind": kinds, **dict(zip("abcdef", values.T, strict=True))})
        write_rows(tmp_path / "lake" / f"day={day}", table)
    return str(tmp_path / "lake")


def test_the_same_training_on_two_types_of_processors_is_one_version(
    lake: str, tmp_path: Path
) -> None:
    """OpenBLAS takes other instructions, which round otherwise, where its library is used."""
    printed = [
        output_of_python(
            *("-c", TRAIN, lake, tmp_path / "store"), env={"OPENBLAS_CORETYPE": processor}
        ).split()
        for processor in ("Haswell", "Nehalem")
    ]
    (version,) = {saved for _, saved in printed}
    assert version == printed[0][0]
    assert [each.id for each in pc.ModelStore(tmp_path / "store").versions("kinds")] == [version]


def rounded_otherwise(model: pc.Model) -> pc.Model:
    """The model as another processor would fit it: the last digits of its prior differ."""
    column = np.nextafter(model.priors["prior"].to_numpy(), 1.0)
    place = model.priors.column_names.index("prior")
    priors = model.priors.set_column(place, "prior", pa.array(column))
    other = dataclasses.replace(model, priors=priors)
    object.__setattr__(other, "inputs", model.inputs)
    return other


def test_a_training_is_known_with_every_engine_and_with_kept_statistics(
    lake: str, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path / "store")
    first = pc.fit(lake, SPEC)
    version = store.save(first, "kinds")
    ways: list[dict[str, Any]] = [{"workers": 1}, {"engine": "processes"}, {"cache": store}]
    for way in (*ways, {"cache": store}):
        again = pc.fit(lake, SPEC, **way)
        assert again.inputs == first.inputs, way
        assert store.save(rounded_otherwise(again), "kinds") == version, way
    assert store.versions("kinds") == [version]
    assert store.save(rounded_otherwise(first), "others").id != version.id


def test_two_processors_that_save_a_training_at_once_make_one_version(
    lake: str, tmp_path: Path
) -> None:
    models = [pc.fit(lake, SPEC)]
    models += [rounded_otherwise(models[-1]) for _ in range(3)]
    for attempt in range(5):
        store = pc.ModelStore(tmp_path / str(attempt))
        with ThreadPoolExecutor(4) as pool:
            saved = {one.id for one in pool.map(store.save, models, ["kinds"] * len(models))}
        assert saved == {version.id for version in store.versions("kinds")}
        assert len(saved) == 1


def test_other_rows_another_spec_and_a_changed_model_are_other_versions(
    lake: str, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path / "store")
    model = pc.fit(lake, SPEC)
    saved = [store.save(model, "kinds")]
    saved.append(store.save(pc.fit(lake, SPEC, partition={"day": "1"}), "kinds"))
    saved.append(store.save(pc.fit(lake, dataclasses.replace(SPEC, prior="uniform")), "kinds"))
    saved.append(store.save(dataclasses.replace(model, training={}).with_prior("uniform"), "kinds"))
    saved.append(store.save(pc.with_density_quantiles(model, lake), "kinds"))
    assert len({version.id for version in saved}) == 4, "both uniform priors are one version"
    day = Path(lake) / "day=2"
    write_rows(day, pq.read_table(day, partitioning=None).slice(10))
    assert store.save(pc.fit(lake, SPEC), "kinds").id not in {version.id for version in saved}


def test_a_calibration_is_known_by_the_model_and_the_rows(lake: str, tmp_path: Path) -> None:
    store = pc.ModelStore(tmp_path / "store")
    calibrated = pc.calibrate(pc.fit(lake, SPEC), lake)
    version = store.save(calibrated, "kinds")
    again = pc.calibrate(pc.fit(lake, SPEC), lake)
    assert again.inputs == calibrated.inputs
    assert store.save(rounded_otherwise(again), "kinds") == version


def test_rows_in_memory_are_known_by_the_content_of_the_model(tmp_path: Path) -> None:
    store = pc.ModelStore(tmp_path / "store")
    table = {"kind": ["x", "y", "x", "y"], **{name: [1.0, 2.0, 3.5, 7.0] for name in "abcdef"}}
    model = pc.fit(table, SPEC)
    assert model.inputs is None
    version = store.save(model, "kinds")
    assert store.save(rounded_otherwise(model), "kinds").id != version.id
    assert store.load(version.ref).inputs is None


def test_a_version_that_was_deleted_is_saved_again(lake: str, tmp_path: Path) -> None:
    store = pc.ModelStore(tmp_path / "store")
    model = pc.fit(lake, SPEC)
    store.delete(store.save(model, "kinds").ref)
    other = rounded_otherwise(model)
    assert store.save(other, "kinds").id == other.id
    assert store.save(model, "kinds").id == other.id


def test_a_training_is_found_without_reading_other_versions(lake: str, tmp_path: Path) -> None:
    store = pc.ModelStore(tmp_path / "store")
    model = pc.fit(lake, SPEC)
    version = store.save(model, "kinds")
    (training,) = (tmp_path / "store" / "kinds" / "trainings").iterdir()
    assert training.stem == version.inputs
    for prior in ("uniform", {"x": 0.25, "y": 0.75}):
        other = store.save(model.with_prior(prior), "kinds")
        Path(store.uri, other.path).write_text("damaged")
    assert store.save(rounded_otherwise(model), "kinds") == version
    training.write_text("damaged")
    assert store.save(model, "kinds") == version, "by its content"
    store.delete(version.ref)
    assert not training.exists()
