"""Nearest neighbors: exact search, the ball of the density and its volume, and the options."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from model_values import fitted, likelihood, posterior, rows, table_of_matrix
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.neighbors import NearestNeighbors

import probclass_core as pc
from probclass_core.authoring import POINT_MASS_WIDTH
from probclass_core.errors import NotSupportedError

CLASSES = 3


def check(points: np.ndarray, labels: np.ndarray, places: np.ndarray, k: int, unit: float) -> None:
    """Compare posteriors and densities with those of brute force, including ties at the radius.

    The coordinates of the model are multiplied by the unit, a power of two, without rounding.
    """
    size, dimensions = points.shape
    table = table_of_matrix(unit * places)
    block = pc.Block("knn_density", table.column_names, k=k)
    model = fitted(table_of_matrix(unit * points, c=labels), "c", block)

    distance = cdist(places, points)
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
    places = np.vstack([random_points(seed + 1, 20, dimensions)[0], points[:5]])
    if grid is not None:  # exact numbers, so that there are ties
        points, places = grid * (points / grid).round(), grid * (places / grid).round()
    check(points + offset, labels, places + offset, k, unit)


def test_rows_far_beyond_the_points_find_the_nearest() -> None:
    points, labels = random_points(0, 500, 10)
    places = np.vstack([random_points(1, 5, 10)[0], 1e4 * points[:5], np.full((1, 10), -1e6)])
    check(points, labels, places, 3, unit=1.0)


def test_a_row_beyond_the_range_of_single_precision_has_a_posterior() -> None:
    points, labels = random_points(0, 200, 10)
    far = table_of_matrix(np.repeat([[1e100], [1e300], [-1e300]], 10, axis=1))
    block = pc.Block("knn_density", far.column_names, k=3)
    model = fitted(table_of_matrix(points, c=labels), "c", block)
    assert model.predict_proba(far).sum(axis=1) == pytest.approx(np.ones(3))


CORNERS = rows(
    ["x", "y", "c"],
    [(1.0, 1.0, "a"), (1.0, -1.0, "a"), (-1.0, 1.0, "a"), (-1.0, -1.0, "b"), (9.0, 9.0, "b")],
)
"""Four points at equal distance from the origin, and one that is farther away."""


def volume(metric: str, p: float, dimensions: int, radius: float) -> float:
    """The volume of the ball that reaches the neighbor of class 0, whose density is 1 / (1 · V)."""
    names = [f"x{position}" for position in range(dimensions)]
    neighbor = {
        name: [radius if position == 0 else 0.0, 50.0] for position, name in enumerate(names)
    }
    block = pc.Block("knn_density", names, k=1, metric=metric, p=p)
    model = fitted(pa.table({**neighbor, "c": [0, 1]}), "c", block)
    return 1.0 / likelihood(model, **dict.fromkeys(names, 0.0))[0]


def ball(p: float, dimensions: int) -> float:
    """The unit volume by slices: at height t the radius is (1 − t^p)^(1/p)."""
    if dimensions == 0:
        return 1.0
    slices, _ = quad(lambda t: (1.0 - t**p) ** ((dimensions - 1) / p), 0.0, 1.0, epsabs=1e-12)
    return 2.0 * slices * ball(p, dimensions - 1)


CLOSED: dict[tuple[str, float], Callable[[int], float]] = {
    ("manhattan", 2.0): lambda d: 2.0**d / math.factorial(d),
    ("minkowski", 1.0): lambda d: 2.0**d / math.factorial(d),
    ("euclidean", 2.0): lambda d: math.pi ** (d / 2) / math.gamma(d / 2 + 1),
    ("minkowski", 2.0): lambda d: math.pi ** (d / 2) / math.gamma(d / 2 + 1),
    ("chebyshev", 2.0): lambda d: 2.0**d,
    ("minkowski", 1.5): lambda d: ball(1.5, d),
    ("minkowski", 3.0): lambda d: ball(3.0, d),
}


@pytest.mark.parametrize("dimensions", [1, 2, 3, 6])
@pytest.mark.parametrize(("metric", "p"), CLOSED)
def test_volume_of_the_ball_by_metric(metric: str, p: float, dimensions: int) -> None:
    expected = CLOSED[metric, p](dimensions) * 0.3**dimensions
    assert volume(metric, p, dimensions, radius=0.3) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e-8, 1e7, 1e170, 1e300])
@pytest.mark.parametrize(
    ("metric", "p"), [("euclidean", 2.0), ("manhattan", 2.0), ("minkowski", 50.0)]
)
def test_the_unit_of_the_features_shifts_densities_but_not_posteriors(
    metric: str, p: float, unit: float
) -> None:
    """Powers of distances overflow long before the distances do."""
    random = np.random.default_rng(3)
    x = np.repeat([[0.0, 5.0], [1.0, 5.0]], 40, axis=0) + random.normal(0.0, 0.5, (80, 2))
    label = np.repeat([0, 1], 40)
    block = pc.Block("knn_density", ["x", "y"], k=5, metric=metric, p=p)
    plain = pa.table({"x": x[:, 0].copy(), "y": x[:, 1].copy(), "c": label})
    scaled = pa.table({"x": x[:, 0] * unit, "y": x[:, 1] * unit, "c": label})
    one, other = fitted(plain, "c", block), fitted(scaled, "c", block)
    assert other.predict_proba(scaled) == pytest.approx(one.predict_proba(plain), abs=1e-10)
    shift = one.score_samples(plain) - other.score_samples(scaled)
    assert shift == pytest.approx(2.0 * math.log(unit), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_all_points_at_the_radius_are_in_the_ball(k: int) -> None:
    """The order of tied points does not matter: the posterior is K_c / ΣK; ΣK can exceed k."""
    block = pc.Block("knn_density", ["x", "y"], k=k)
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [3, 0, 4, 1, 2]):
        model = fitted(CORNERS.take(order), "c", block)
        assert posterior(model, x=0.0, y=0.0) == pytest.approx({"a": 3 / 4, "b": 1 / 4})
        area = math.pi * 2.0
        assert likelihood(model, x=0.0, y=0.0) == pytest.approx(
            {"a": 3 / (3 * area), "b": 1 / (2 * area)}
        )


def test_a_radius_of_0_keeps_the_posterior_and_a_finite_density() -> None:
    table = rows(["x", "c"], [(1.0, "a"), (1.0, "a"), (1.0, "b"), (2.0, "b"), (3.0, "b")])
    model = fitted(table, "c", pc.Block("knn_density", ["x"], k=3))
    assert posterior(model, x=1.0) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    width = 2.0 * POINT_MASS_WIDTH
    expected = math.log(3 / 5) - math.log(width)
    assert model.score_samples(pa.table({"x": [1.0]}))[0] == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["canberra", "braycurtis", "cosine", "correlation"])
def test_a_ball_of_unknown_volume_gives_posteriors_and_no_density(metric: str) -> None:
    table = CORNERS.append_column("z", pa.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    model = fitted(table, "c", pc.Block("knn_density", ["x", "y", "z"], k=2, metric=metric))
    x = {"x": 1.0, "y": 0.9, "z": 1.1}
    assert math.fsum(posterior(model, **x).values()) == pytest.approx(1.0)
    with pytest.raises(NotSupportedError, match="Minkowski"):
        model.score_samples(pa.table({name: [value] for name, value in x.items()}))


def sample(seed: int, size: int = 40, *, nulls: bool = False) -> pa.Table:
    """Rows with ties and repeated points."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(size, 2)).round(1)
    if nulls:
        points[random.random(points.shape) < 0.2] = np.nan
    return table_of_matrix(points, c=random.integers(0, CLASSES, size))


