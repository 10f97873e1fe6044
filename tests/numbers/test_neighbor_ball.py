"""The ball of the k-nearest-neighbor density: its volume, its ties, and a radius of 0."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted, likelihood, posterior, rows
from scipy.integrate import quad

import probclass_core as pc
from probclass_core.authoring import POINT_MASS_WIDTH
from probclass_core.errors import NotSupportedError

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
