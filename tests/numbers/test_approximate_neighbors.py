"""Approximate neighbors: recall, reproducibility, and exactness if all cells are probed."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest
from model_values import table_of_matrix

import probclass_core as pc

DIMENSIONS = 12
NAMES = [f"x{position}" for position in range(DIMENSIONS)]
K = 10


def random_rows(seed: int, size: int) -> pa.Table:
    """Rows of three classes, clustered around a few hundred centers."""
    centers = np.random.default_rng(0).normal(scale=3.0, size=(300, DIMENSIONS))
    noise = np.random.default_rng(seed)
    center = noise.integers(0, len(centers), size)
    points = centers[center] + noise.normal(size=(size, DIMENSIONS))
    return table_of_matrix(points, c=center % 3)


@pytest.fixture(scope="module")
def training() -> pa.Table:
    return random_rows(1, 20_000)


@pytest.fixture(scope="module")
def queries() -> pa.Table:
    return random_rows(2, 1_000)


def model(training: pa.Table, probes: int) -> pc.Model:
    return pc.fit(training, pc.ModelSpec("c", [pc.Block("knn_density", NAMES, k=K, probes=probes)]))


def test_few_probes_find_nearly_all_neighbors(training: pa.Table, queries: pa.Table) -> None:
    exact, approximate = model(training, 0), model(training, 16)
    distance = approximate.score_samples(queries) - exact.score_samples(queries)
    # A missed neighbor makes the ball larger, never smaller, and so the density smaller.
    assert distance.max() < 1e-9
    assert (distance > -1e-9).mean() > 0.95
    assert (
        approximate.predict(queries).to_numpy() == exact.predict(queries).to_numpy()
    ).mean() > 0.99


def test_probing_all_cells_finds_all_neighbors(training: pa.Table, queries: pa.Table) -> None:
    exact, approximate = model(training, 0), model(training, 10_000)
    assert approximate.joint_log_likelihood(queries) == pytest.approx(
        exact.joint_log_likelihood(queries)
    )


def test_the_order_of_the_points_does_not_matter(training: pa.Table, queries: pa.Table) -> None:
    shuffled = training.take(np.random.default_rng(0).permutation(len(training)))
    model_a, model_b = model(training, 4), model(shuffled, 4)
    assert model_a.id == model_b.id
    assert np.array_equal(
        model_a.joint_log_likelihood(queries), model_b.joint_log_likelihood(queries)
    )


def test_few_points_are_searched_exactly(queries: pa.Table) -> None:
    training_rows = random_rows(3, 500)
    exact, approximate = model(training_rows, 0), model(training_rows, 1)
    assert np.array_equal(
        approximate.joint_log_likelihood(queries), exact.joint_log_likelihood(queries)
    )


def test_a_cell_with_fewer_than_k_points_still_has_a_density(queries: pa.Table) -> None:
    spec = pc.ModelSpec("c", [pc.Block("knn_density", NAMES, k=2_000, probes=1)])
    posterior = pc.fit(random_rows(1, 12_000), spec).predict_proba(queries.slice(0, 100))
    assert posterior.sum(axis=1) == pytest.approx(np.ones(100))


def test_probes_require_the_euclidean_metric(training: pa.Table) -> None:
    block = pc.Block("knn_density", NAMES, probes=4, metric="manhattan")
    with pytest.raises(pc.SpecError, match="probes are for the Euclidean metric, got 'manhattan'"):
        pc.fit(training, pc.ModelSpec("c", [block]))


def test_missing_faiss_names_the_extra_to_install(
    training: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(pc.NotSupportedError, match=r"pip install 'probclass\[ann\]'"):
        model(training, 4)