def spec_of(table: pa.Table, **options: Any) -> pc.ModelSpec:
    return pc.ModelSpec("c", [pc.Block("knn_density", table.column_names[:-1], **options)])


def test_pseudo_count_smooths_the_shares_of_the_classes() -> None:
    random = np.random.default_rng(2)
    points, label = random.integers(-9, 9, (40, 2)).astype(float), random.integers(0, CLASSES, 40)
    table = table_of_matrix(points, c=label)
    distance = cdist(points, points, "sqeuclidean")
    inside = distance <= np.partition(distance, 4, axis=1)[:, [4]]  # ties are in the ball
    votes = np.stack([(inside & (label == c)).sum(axis=1) for c in range(CLASSES)], axis=1)
    counts = np.bincount(label)
    posterior = (votes + 2.0) / (counts + 2.0 * CLASSES) * counts
    expected = posterior / posterior.sum(axis=1, keepdims=True)
    model = pc.fit(table, spec_of(table, k=5, pseudo_count=2.0))
    assert model.predict_proba(table) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_scaled_distances_are_those_of_scikit_learn(scale: str) -> None:
    random = np.random.default_rng(7)
    points = random.lognormal(size=(200, 3)) * [1.0, 1e3, 1e-3]
    points = np.column_stack([points, np.full(200, 5.0), random.random(200) < 0.1])
    quartiles = np.quantile(points, (0.25, 0.75), axis=0, method="inverted_cdf")
    spread = np.ptp(quartiles, axis=0) / np.ptp(norm.ppf((0.25, 0.75)))
    units = spread if scale == "robust" else np.zeros(5)
    units = np.where(units > 0.0, units, points.std(axis=0))
    units = np.where(units > 0.0, units, 1.0)  # a constant
    radius = NearestNeighbors(n_neighbors=7).fit(points / units).kneighbors(points / units)[0][:, 6]
    volume = math.log(math.pi**2.5 / math.gamma(3.5)) + 5.0 * np.log(radius) + np.log(units).sum()
    table = table_of_matrix(points, c=np.zeros(200, np.int64))
    model = pc.fit(table, spec_of(table, k=7, scale=scale))
    assert model.score_samples(table) == pytest.approx(math.log(7 / 200) - volume, abs=1e-9)


def test_a_null_can_be_replaced_by_the_mean() -> None:
    table = sample(4, nulls=True).filter(compute.field("x1").is_valid())
    filled = table.set_column(0, "x0", compute.fill_null(table["x0"], compute.mean(table["x0"])))
    model = pc.fit(table, spec_of(table, k=5, missing="mean"))
    expected = pc.fit(filled, spec_of(filled, k=5)).predict_proba(filled)
    assert model.predict_proba(table) == pytest.approx(expected, abs=1e-12)
    nothing = pa.table({"x0": pa.nulls(1, pa.float64()), "x1": pa.nulls(1, pa.float64())})
    assert model.log_likelihood_by_block(nothing)[0, :, 0].tolist() == [0.0] * CLASSES


def test_bounded_points_are_a_sample_that_does_not_depend_on_the_split() -> None:
    table = sample(5, size=400)
    spec = spec_of(table, k=5, points=50, pseudo_count=1.0)
    whole = pc.summarize(table, spec)
    parts = [pc.summarize(table.slice(start, 130), spec) for start in range(0, 400, 130)]
    assert pc.finalize(pc.merge(parts[::-1])).id == pc.finalize(whole).id
    points = whole.blocks["knn_density"]
    assert points.num_rows == 50
    everything = pc.summarize(table, spec_of(table, k=5)).blocks["knn_density"]
    assert set(map(str, points.to_pylist())) < set(map(str, everything.to_pylist()))
