"""The points of a large model are in memory once for all processes of a machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import workloads

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.execution.open import open_engine

NAMES = [f"x{number}" for number in range(20)]
POINTS = 100_000
SIZE = POINTS * len(NAMES) * 8


def rows_of(count: int, seed: int = 0) -> pa.Table:
    noise = np.random.default_rng(seed)
    values = {name: noise.normal(size=count) for name in NAMES}
    return pa.table({**values, "c": noise.integers(0, 3, count)})


def fit_neighbors(points: int) -> pc.Model:
    return pc.fit(rows_of(points), pc.ModelSpec("c", [pc.Block("knn_density", NAMES, k=5)]))


@pytest.fixture(scope="module")
def model() -> pc.Model:
    """A model with 16 million bytes of points."""
    return fit_neighbors(POINTS)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == [], "nothing is left behind"


def test_a_worker_maps_the_points_of_a_model(model: pc.Model) -> None:
    batch = rows_of(100, seed=1).to_batches()[0]
    memory = []
    for sample in (fit_neighbors(1_000), model):
        work = workloads.LogDensities(sample)
        with open_engine("processes", 1) as engine:
            private, densities = next(engine.map(work, [batch]))
        memory.append(private)
    assert memory[1] - memory[0] < 0.5 * SIZE
    assert densities.tobytes() == model.posterior(batch).log_density.tobytes()


@pytest.mark.parametrize("end", ["error", "close"])
def test_the_temporary_file_is_removed_if_the_map_ends_early(
    model: pc.Model, temporary: Path, end: str
) -> None:
    batch = rows_of(10, seed=1).to_batches()[0]
    items: list[Any] = [batch, "not a batch", batch] if end == "error" else [batch] * 5
    with open_engine("processes", 1) as engine:
        answers = engine.map(workloads.LogDensities(model), items)
        next(answers)
        assert len(list(temporary.iterdir())) == 1
        if end == "error":
            with pytest.raises(TableError, match="failed 3 times"):
                list(answers)
        else:
            answers.close()  # type: ignore[attr-defined]
