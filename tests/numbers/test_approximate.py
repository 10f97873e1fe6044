"""Neighbors by cells: how many are found, the same ones each time, all if all cells are probed."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc

DIMENSIONS = 12
NAMES = [f"x{place}" for place in range(DIMENSIONS)]
K = 10


def rows_of(seed: int, size: int) -> pa.Table:
    """Three classes around centers of their own, as data have them, of a few hundred kinds."""
    kinds = np.random.default_rng(0).normal(scale=3.0, size=(300, DIMENSIONS))
    noise = np.random.default_rng(seed)
    kind = noise.integers(0, len(kinds), size)
    points = kinds[kind] + noise.normal(size=(size, DIMENSIONS))
    return pa.table({**dict(zip(NAMES, points.T.copy(), strict=True)), "c": kind % 3})


@pytest.fixture(scope="module")
def training() -> pa.Table:
    return rows_of(1, 20_000)


@pytest.fixture(scope="module")
def asked() -> pa.Table:
    return rows_of(2, 1_000)


def model(training: pa.Table, probes: int) -> pc.Model:
    return pc.fit(training, pc.ModelSpec("c", [pc.Block("knn_density", NAMES, k=K, probes=probes)]))


def test_few_probes_find_nearly_all_neighbors(training: pa.Table, asked: pa.Table) -> None:
    exact, near = model(training, 0), model(training, 16)
    distance = near.score_samples(asked) - exact.score_samples(asked)
    # What is missed makes the ball larger, never smaller, and so the density less.
    assert distance.max() < 1e-9
    assert (distance > -1e-9).mean() > 0.95
    assert (near.predict(asked).to_numpy() == exact.predict(asked).to_numpy()).mean() > 0.99


def test_all_cells_hold_all_neighbors(training: pa.Table, asked: pa.Table) -> None:
    exact, near = model(training, 0), model(training, 10_000)
    assert near.joint_log_likelihood(asked) == pytest.approx(exact.joint_log_likelihood(asked))


def test_the_same_points_give_the_same_answers(training: pa.Table, asked: pa.Table) -> None:
    shuffled = training.take(np.random.default_rng(0).permutation(len(training)))
    one, other = model(training, 4), model(shuffled, 4)
    assert one.id == other.id
    assert np.array_equal(one.joint_log_likelihood(asked), other.joint_log_likelihood(asked))


def test_of_few_points_all_are_looked_at(asked: pa.Table) -> None:
    few = rows_of(3, 500)
    exact, near = model(few, 0), model(few, 1)
    assert np.array_equal(near.joint_log_likelihood(asked), exact.joint_log_likelihood(asked))


def test_a_cell_with_fewer_than_k_points_still_has_a_density(asked: pa.Table) -> None:
    spec = pc.ModelSpec("c", [pc.Block("knn_density", NAMES, k=2_000, probes=1)])
    posterior = pc.fit(rows_of(1, 12_000), spec).predict_proba(asked)
    assert posterior.sum(axis=1) == pytest.approx(np.ones(len(asked)))


def test_probes_are_for_the_euclidean_metric(training: pa.Table) -> None:
    block = pc.Block("knn_density", NAMES, probes=4, metric="manhattan")
    with pytest.raises(pc.SpecError, match="probes are for the Euclidean metric, got 'manhattan'"):
        pc.fit(training, pc.ModelSpec("c", [block]))


def test_without_faiss_the_mend_is_named(
    training: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(pc.NotSupportedError, match=r"pip install 'probclass\[ann\]'"):
        model(training, 4)
