"""Decisions beside the lecture's cancer example, brute force, and the definition of a quantile."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from readings import fitted, rows
from test_lectures import CANCER

import probclass_core as pc
from probclass_core.model.density_quantiles import LogDensities

POSITIVE = pa.table({"test": ["+"]})
SEPALS = ["sepal_length", "sepal_width"]
COSTS = {
    "iris-setosa": {"iris-setosa": 0.2, "iris-versicolor": 3},
    "iris-virginica": {"iris-setosa": 7, "iris-versicolor": 2.5},
}


@pytest.fixture(scope="module")
def flowers(iris: pa.Table) -> pc.Model:
    """Three classes that overlap, of unequal priors."""
    prior = {"iris-setosa": 0.2, "iris-versicolor": 0.3, "iris-virginica": 0.5}
    return fitted(iris, "species", pc.Block("gaussian_diagonal", SEPALS), prior=prior)


def decide(model: pc.Model, table: pa.Table, **rule: Any) -> list[Any]:
    return model.predict(table, pc.DecisionRule(**rule)).to_pylist()


def test_map_says_well_and_maximum_likelihood_says_ill() -> None:
    """ "Bayes Classifiers", example 2: 0.0078 against 0.0298, but 0.98 against 0.03."""
    assert CANCER.predict(POSITIVE).to_pylist() == ["well"]
    assert CANCER.predict(POSITIVE, decision="map").to_pylist() == ["well"]
    assert CANCER.predict(POSITIVE, decision="ml").to_pylist() == ["ill"]


@pytest.mark.parametrize(("cost", "decision"), [(3.7, "well"), (3.9, "ill")])
def test_what_missing_an_illness_costs_turns_the_decision(cost: float, decision: str) -> None:
    """At P(ill | +) = 0.2085 it turns where 0.2085 · cost = 0.7915: at 3.796."""
    assert decide(CANCER, POSITIVE, costs={"ill": {"well": cost}}) == [decision]


def test_maximum_likelihood_knows_a_class_of_prior_0(flowers: pc.Model, iris: pa.Table) -> None:
    never = {"iris-setosa": 0.0, "iris-versicolor": 0.5, "iris-virginica": 0.5}
    expected = flowers.with_prior("uniform").predict(iris)
    assert flowers.with_prior(never).predict(iris, "ml") == expected
    assert flowers.predict(iris, "ml") == expected
    assert flowers.predict(iris) != expected


@pytest.mark.parametrize("by", ["map", "ml"])
def test_costs_agree_with_brute_force(flowers: pc.Model, iris: pa.Table, by: str) -> None:
    names = flowers.class_names
    deciding = flowers if by == "map" else flowers.with_prior("uniform")
    expected = []
    for posterior in deciding.predict_proba(iris):
        mean = {
            decision: math.fsum(
                p * COSTS.get(true, {}).get(decision, float(true != decision))
                for true, p in zip(names, posterior, strict=True)
            )
            for decision in names
        }
        expected.append(min(names, key=mean.__getitem__))
    assert decide(flowers, iris, by=by, costs=COSTS) == expected
    assert expected != flowers.predict(iris).to_pylist()


def test_costs_of_0_and_1_decide_as_the_posterior_does(flowers: pc.Model, iris: pa.Table) -> None:
    assert decide(flowers, iris, costs={}) == flowers.predict(iris).to_pylist()


def test_costs_may_be_a_table_or_a_frame(flowers: pc.Model, iris: pa.Table) -> None:
    cells = [(true, said, cost) for true, row in COSTS.items() for said, cost in row.items()]
    table = rows(["class", "prediction", "cost"], cells)
    nested = pc.DecisionRule(costs=COSTS)
    for costs in (table, table.to_pandas(), pd.DataFrame(table.to_pandas().astype({"cost": "f4"}))):
        rule = pc.DecisionRule(costs=costs)
        assert rule.costs is not None
        for true, said, cost in cells:
            assert rule.costs[true][said] == pytest.approx(cost, rel=1e-7)
    assert pc.DecisionRule(costs=table) == nested
    assert hash(pc.DecisionRule(costs=table)) == hash(nested)
    assert pc.DecisionRule.from_dict(nested.to_dict()) == nested
    assert flowers.predict(iris, nested.to_dict()) == flowers.predict(iris, nested)


def test_the_first_of_equals_is_chosen() -> None:
    table = pa.table({"u": ["p", "p", "q", "q"], "y": ["b", "a", "b", "a"]})
    model = fitted(table, "y", pc.Block("categorical", ["u"]))
    for rule in ({}, {"by": "ml"}, {"costs": {}}, {"costs": {"a": {"b": 2}, "b": {"a": 2}}}):
        assert set(decide(model, table, **rule)) == {"a"}


def test_a_row_less_probable_than_asked_is_rejected(flowers: pc.Model, iris: pa.Table) -> None:
    best = flowers.predict_proba(iris).max(axis=1)
    told = decide(flowers, iris, min_probability=0.8)
    sure = flowers.predict(iris).to_pylist()
    expected = [name if p >= 0.8 else None for name, p in zip(sure, best, strict=True)]
    assert told == expected
    assert 0 < told.count(None) < len(told)
    assert decide(flowers, iris, min_probability=0.0) == sure


def test_the_probability_asked_for_is_that_of_the_decision() -> None:
    """By maximum likelihood the notes say ill; its posterior is 0.2085."""
    assert decide(CANCER, POSITIVE, by="ml", min_probability=0.2) == ["ill"]
    assert decide(CANCER, POSITIVE, by="ml", min_probability=0.21) == [None]


def test_density_quantiles_are_those_of_numpy(flowers: pc.Model, iris: pa.Table) -> None:
    measured = pc.with_density_quantiles(flowers, iris)
    table = measured.density_quantiles
    assert table is not None
    assert table.column_names == ["quantile", "log_density"]
    quantiles = table["quantile"].to_numpy()
    assert quantiles.tolist() == [number / 1000 for number in range(1, 1000)]
    expected = np.quantile(flowers.score_samples(iris), quantiles, method="inverted_cdf")
    # 150 · 0.02 is 3 to us, and to NumPy whatever its rounding says.
    clear = abs(quantiles * 150 - (quantiles * 150).round()) > 1e-6
    np.testing.assert_array_equal(table["log_density"].to_numpy()[clear], expected[clear])


def test_rows_rarer_than_a_share_of_the_training_rows_are_rejected(
    flowers: pc.Model, iris: pa.Table
) -> None:
    measured = pc.with_density_quantiles(flowers, iris)
    told = decide(measured, iris, min_density_quantile=0.1)
    density = flowers.score_samples(iris)
    ranks = density.argsort().argsort()
    least = np.sort(density)[14]  # of 150, the fifteenth is where a tenth is reached
    assert [name is None for name in told] == (density < least).tolist()
    assert sum(ranks < 14) == told.count(None)
    far = {"sepal_length": [50.0, 6.0, None], "sepal_width": [3.0, 3.0, None]}
    assert [name is None for name in decide(measured, far, min_density_quantile=0.01)] == [
        *(True, False),
        False,  # log p of nothing is 0: as a density of no dimension, above all others
    ]


def test_a_weight_of_2_counts_twice_in_the_quantiles() -> None:
    x = [0.0, 1.0, 2.0, 3.0, 7.0, 9.0]
    table = pa.table({"x": x, "y": list("aaabbb"), "w": [1, 2, 1, 2, 3, 0]})
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])], weight="w")
    model = pc.fit(table, spec)
    twice = table.take([place for place, w in enumerate(table["w"].to_pylist()) for _ in range(w)])
    ones = twice.set_column(2, "w", pa.array([1] * twice.num_rows))
    weighted, repeated = (pc.with_density_quantiles(model, each) for each in (table, ones))
    assert weighted.density_quantiles == repeated.density_quantiles


def test_quantiles_of_millions_of_rows_are_rounded_down_by_next_to_nothing() -> None:
    noise = np.random.default_rng(7)
    parts = [
        -noise.chisquare(6, 200_000) * noise.choice([1, 1e4], 200_000, p=[0.99, 0.01])
        for _ in range(9)
    ]
    parts[3][:2000] = -math.inf
    found = []
    for order in (parts, parts[::-1]):
        kept = LogDensities()
        for part in order:
            kept.add(part, np.ones(len(part)))
        found.append(kept.table())
    assert found[0] == found[1]
    quantiles, told = (found[0][name].to_numpy() for name in ("quantile", "log_density"))
    exact = np.quantile(np.concatenate(parts), quantiles, method="inverted_cdf")
    np.testing.assert_array_equal(np.isneginf(told), quantiles <= 0.001)
    lost = exact[1:] - told[1:]
    assert lost.min() >= 0.0
    assert lost.max() < 1e-3
    assert lost.max() > 0.0


def test_a_row_that_no_class_explains_is_rejected_by_its_density() -> None:
    table = pa.table({"u": ["p", "p", "q", "q"], "y": ["a", "a", "b", "b"]})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    strange = pa.table({"u": ["r", "p"]})
    model = pc.with_density_quantiles(fitted(table, "y", block), table)
    assert model.score_samples(strange)[0] == -math.inf
    assert model.predict(strange).to_pylist() == ["a", "a"]
    assert decide(model, strange, min_density_quantile=0.001) == [None, "a"]
    # Even if such rows were so common that −∞ is the quantile.
    common = pa.table({"u": ["r", "r", "r", "p"]})
    model = pc.with_density_quantiles(model, common)
    assert decide(model, strange, min_density_quantile=0.5) == [None, "a"]


def test_an_evaluation_says_what_was_decided_and_at_what_cost(
    flowers: pc.Model, iris: pa.Table
) -> None:
    model = pc.with_density_quantiles(flowers, iris)
    labels = [*iris["species"].to_pylist()[:-2], "unknown", None]
    table = iris.drop(["species"]).append_column("species", pa.array(labels))
    rule = pc.DecisionRule(costs=COSTS, min_probability=0.6, min_density_quantile=0.05)
    found = pc.evaluate(model, table, decision=rule)
    told = model.predict(table, rule).to_pylist()
    decided = [
        (true, said)
        for true, said in zip(labels, told, strict=True)
        if true is not None and said is not None
    ]
    paid = [
        COSTS.get(true, {}).get(said, float(true != said))
        for true, said in decided
        if true != "unknown"
    ]
    assert (found.rows, found.null_labels, found.unseen_labels) == (149, 1, 1)
    assert found.decided == len(decided)
    assert found.rejected_share == (149 - len(decided)) / 149
    assert sum(found.rejected.values()) == 149 - len(decided)
    rare = model.predict(table, {"min_density_quantile": 0.05}).to_pylist()
    assert found.rejected["density"] == rare[:-1].count(None) > 0
    assert found.accuracy == pytest.approx(sum(a == b for a, b in decided) / len(decided))
    assert found.cost == pytest.approx(math.fsum(paid) / len(paid))
    for true, said in itertools.product(model.class_names, repeat=2):
        row = found.confusion.filter(compute.equal(found.confusion["class"], true))
        assert row[f"predicted_{said}"].to_pylist() == [decided.count((true, said))]
    # What judges the posterior is of every row, whatever the rule.
    plain = pc.evaluate(model, table)
    assert (found.log_loss, found.brier, found.ece) == (plain.log_loss, plain.brier, plain.ece)
    assert found.reliability == plain.reliability
    assert plain.rejected == {"probability": 0, "density": 0}
    assert (plain.decided, plain.cost, plain.baseline_cost) == (149, None, None)


def test_the_baseline_cost_is_that_of_the_best_single_decision(iris: pa.Table) -> None:
    model = fitted(iris, "species", pc.Block("gaussian_diagonal", SEPALS))
    found = pc.evaluate(model, iris, decision=pc.DecisionRule(costs=COSTS))
    constant = [
        sum(50 * COSTS.get(true, {}).get(said, float(true != said)) for true in model.class_names)
        for said in model.class_names
    ]
    assert found.baseline_cost == pytest.approx(min(constant) / 150)
    assert found.cost is not None
    assert found.cost < min(constant) / 150


def test_where_all_rows_are_rejected_there_is_no_accuracy(
    flowers: pc.Model, iris: pa.Table
) -> None:
    unsure = fitted(
        pa.table({"u": ["p"] * 4, "y": ["b", "a"] * 2}), "y", pc.Block("categorical", ["u"])
    )
    table = pa.table({"u": ["p"] * 4, "y": ["b", "a"] * 2})
    found = pc.evaluate(unsure, table, decision={"min_probability": 0.9, "costs": {}})
    assert (found.decided, found.accuracy, found.cost, found.baseline_accuracy) == (0, *[None] * 3)
    assert found.to_dict()["accuracy"] is None
    assert found.log_loss == pytest.approx(math.log(2))
