"""The points of a large model are in memory once, however many processes of a machine use it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tasks

import probclass_core as pc
from probclass_core.execution.open import open_engine

NAMES = [f"x{place}" for place in range(20)]
POINTS = 100_000
SIZE = POINTS * len(NAMES) * 8


def rows(count: int, seed: int = 0) -> pa.Table:
    noise = np.random.default_rng(seed)
    values = {name: noise.normal(size=count) for name in NAMES}
    return pa.table({**values, "c": noise.integers(0, 3, count)})


def nearest(points: int) -> pc.Model:
    return pc.fit(rows(points), pc.ModelSpec("c", [pc.Block("knn_density", NAMES, k=5)]))


@pytest.fixture(scope="module")
def model() -> pc.Model:
    """Of 16 million bytes of points."""
    return nearest(POINTS)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == [], "nothing is left behind"


def test_a_worker_holds_little_of_the_points_for_itself(model: pc.Model) -> None:
    batch = rows(100, seed=1).to_batches()[0]
    taken, found = [], []
    for each in (nearest(1_000), model):
        with open_engine("processes", 1) as engine:
            own, density = next(engine.map(tasks.Densities(each), [batch]))
        taken.append(own)
        found.append(density)
    assert taken[1] - taken[0] < 0.5 * SIZE
    assert found[1].tobytes() == model.posterior(batch).log_density.tobytes()


def test_a_model_from_a_store_is_mapped_by_each_who_loads_it(
    model: pc.Model, tmp_path: Path
) -> None:
    """As the mapped tasks of one machine do."""
    batch = rows(100, seed=1).to_batches()[0]
    taken = []
    for number, each in enumerate((nearest(1_000), model)):
        pc.ModelStore(tmp_path).save(each, f"model{number}")
        with open_engine("processes", 1) as engine:
            load = tasks.DensitiesByStore(str(tmp_path), f"model{number}")
            own, density = next(engine.map(load, [batch]))
        taken.append(own)
    assert taken[1] - taken[0] < 0.5 * SIZE
    assert density.tobytes() == model.posterior(batch).log_density.tobytes()


@pytest.mark.parametrize("workers", ["processes", "thread pool"])
def test_scored_tables_are_those_of_threads(
    model: pc.Model, tmp_path: Path, temporary: Path, workers: str
) -> None:
    for month in range(3):
        (tmp_path / "lake" / f"month={month}").mkdir(parents=True)
        pq.write_table(rows(100, seed=month), tmp_path / "lake" / f"month={month}" / "0.parquet")
    pc.score(model, tmp_path / "lake", tmp_path / "threads", columns=["c"])
    with ThreadPoolExecutor(2) as pool:
        engine = "processes" if workers == "processes" else pool
        pc.score(model, tmp_path / "lake", tmp_path / "others", columns=["c"], engine=engine)
    assert tasks.digests(tmp_path / "others") == tasks.digests(tmp_path / "threads")


@pytest.mark.parametrize("befalls", ["an error", "the caller ends it"])
def test_nothing_is_left_behind_when_it_ends_early(
    model: pc.Model, temporary: Path, befalls: str
) -> None:
    batch = rows(10, seed=1).to_batches()[0]
    items: list[Any] = [batch, "no batch", batch] if befalls == "an error" else [batch] * 5
    with open_engine("processes", 1) as engine:
        answers = engine.map(tasks.Densities(model), items)
        next(answers)
        assert len(list(temporary.iterdir())) == 1
        if befalls == "an error":
            with pytest.raises(pc.TableError, match="failed 3 times"):
                list(answers)
        else:
            answers.close()  # type: ignore[attr-defined]


def test_where_there_is_no_room_it_says_so(
    model: pc.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    said = pytest.raises(pc.TableError, match=r"for the worker processes into .*gone: .* TMPDIR")
    with open_engine("processes", 1) as engine, said:
        next(engine.map(tasks.Densities(model), ["no batch"]))
