"""Each likelihood says which distribution a column has, in agreement with its log-likelihoods."""

from __future__ import annotations

from typing import Any

import numpy as np
import probclass_distributions
import pyarrow as pa
import pytest
from scipy.stats import gamma, norm, poisson

import probclass_core as pc
from probclass_core.estimation.marginals import Curve, Levels, Marginal, marginal


def answer(rows: dict[str, Any], block: pc.Block, column: str) -> Marginal | None:
    with pc.trying(*probclass_distributions.probclass_estimators()):
        model = pc.fit(pa.table(rows), pc.ModelSpec("c", [block]))
        (likelihood,) = model.likelihoods.values()
        features = pa.schema([model.features.field(name) for name in block.inputs])
        return marginal(likelihood, features, column)


def curve(rows: dict[str, Any], block: pc.Block, column: str = "x") -> Curve:
    found = answer(rows, block, column)
    assert isinstance(found, Curve)
    return found


def levels(rows: dict[str, Any], block: pc.Block, column: str = "x") -> Levels:
    found = answer(rows, block, column)
    assert isinstance(found, Levels)
    return found


NUMBERS = {
    "x": [1.0, 2.0, 4.0, 3.0, 7.0, 8.0],
    "y": [2.0, 1.0, 4.0, 0.0, 1.0, 2.0],
    "c": [*"aaabbb"],
}
COUNTS = {"x": [1, 2, 4, 3, 7, 8], "y": [0, 1, 0, 2, 1, 0], "c": [*"aaabbb"]}


@pytest.mark.parametrize("estimator", ["gaussian_diagonal", "gaussian_full"])
def test_a_normal_is_that_of_the_column_alone(estimator: str) -> None:
    options = {"shrinkage": 0.0} if estimator == "gaussian_full" else {"variance_floor": 0.0}
    block = pc.Block(estimator, ["x", "y"], **options)
    found, x = curve(NUMBERS, block), np.linspace(-5.0, 15.0, 9)
    assert found.mean is not None
    assert found.variance is not None
    for at, values in enumerate([[1.0, 2.0, 4.0], [3.0, 7.0, 8.0]]):
        peer = norm(np.mean(values), np.sqrt(found.variance[at]))
        np.testing.assert_allclose(found.log_density(x)[:, at], peer.logpdf(x), rtol=1e-9)
    assert not found.whole


def test_counts_are_those_of_scipy() -> None:
    block = pc.Block("poisson", ["x", "y"], pseudo_count=0.0, pseudo_rows=0.0)
    found, n = curve(COUNTS, block), np.arange(12.0)
    assert (found.whole, found.low) == (True, 0.0)
    for at, rate in enumerate([7 / 3, 6.0]):
        np.testing.assert_allclose(found.log_density(n)[:, at], poisson(rate).logpmf(n), rtol=1e-9)


def test_a_third_partys_gamma_follows_from_its_log_likelihoods() -> None:
    random = np.random.default_rng(0)
    rows = {"x": random.gamma(3.0, 2.0, 400), "y": random.gamma(1.0, 1.0, 400), "c": [*"ab"] * 200}
    found, x = curve(rows, pc.Block("gamma", ["x", "y"])), np.linspace(0.5, 30.0, 7)
    for at in range(2):
        shape, _, scale = gamma.fit(rows["x"][at::2], floc=0.0)
        peer = gamma(shape, scale=scale).logpdf(x)
        np.testing.assert_allclose(found.log_density(x)[:, at], peer, atol=1e-4)
    assert np.isneginf(found.log_density(np.array([-1.0]))).all()


def test_neighbors_are_drawn_around_their_points() -> None:
    found = curve(NUMBERS, pc.Block("knn_density", ["x"], k=1))
    assert not found.proper
    assert (found.low, found.high) == (1.0 - 0.25 * 7.0, 8.0 + 0.25 * 7.0)
    assert found.mean == pytest.approx([7 / 3, 6.0])
    assert found.variance == pytest.approx([np.var([1, 2, 4]), np.var([3, 7, 8])])


