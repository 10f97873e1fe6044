"""The k-d trees of two libraries give the same results, to the last bit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from model_values import table_of_matrix

import probclass_core as pc
from probclass_core.estimation.families.knn import balls

FAR = (1e9, -1e150, 1e200, -1e300)
"""The squares of the last two are beyond float64."""


def joint(
    points: np.ndarray, rows: np.ndarray, k: int, weights: np.ndarray | None = None
) -> np.ndarray:
    further = {} if weights is None else {"w": weights}
    training = table_of_matrix(points, c=np.arange(len(points)) % 3, **further)
    names = training.column_names[: points.shape[1]]
    block = pc.Block("knn_density", names, k=k)
    spec = pc.ModelSpec("c", [block], weight=None if weights is None else "w")
    return pc.fit(training, spec).joint_log_likelihood(table_of_matrix(rows))


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(3, 400),
    dimensions=st.integers(1, 8),
    k=st.sampled_from([1, 3, 10, 99, 100, 150]),
    grid=st.sampled_from([None, 0.5, 0.1]),
    weighted=st.booleans(),
)
@example(seed=0, size=400, dimensions=2, k=10, grid=None, weighted=False)
@example(seed=0, size=400, dimensions=2, k=10, grid=0.5, weighted=True)
def test_pykdtree_and_scipy_give_equal_results(
    seed: int, size: int, dimensions: int, k: int, grid: float | None, weighted: bool
) -> None:
    noise = np.random.default_rng(seed)
    points = noise.normal(size=(size, dimensions))
    far = np.broadcast_to(np.array(FAR)[:, None], (len(FAR), dimensions))
    rows = np.vstack([noise.normal(size=(50, dimensions)), points[:10], far])
    if grid is not None:  # so that there are ties and repeated points
        points, rows = grid * (points / grid).round(), grid * (rows / grid).round()
    weights = noise.uniform(1.0, 2.0, size) if weighted else None
    with_pykdtree = joint(points, rows, min(k, size), weights)
    assert "pykdtree.kdtree" in sys.modules
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pykdtree.kdtree", None)
        without = joint(points, rows, min(k, size), weights)
    np.testing.assert_array_equal(with_pykdtree, without)


def test_results_are_in_row_order_for_any_number_of_rows() -> None:
    noise = np.random.default_rng(0)
    points, rows = noise.normal(size=(2_000, 3)), noise.normal(size=(20_000, 3))
    one_by_one = np.vstack([joint(points, row[None, :], 5) for row in rows[:: len(rows) // 20]])
    together = joint(points, rows, 5)[:: len(rows) // 20]
    np.testing.assert_array_equal(together, one_by_one)


def test_results_do_not_depend_on_reordering_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0)
    points, rows = noise.normal(size=(2_000, 3)).round(1), noise.normal(size=(500, 3)).round(1)
    ordered = joint(points, rows, 5)
    monkeypatch.setattr(balls, "_WORTH_A_COPY", 0)
    np.testing.assert_array_equal(joint(points, rows, 5), ordered)
