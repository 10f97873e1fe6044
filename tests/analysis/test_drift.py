"""Drift between two models agrees with definitions and scipy, and has its general properties."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Any

import numpy as np
import probclass_distributions
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive import naive_spec
from scipy.integrate import quad
from scipy.spatial.distance import jensenshannon
from scipy.stats import cauchy, gamma, lognorm, norm, poisson, uniform

import probclass_core as pc
from probclass_core.analysis.distributions.divergence import divergence
from probclass_core.analysis.distributions.grid import Grid, side_by_side
from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.marginals import Curve

LABELS = ["a", "a", "a", "a", "b", "b", "b", "b"]

numbers = st.floats(-1e6, 1e6)
variances = st.floats(1e-6, 1e6)


def fitted(block: pc.Block, **columns: list[object]) -> pc.Model:
    table = pa.table({"c": LABELS, **columns})
    return pc.fit(table, pc.ModelSpec("c", [block]))


def by_quadrature(m: float, v: float, n: float, w: float) -> float:
    """The divergence by its definition, integrated by QUADPACK."""
    p, q = norm(m, math.sqrt(v)).pdf, norm(n, math.sqrt(w)).pdf

    def integrand(x: float) -> float:
        return sum(0.5 * f * np.log2(2 * f / (p(x) + q(x))) for f in (p(x), q(x)) if f > 0)

    steps = (-9, -5, -3, -1, 0, 1, 3, 5, 9)
    edges = sorted({m + k * math.sqrt(v) for k in steps} | {n + k * math.sqrt(w) for k in steps})
    return sum(quad(integrand, a, b, epsabs=1e-13)[0] for a, b in pairwise(edges))


def curve(density: Any, *, whole: bool = False, known: bool = True) -> Curve:
    """The curve of a distribution of scipy."""
    mean, variance = (np.array([of]) for of in density.stats("mv")) if known else (None, None)
    log_density = density.logpmf if whole else density.logpdf
    low = 0.0 if whole else -1e30
    return Curve(
        lambda x: log_density(x)[:, None], whole=whole, low=low, mean=mean, variance=variance
    )


def bits(p: Curve, q: Curve, ends: tuple[float, float] | None = (-3.0, 3.0)) -> float:
    grid = Grid.of(side_by_side(p, q), ends)
    assert grid.known.all()
    return float(divergence(*grid.masses.T))


@pytest.mark.parametrize(
    "parameters",
    [
        *((m, 1, n, w) for m, n, w in ((0, 1, 1), (0, 0, 4), (5, -2, 9), (0, 0, 1e4), (0, 0, 1e6))),
        *((0, 1, 5, w) for w in (1e-4, 1e-8)),
        (1e6, 1, 1e6 + 1, 1),
    ],
)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("ends", [(-3.0, 3.0), None])
def test_divergence_of_densities_agrees_with_its_definition(
    parameters: tuple[float, ...], known: bool, ends: tuple[float, float] | None
) -> None:
    """Wherever and however narrow they are, also if nothing is known of their moments."""
    m, v, n, w = parameters
    p, q = (curve(norm(a, math.sqrt(b)), known=known) for a, b in ((m, v), (n, w)))
    assert bits(p, q, ends) == pytest.approx(by_quadrature(m, v, n, w), abs=2e-5)


@pytest.mark.parametrize(
    "density",
    [gamma(0.5, scale=2.0), gamma(30.0), lognorm(0.5), norm(0.0, 1e-9), uniform(0.2, 3.0)],
)
def test_a_grid_integrates_what_it_follows(density: Any) -> None:
    grid, cuts = Grid.of(curve(density, known=False), (0.1, 5.0)), density.ppf([0.1, 0.5, 0.9])
    assert grid.known.all()
    np.testing.assert_allclose(grid.below(cuts)[:, 0], [0.1, 0.5, 0.9], atol=2e-3)
    mean, variance = grid.moments
    assert (mean[0], variance[0]) == pytest.approx(density.stats("mv"), rel=1e-2, abs=1e-12)


def test_moments_that_do_not_exist_are_not_invented() -> None:
    grid = Grid.of(curve(cauchy(), known=False), (-5.0, 5.0))
    assert grid.known.all()
    assert np.isnan(grid.moments).all()


@given(numbers, variances, numbers, variances)
def test_divergence_of_normals_is_symmetric_and_bounded(
    m: float, v: float, n: float, w: float
) -> None:
    p, q = (curve(norm(a, math.sqrt(b))) for a, b in ((m, v), (n, w)))
    found = bits(p, q)
    assert 0.0 <= found <= 1.0
    assert found == pytest.approx(bits(q, p), abs=1e-9)
    assert bits(p, p) == pytest.approx(0.0, abs=1e-12)


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6), st.integers(0, 5))
def test_divergence_of_categories_agrees_with_scipy(weights: list[float], turn: int) -> None:
    p = np.array(weights) / sum(weights)
    q = np.roll(p, turn)
    assert divergence(p, q) == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-9)


@pytest.mark.parametrize(("one", "other"), [(3.0, 5.0), (0.0, 2.0), (40.0, 41.0)])
def test_divergence_of_counts_agrees_with_scipy(one: float, other: float) -> None:
    counts = np.arange(150)
    peer = jensenshannon(poisson(one).pmf(counts), poisson(other).pmf(counts), base=2) ** 2
    p, q = (curve(poisson(rate), whole=True) for rate in (one, other))
    assert bits(p, q, (0.0, 9.0)) == pytest.approx(peer, abs=1e-9)


def test_very_large_rates_approach_the_normal_divergence() -> None:
    p, q = (curve(poisson(rate), whole=True) for rate in (1e9, 1e9 + 3e4))
    normal = by_quadrature(1e9, 1e9, 1e9 + 3e4, 1e9)
    assert bits(p, q, (0.0, 9.0)) == pytest.approx(normal, abs=1e-4)


def test_mean_shift_and_variance_ratio_agree_with_the_rows() -> None:
    block = pc.Block("gaussian_diagonal", ["x"], variance_floor=0.0)
    before = fitted(block, x=[0.0, 2.0, 0.0, 2.0, 10.0, 14.0, 10.0, 14.0])
    after = fitted(block, x=[3.0, 7.0, 3.0, 7.0, 10.0, 14.0, 10.0, 14.0])
    a, b = pc.drift(before, after).features.to_pylist()
    # Class a: the mean changes from 1 to 5, the variance from 1 to 4.
    assert (a["mean_before"], a["mean_after"], a["sd_after"]) == (1.0, 5.0, 2.0)
    assert a["mean_shift"] == pytest.approx(4.0 / math.sqrt(2.5))
    assert a["variance_ratio"] == pytest.approx(4.0)
    assert a["divergence"] == pytest.approx(by_quadrature(1.0, 1.0, 5.0, 4.0), abs=1e-6)
    assert (b["mean_shift"], b["variance_ratio"]) == (0.0, 1.0)


def test_categories_that_appear_and_disappear() -> None:
    block = pc.Block("categorical", ["x"], pseudo_count=0.0, unseen="ignore")
    before = fitted(block, x=["u", "u", "u", "v", *"uuuu"])
    after = fitted(block, x=["w", "u", "u", "u", *"uuuu"])
    a, b = pc.drift(before, after).features.to_pylist()
    assert (a["value"], a["probability_before"], a["probability_after"]) == ("v", 0.25, 0.0)
    assert a["divergence"] == pytest.approx(0.25)  # a quarter of each distribution is disjoint
    assert b["divergence"] == 0.0


def test_the_drift_of_many_categories_takes_seconds() -> None:
    ids = [f"{number:05}" for number in range(40_000)]
    block = pc.Block("categorical", ["x"], pseudo_count=0.0)
    rows = pa.table({"c": ["a", "b"] * 20_000, "x": ids})
    model = pc.fit(rows, pc.ModelSpec("c", [block]))
    later = pc.fit(rows.slice(0, 20_000), pc.ModelSpec("c", [block]))
    begun = time.perf_counter()
    features = pc.drift(model, later).features.to_pylist()
    assert time.perf_counter() - begun < 10.0  # in quadratic time, 30
    assert [one["divergence"] for one in features] == pytest.approx([0.3113] * 2, abs=1e-3)


def test_other_bins_are_interpolated_at_the_cuts_of_the_first_model() -> None:
    def of(cuts: list[float], x: list[object]) -> pc.Model:
        return fitted(pc.Block("discretized", ["x"], cuts={"x": cuts}, pseudo_count=0.0), x=x)

    before = of([4.0, 8.0], [1.0, 5.0, 6.0, 9.0] * 2)
    after = of([2.0, 6.0, 10.0], [1.0, 1.0, 3.0, 11.0] * 2)
    row = pc.drift(before, after).features.to_pylist()[0]
    # Half of 2 to 6, a quarter of the rows, is below 4: the model has 5/8 of the rows there.
    assert row["value"] == "below 4"
    assert (row["probability_before"], row["probability_after"]) == (0.25, 0.625)
    masses = [0.25, 0.5, 0.25], [0.625, 0.125, 0.25]
    assert row["divergence"] == pytest.approx(jensenshannon(*masses, base=2) ** 2)
    elsewhere = of([100.0, 200.0], [1.0, 5.0, 6.0, 900.0] * 2)
    message = "x: the models' bins have no range in common"
    assert pc.drift(before, elsewhere).uncompared == (message,)


@pytest.mark.parametrize("estimator", ["bernoulli", "multinomial"])
def test_terms_are_compared(estimator: str) -> None:
    block = pc.Block(estimator, ["words"])
    before = fitted(block, words=[["red"], ["red"], ["red"], ["sea"], *[["sea"]] * 4])
    after = fitted(block, words=[["sea"], ["sea"], ["red"], ["sea"], *[["sea"]] * 4])
    drift = pc.drift(before, after)
    changes, most = drift.features.to_pylist()[0], drift.by_feature.to_pylist()[0]
    assert (most["feature"], most["class"]) == ("words", "a")
    assert changes["value"] in ("red", "sea")
    probabilities = (changes["probability_before"], changes["probability_after"])
    pairs = [np.array([p, 1.0 - p]) for p in probabilities]
    assert changes["divergence"] == pytest.approx(jensenshannon(*pairs, base=2) ** 2)


def test_training_points_have_moments_and_no_divergence() -> None:
    block = pc.Block("knn_density", ["x"], k=1)
    before = fitted(block, x=[0.0, 2.0, 0.0, None, 5.0, 6.0, 7.0, 8.0])
    after = fitted(block, x=[1.0, 3.0, 1.0, None, 5.0, 6.0, 7.0, 8.0])
    row = pc.drift(before, after).by_feature.to_pylist()[0]
    assert row["divergence"] is None
    assert row["mean_shift"] == pytest.approx(1.0 / np.std([0.0, 2.0, 0.0]))


def test_a_third_partys_gamma_is_compared_like_a_built_in() -> None:
    random = np.random.default_rng(0)
    rows = [{"x": random.gamma(2.0, scale, 400), "c": [*"ab"] * 200} for scale in (1.0, 3.0)]
    spec = pc.ModelSpec("c", [pc.Block("gamma", ["x"])])
    with pc.trying(*probclass_distributions.probclass_estimators()):
        of_a, of_b = pc.drift(*(pc.fit(each, spec) for each in rows)).features.to_pylist()
    for row, start in ((of_a, 0), (of_b, 1)):
        peers = []
        for each, when in zip(rows, ("before", "after"), strict=True):
            shape, _, scale = gamma.fit(each["x"][start::2], floc=0.0)
            peers.append(curve(gamma(shape, scale=scale)))
            assert row[f"mean_{when}"] == pytest.approx(shape * scale, rel=1e-3)
            assert row[f"sd_{when}"] == pytest.approx(math.sqrt(shape) * scale, rel=1e-3)
        assert row["divergence"] == pytest.approx(bits(*peers), abs=1e-4)


def test_class_shares_with_classes_of_one_model_only() -> None:
    block = pc.Block("gaussian_diagonal", ["x"])
    spec = pc.ModelSpec("c", [block])
    x = [1.0, 2.0, 3.0, 4.0]
    before = pc.fit(pa.table({"c": ["a", "a", "b", "b"], "x": x}), spec)
    after = pc.fit(pa.table({"c": ["b", "b", "z", "z"], "x": x}), spec)
    changes = pc.drift(before, after)
    assert changes.classes.to_pydict() == {
        "class": ["a", "b", "z"],
        "share_before": [0.5, 0.5, 0.0],
        "share_after": [0.0, 0.5, 0.5],
    }
    assert changes.class_divergence == pytest.approx(0.5)
    assert set(changes.features["class"].to_pylist()) == {"b"}


def test_columns_of_one_model_only_are_named() -> None:
    before, after = (fitted(pc.Block("gaussian_diagonal", n), **{n: list(range(8))}) for n in "xy")
    names = ("y: only in the second model", "x: only in the first model")
    assert pc.drift(before, after).uncompared == names


def test_columns_are_ranked_by_their_divergence(iris: pa.Table) -> None:
    spec = naive_spec(iris.schema, "species")
    models = [pc.fit(iris.take(list(range(start, 150, 2))), spec) for start in (0, 1)]
    ranked = pc.drift(*models).by_feature["divergence"].to_pylist()
    assert ranked == sorted(ranked, reverse=True)


def test_models_of_other_labels_or_classes_are_refused(iris: pa.Table) -> None:
    block = pc.Block("gaussian_diagonal", ["x"])
    one = fitted(block, x=list(range(8)))
    of_iris = pc.fit(iris, naive_spec(iris.schema, "species"))
    message = "different labels cannot be compared: 'c' and 'species'"
    with pytest.raises(SpecError, match=message):
        pc.drift(one, of_iris)
    others = pa.table({"c": ["y", "y", "z", "z"], "x": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(DataError, match=r"no class in common: 'a', 'b' in the first, 'y', 'z'"):
        pc.drift(one, pc.fit(others, pc.ModelSpec("c", [block])))


def test_a_single_value_has_a_mean_and_no_divergence() -> None:
    block = pc.Block("gaussian_diagonal", ["x"], variance_floor=0.0)
    before = fitted(block, x=[1.0] * 4 + [1.0, 2.0, 3.0, 4.0])
    after = fitted(block, x=[2.0] * 4 + [1.0, 2.0, 3.0, 4.0])
    a = pc.drift(before, after).to_dict()["features"][0]
    assert (a["mean_before"], a["mean_after"]) == (1.0, 2.0)
    assert (a["divergence"], a["mean_shift"], a["variance_ratio"]) == (None, None, None)
