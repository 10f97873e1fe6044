"""Neighbors with pseudo-counts, standardized columns, means for nulls and a bound on points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import table_of_matrix
from scipy.spatial.distance import cdist
from scipy.special import gamma
from scipy.stats import norm

import probclass_core as pc

K = 3


def sample(seed: int, rows: int = 40, *, nulls: bool = False) -> pa.Table:
    """Rows with ties and repeated points."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(rows, 2)).round(1)
    if nulls:
        points[random.random(points.shape) < 0.2] = np.nan
    return table_of_matrix(points, c=random.integers(0, K, rows))


def spec_of(table: pa.Table, **options: Any) -> pc.ModelSpec:
    return pc.ModelSpec("c", [pc.Block("knn_density", table.column_names[:-1], **options)])


def test_pseudo_count_smooths_the_shares_of_the_classes() -> None:
    random = np.random.default_rng(2)
    points, label = random.integers(-9, 9, (40, 2)).astype(float), random.integers(0, K, 40)
    table = table_of_matrix(points, c=label)
    distance = cdist(points, points, "sqeuclidean")
    inside = distance <= np.partition(distance, 4, axis=1)[:, [4]]  # ties are in the ball
    votes = np.stack([(inside & (label == c)).sum(axis=1) for c in range(K)], axis=1)
    counts = np.bincount(label)
    posterior = (votes + 2.0) / (counts + 2.0 * K) * counts
    expected = posterior / posterior.sum(axis=1, keepdims=True)
    model = pc.fit(table, spec_of(table, k=5, pseudo_count=2.0))
    assert model.predict_proba(table) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_scaled_distances_are_those_of_scikit_learn(scale: str) -> None:
    from sklearn.neighbors import NearestNeighbors

    random = np.random.default_rng(7)
    points = random.lognormal(size=(200, 3)) * [1.0, 1e3, 1e-3]
    points = np.column_stack([points, np.full(200, 5.0), random.random(200) < 0.1])
    quartiles = np.quantile(points, (0.25, 0.75), axis=0, method="inverted_cdf")
    spread = np.ptp(quartiles, axis=0) / np.ptp(norm.ppf((0.25, 0.75)))
    units = spread if scale == "robust" else np.zeros(5)
    units = np.where(units > 0.0, units, points.std(axis=0))
    units = np.where(units > 0.0, units, 1.0)  # a constant
    radius = NearestNeighbors(n_neighbors=7).fit(points / units).kneighbors(points / units)[0][:, 6]
    volume = np.log(np.pi**2.5 / gamma(3.5)) + 5.0 * np.log(radius) + np.log(units).sum()
    table = table_of_matrix(points, c=np.zeros(200, np.int64))
    model = pc.fit(table, spec_of(table, k=7, scale=scale))
    assert model.score_samples(table) == pytest.approx(np.log(7 / 200) - volume, abs=1e-9)


def test_a_null_can_be_replaced_by_the_mean() -> None:
    table = sample(4, nulls=True).filter(pa.compute.field("x1").is_valid())
    filled = table.set_column(
        0, "x0", pa.compute.fill_null(table["x0"], pa.compute.mean(table["x0"]))
    )
    model = pc.fit(table, spec_of(table, k=5, missing="mean"))
    expected = pc.fit(filled, spec_of(filled, k=5)).predict_proba(filled)
    assert model.predict_proba(table) == pytest.approx(expected, abs=1e-12)
    nothing = pa.table({"x0": pa.nulls(1, pa.float64()), "x1": pa.nulls(1, pa.float64())})
    assert model.log_likelihood_by_block(nothing)[0, :, 0].tolist() == [0.0] * K


def test_bounded_points_are_a_sample_that_does_not_depend_on_the_split() -> None:
    table = sample(5, rows=400)
    spec = spec_of(table, k=5, points=50, pseudo_count=1.0)
    whole = pc.summarize(table, spec)
    parts = [pc.summarize(table.slice(start, 130), spec) for start in range(0, 400, 130)]
    assert pc.finalize(pc.merge(parts[::-1])).id == pc.finalize(whole).id
    points = whole.blocks["knn_density"]
    assert points.num_rows == 50
    everything = pc.summarize(table, spec_of(table, k=5)).blocks["knn_density"]
    assert set(map(str, points.to_pylist())) < set(map(str, everything.to_pylist()))
