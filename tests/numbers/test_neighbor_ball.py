"""The ball of the k-nearest-neighbor density: its volume, its ties, and a radius of 0."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted, likelihood, posterior, rows

import probclass_core as pc
from probclass_core.authoring import POINT_MASS_WIDTH

CORNERS = rows(
    ["x", "y", "c"],
    [(1.0, 1.0, "a"), (1.0, -1.0, "a"), (-1.0, 1.0, "a"), (-1.0, -1.0, "b"), (9.0, 9.0, "b")],
)
"""Four points at equal distance from the origin, and one that is farther away."""


@pytest.mark.parametrize("dimensions", [1, 2, 3, 6, 12])
def test_volume_of_the_ball(dimensions: int) -> None:
    """The ball reaches the neighbor of class 0, whose density is 1 / (1 · V)."""
    names = [f"x{position}" for position in range(dimensions)]
    neighbor = {name: [0.3 if position == 0 else 0.0, 50.0] for position, name in enumerate(names)}
    block = pc.Block("knn_density", names, k=1)
    model = fitted(pa.table({**neighbor, "c": [0, 1]}), "c", block)
    volume = 1.0 / likelihood(model, **dict.fromkeys(names, 0.0))[0]
    expected = math.pi ** (dimensions / 2) / math.gamma(dimensions / 2 + 1) * 0.3**dimensions
    assert volume == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e-8, 1e7, 1e170, 1e300])
def test_the_unit_of_the_features_shifts_densities_but_not_posteriors(
    unit: float,
) -> None:
    """Powers of distances overflow long before the distances do."""
    random = np.random.default_rng(3)
    x = np.repeat([[0.0, 5.0], [1.0, 5.0]], 40, axis=0) + random.normal(0.0, 0.5, (80, 2))
    label = np.repeat([0, 1], 40)
    block = pc.Block("knn_density", ["x", "y"], k=5)
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
