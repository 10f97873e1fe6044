"""Every search finds exact neighbors, also of far, close and repeated points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from model_values import fitted, table_of_matrix
from scipy.spatial.distance import cdist

import probclass_core as pc

CLASSES = 3


def check(points: np.ndarray, labels: np.ndarray, rows: np.ndarray, k: int, unit: float) -> None:
    """Compare posteriors and densities with those of brute force, including ties at the radius.

    The coordinates of the model are multiplied by the unit, a power of two, without rounding.
    """
    size, dimensions = points.shape
    table = table_of_matrix(unit * rows)
    block = pc.Block("knn_density", table.column_names, k=k)
    model = fitted(table_of_matrix(unit * points, c=labels), "c", block)

    distance = cdist(rows, points)
    radius = np.partition(distance, k - 1, axis=1)[:, k - 1]
    # cdist adds in another order: a point at the radius is within a few ulps of it.
    inside = distance <= radius[:, None] * (1.0 + 1e-13)
    votes = np.stack([(inside & (labels == c)).sum(axis=1) for c in range(CLASSES)], axis=1)
    total = votes.sum(axis=1)
    assert model.predict_proba(table) == pytest.approx(votes / total[:, None], abs=1e-12)

    wide = radius > 0.0
    sphere = 0.5 * dimensions * math.log(math.pi) - math.lgamma(0.5 * dimensions + 1.0)
    volume = sphere + dimensions * (np.log(radius[wide]) + math.log(unit))
    density = np.log(total[wide] / size) - volume
    assert model.score_samples(table)[wide] == pytest.approx(density, rel=1e-9, abs=1e-9)


def random_points(seed: int, size: int, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    noise = np.random.default_rng(seed)
    labels = np.append(np.arange(CLASSES), noise.integers(0, CLASSES, size - CLASSES))
    return noise.normal(size=(size, dimensions)) + 0.3 * labels[:, None], labels


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(5, 700),
    dimensions=st.sampled_from([1, 2, 5, 8, 9, 12, 30]),
    k=st.integers(1, 5),
    unit=st.sampled_from([2.0**-400, 2.0**-30, 1.0, 2.0**20, 2.0**400]),
    offset=st.sampled_from([0.0, 1.0, 1e3]),
    grid=st.sampled_from([None, 1.0, 0.125]),
)
@example(seed=0, size=64, dimensions=9, k=5, unit=1.0, offset=0.0, grid=None)
@example(seed=0, size=65, dimensions=9, k=5, unit=1.0, offset=1e3, grid=1.0)
def test_posteriors_agree_with_brute_force_distances(
    seed: int,
    size: int,
    dimensions: int,
    k: int,
    unit: float,
    offset: float,
    grid: float | None,
) -> None:
    points, labels = random_points(seed, size, dimensions)
    rows = np.vstack([random_points(seed + 1, 20, dimensions)[0], points[:5]])
    if grid is not None:  # exact numbers, so that there are ties
        points, rows = grid * (points / grid).round(), grid * (rows / grid).round()
    check(points + offset, labels, rows + offset, k, unit)


def test_rows_far_beyond_the_points_find_the_nearest() -> None:
    points, labels = random_points(0, 500, 10)
    rows = np.vstack([random_points(1, 5, 10)[0], 1e4 * points[:5], np.full((1, 10), -1e6)])
    check(points, labels, rows, 3, unit=1.0)


def test_a_row_beyond_the_range_of_single_precision_has_a_posterior() -> None:
    points, labels = random_points(0, 200, 10)
    far = table_of_matrix(np.repeat([[1e100], [1e300], [-1e300]], 10, axis=1))
    block = pc.Block("knn_density", far.column_names, k=3)
    model = fitted(table_of_matrix(points, c=labels), "c", block)
    assert model.predict_proba(far).sum(axis=1) == pytest.approx(np.ones(3))