WORDS = {"x": [["no", "no"], ["yes", "no"], ["yes"], ["yes"]], "c": [*"aabb"]}
TEXTS = {"x": ["u", "v", None, "v"], "y": ["p", "p", "q", "q"], "c": [*"aabb"]}
CASES: list[tuple[dict[str, Any], pc.Block, dict[str | None, list[float]]]] = [
    (TEXTS, pc.Block("categorical", ["x"], pseudo_count=0.0), {"u": [0.5, 0.0], "v": [0.5, 1.0]}),
    (
        TEXTS,
        pc.Block("categorical", ["x"], pseudo_count=0.0, missing="level"),
        {"u": [0.5, 0.0], "v": [0.5, 0.5], None: [0.0, 0.5]},
    ),
    (
        TEXTS,
        pc.Block("categorical_joint", ["x", "y"], pseudo_count=0.0),
        {"u": [0.5, 0.0], "v": [0.5, 1.0]},
    ),
    (
        TEXTS,
        pc.Block("categorical", ["x"], given=["y"], pseudo_count=0.0),
        {"u": [0.5, 0.0], "v": [0.5, 1.0]},
    ),
    (
        NUMBERS,
        pc.Block("discretized", ["x"], cuts={"x": [2.0, 5.0]}, pseudo_count=0.0),
        {"below 2": [1 / 3, 0.0], "2 to 5": [2 / 3, 1 / 3], "from 5": [0.0, 2 / 3]},
    ),
    (
        {"x": [0, 1, 2, 1], "c": [*"aabb"]},
        pc.Block("bernoulli", ["x"], pseudo_count=0.0),
        {"absent": [0.5, 0.0], "present": [0.5, 1.0]},
    ),
    (WORDS, pc.Block("multinomial", ["x"], pseudo_count=0.0), {"no": [0.75, 0], "yes": [0.25, 1]}),
    (WORDS, pc.Block("bernoulli", ["x"], pseudo_count=0.0), {"no": [1.0, 0.0], "yes": [0.5, 1.0]}),
    (
        WORDS,
        pc.Block("poisson", ["x"], pseudo_count=0.0, pseudo_rows=0.0),
        {"no": [1 - np.exp(-1.5), 0.0], "yes": [1 - np.exp(-0.5), 1 - np.exp(-1.0)]},
    ),
    (
        COUNTS,
        pc.Block("multinomial", ["x", "y"], pseudo_count=0.0),
        {"x": [7 / 8, 18 / 21], "another column": [1 / 8, 3 / 21]},
    ),
]


@pytest.mark.parametrize(
    ("rows", "block", "expected"), CASES, ids=[f"{b.estimator}{b.options}" for _, b, _ in CASES]
)
def test_levels_have_the_frequencies_of_the_rows(
    rows: dict[str, Any], block: pc.Block, expected: dict[str | None, list[float]]
) -> None:
    found = levels(rows, block)
    actual = dict(zip(found.names, found.probability.tolist(), strict=True))
    assert actual == {name: pytest.approx(shares) for name, shares in expected.items()}
    if found.of != "presence":
        assert found.probability.sum(axis=0) == pytest.approx([1.0, 1.0])


def test_a_given_column_has_its_frequencies() -> None:
    found = levels(TEXTS, pc.Block("categorical", ["x"], given=["y"]), "y")
    assert dict(zip(found.names, found.probability.tolist(), strict=True)) == {
        "p": [1.0, 0.0],
        "q": [0.0, 1.0],
    }


def test_a_column_without_values_has_no_distribution() -> None:
    rows = {"x": pa.nulls(4, pa.float64()), "c": [*"aabb"]}
    for estimator in ("gaussian_diagonal", "discretized", "knn_density", "gamma"):
        assert answer(rows, pc.Block(estimator, ["x"]), "x") is None
