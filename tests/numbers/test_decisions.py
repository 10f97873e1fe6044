"""Decisions agree with the lecture's cancer example, brute force, and quantiles of NumPy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from model_values import fitted, rows

import probclass_core as pc
from probclass_core.model.density_quantiles import LogDensities

TESTS = rows(
    ["state", "test", "rate"],
    [("ill", "+", 0.98), ("ill", "-", 0.02), ("well", "+", 0.03), ("well", "-", 0.97)],
)
CANCER = fitted(
    TESTS,
    "state",
    pc.Block("categorical", ["test"], pseudo_count=0.0),
    prior={"ill": 0.008, "well": 0.992},
    weight="rate",
)
"""A medical test as a model: its rates are weights, the share of the ill is the prior."""
POSITIVE = pa.table({"test": ["+"]})
SEPALS = ["sepal_length", "sepal_width"]
COSTS = {
    "iris-setosa": {"iris-setosa": 0.2, "iris-versicolor": 3},
    "iris-virginica": {"iris-setosa": 7, "iris-versicolor": 2.5},
}


@pytest.fixture(scope="module")
def iris_model(iris: pa.Table) -> pc.Model:
    """Three overlapping classes with unequal priors."""
    prior = {"iris-setosa": 0.2, "iris-versicolor": 0.3, "iris-virginica": 0.5}
    return fitted(iris, "species", pc.Block("gaussian_diagonal", SEPALS), prior=prior)


def decide(model: pc.Model, table: pa.Table, **rule: Any) -> list[Any]:
    return model.predict(table, pc.DecisionRule(**rule)).to_pylist()


def test_map_and_maximum_likelihood_disagree_on_the_cancer_test() -> None:
    """ "Bayes Classifiers", example 2: 0.0078 against 0.0298, but 0.98 against 0.03."""
    assert CANCER.predict(POSITIVE).to_pylist() == ["well"]
    assert CANCER.predict(POSITIVE, decision="map").to_pylist() == ["well"]
    assert CANCER.predict(POSITIVE, decision="ml").to_pylist() == ["ill"]


@pytest.mark.parametrize(("cost", "decision"), [(3.7, "well"), (3.9, "ill")])
def test_the_cost_of_a_missed_illness_changes_the_decision(cost: float, decision: str) -> None:
    """At P(ill | +) = 0.2085 it changes where 0.2085 · cost = 0.7915: at 3.796."""
    assert decide(CANCER, POSITIVE, costs={"ill": {"well": cost}}) == [decision]


def test_maximum_likelihood_predicts_a_class_of_prior_0(
    iris_model: pc.Model, iris: pa.Table
) -> None:
    never = {"iris-setosa": 0.0, "iris-versicolor": 0.5, "iris-virginica": 0.5}
    expected = iris_model.with_prior("uniform").predict(iris)
    assert iris_model.with_prior(never).predict(iris, "ml") == expected
    assert iris_model.predict(iris, "ml") == expected
    assert iris_model.predict(iris) != expected


def test_a_rule_with_costs_is_hashable_and_plain(iris_model: pc.Model, iris: pa.Table) -> None:
    nested = pc.DecisionRule(costs=COSTS)
    assert hash(pc.DecisionRule(costs=COSTS)) == hash(nested)
    assert pc.DecisionRule.from_dict(nested.to_dict()) == nested
    assert iris_model.predict(iris, nested.to_dict()) == iris_model.predict(iris, nested)


def test_ties_go_to_the_first_class() -> None:
    table = pa.table({"u": ["p", "p", "q", "q"], "y": ["b", "a", "b", "a"]})
    model = fitted(table, "y", pc.Block("categorical", ["u"]))
    for rule in ({}, {"by": "ml"}, {"costs": {}}, {"costs": {"a": {"b": 2}, "b": {"a": 2}}}):
        assert set(decide(model, table, **rule)) == {"a"}


def test_a_row_below_the_minimum_probability_is_rejected(
    iris_model: pc.Model, iris: pa.Table
) -> None:
    best = iris_model.predict_proba(iris).max(axis=1)
    predictions = decide(iris_model, iris, min_probability=0.8)
    sure = iris_model.predict(iris).to_pylist()
    expected = [name if p >= 0.8 else None for name, p in zip(sure, best, strict=True)]
    assert predictions == expected
    assert 0 < predictions.count(None) < len(predictions)
    assert decide(iris_model, iris, min_probability=0.0) == sure


def test_the_minimum_probability_applies_to_the_chosen_class() -> None:
    """Maximum likelihood chooses ill, whose posterior is 0.2085."""
    assert decide(CANCER, POSITIVE, by="ml", min_probability=0.2) == ["ill"]
    assert decide(CANCER, POSITIVE, by="ml", min_probability=0.21) == [None]


def test_density_quantiles_agree_with_numpy(iris_model: pc.Model, iris: pa.Table) -> None:
    measured = pc.with_density_quantiles(iris_model, iris)
    table = measured.density_quantiles
    assert table is not None
    assert table.column_names == ["quantile", "log_density"]
    quantiles = table["quantile"].to_numpy()
    # A row is 1 / 150 of all, 0.0067.
    assert quantiles.tolist() == [number / 1000 for number in range(7, 1000)]
    expected = np.quantile(iris_model.score_samples(iris), quantiles, method="inverted_cdf")
    # 150 · 0.02 is exactly 3 here; in NumPy it depends on rounding.
    clear = abs(quantiles * 150 - (quantiles * 150).round()) > 1e-6
    np.testing.assert_array_equal(table["log_density"].to_numpy()[clear], expected[clear])


def test_rows_below_the_density_quantile_are_rejected(iris_model: pc.Model, iris: pa.Table) -> None:
    measured = pc.with_density_quantiles(iris_model, iris)
    predictions = decide(measured, iris, min_rarity=0.1)
    density = iris_model.score_samples(iris)
    ranks = density.argsort().argsort()
    least = np.sort(density)[14]  # a tenth of 150 rows is reached at the fifteenth
    assert [name is None for name in predictions] == (density < least).tolist()
    assert sum(ranks < 14) == predictions.count(None)
    far = {"sepal_length": [50.0, 6.0, None], "sepal_width": [3.0, 3.0, None]}
    assert [name is None for name in decide(measured, far, min_rarity=0.01)] == [
        *(True, False),
        False,  # log p of a row of nulls is 0, above all densities here
    ]


def test_quantiles_count_a_weight_of_2_twice() -> None:
    x = [0.0, 1.0, 2.0, 3.0, 7.0, 9.0]
    table = pa.table({"x": x, "y": list("aaabbb"), "w": [1, 2, 1, 2, 3, 0]})
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])], weight="w")
    model = pc.fit(table, spec)
    twice = table.take([row for row, w in enumerate(table["w"].to_pylist()) for _ in range(w)])
    ones = twice.set_column(2, "w", pa.array([1] * twice.num_rows))
    weighted, repeated = (pc.with_density_quantiles(model, each) for each in (table, ones))
    assert weighted.density_quantiles == repeated.density_quantiles


def test_quantiles_of_millions_of_rows_are_rounded_down_slightly() -> None:
    noise = np.random.default_rng(7)
    parts = [
        -noise.chisquare(6, 200_000) * noise.choice([1, 1e4], 200_000, p=[0.99, 0.01])
        for _ in range(9)
    ]
    parts[3][:2000] = -math.inf
    result = []
    for order in (parts, parts[::-1]):
        densities = LogDensities()
        for part in order:
            densities.add(part, np.ones(len(part)))
        result.append(densities.table())
    assert result[0] == result[1]
    quantiles, predictions = (result[0][name].to_numpy() for name in ("quantile", "log_density"))
    exact = np.quantile(np.concatenate(parts), quantiles, method="inverted_cdf")
    possible = quantiles > 0.0012  # 2,000 of 1,800,000 rows are impossible
    np.testing.assert_array_equal(np.isfinite(predictions), quantiles > 2000 / 1_800_000)
    error = exact[possible] - predictions[possible]
    assert error.min() >= 0.0
    assert error.max() < 1e-3
    assert error.max() > 0.0


def test_a_row_that_no_class_explains_is_rejected_by_its_density() -> None:
    table = pa.table({"u": ["p", "p", "q", "q"], "y": ["a", "a", "b", "b"]})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    strange = pa.table({"u": ["r", "p"]})
    model = pc.with_density_quantiles(fitted(table, "y", block), table)
    assert model.score_samples(strange)[0] == -math.inf
    assert model.predict(strange).to_pylist() == ["a", "a"]
    assert decide(model, strange, min_rarity=0.3) == [None, "a"]
    with pytest.raises(
        pc.errors.SpecError, match=r"min_rarity must be between 0.25 and 0.999, got 0.001"
    ):
        decide(model, strange, min_rarity=0.001)
    # Also if such rows are so frequent that −∞ is the quantile.
    common = pa.table({"u": ["r", "r", "r", "p"]})
    model = pc.with_density_quantiles(model, common)
    assert decide(model, strange, min_rarity=0.5) == [None, "a"]


def test_an_evaluation_counts_decided_and_rejected_rows_and_costs(
    iris_model: pc.Model, iris: pa.Table
) -> None:
    model = pc.with_density_quantiles(iris_model, iris)
    labels = [*iris["species"].to_pylist()[:-2], "unknown", None]
    table = iris.drop(["species"]).append_column("species", pa.array(labels))
    rule = pc.DecisionRule(costs=COSTS, min_probability=0.6, min_rarity=0.05)
    result = pc.evaluate(model, table, decision=rule)
    predictions = model.predict(table, rule).to_pylist()
    decided = [
        (true, predicted)
        for true, predicted in zip(labels, predictions, strict=True)
        if true in model.class_names and predicted is not None
    ]
    paid = [
        COSTS.get(true, {}).get(predicted, float(true != predicted)) for true, predicted in decided
    ]
    assert (result.rows, result.null_labels, result.unseen_labels) == (148, 1, 1)
    assert result.decided == len(decided)
    assert result.rejected_share == (148 - len(decided)) / 148
    assert sum(result.rejected.values()) == 148 - len(decided)
    rare = model.predict(table, {"min_rarity": 0.05}).to_pylist()
    assert result.rejected["density"] == rare[:-2].count(None) > 0
    assert result.accuracy == pytest.approx(sum(a == b for a, b in decided) / len(decided))
    assert result.cost == pytest.approx(math.fsum(paid) / len(paid))
    for true, predicted in itertools.product(model.class_names, repeat=2):
        row = result.confusion.filter(compute.equal(result.confusion["class"], true))
        assert row[f"predicted_{predicted}"].to_pylist() == [decided.count((true, predicted))]
    # Metrics of the posterior cover all rows, for every rule.
    plain = pc.evaluate(model, table)
    assert (result.log_loss, result.brier, result.ece) == (plain.log_loss, plain.brier, plain.ece)
    assert result.reliability == plain.reliability
    assert plain.rejected == {"probability": 0, "density": 0}
    assert (plain.decided, plain.cost, plain.baseline_cost) == (148, None, None)


def test_the_baseline_cost_is_that_of_the_best_constant_prediction(iris: pa.Table) -> None:
    model = fitted(iris, "species", pc.Block("gaussian_diagonal", SEPALS))
    result = pc.evaluate(model, iris, decision=pc.DecisionRule(costs=COSTS))
    constant = [
        sum(
            50 * COSTS.get(true, {}).get(predicted, float(true != predicted))
            for true in model.class_names
        )
        for predicted in model.class_names
    ]
    assert result.baseline_cost == pytest.approx(min(constant) / 150)
    assert result.cost is not None
    assert result.cost < min(constant) / 150


def test_a_model_worse_than_its_prior_says_so() -> None:
    train = pa.table({"x": [0.0, 1.0, 5.0, 6.0], "y": ["a", "a", "b", "b"]})
    model = fitted(train, "y", pc.Block("gaussian_diagonal", ["x"]))
    wrong = pa.table({"x": [0.0, 1.0, 5.0, 6.0, 0.5], "y": ["b", "b", "a", "a", "b"]})
    result = pc.evaluate(model, wrong, decision={"costs": {"a": {"b": 2.0}}})
    assert result.worse_than_prior == ("log_loss", "brier", "accuracy", "cost")
    assert result.warning is not None
    assert f"log loss {result.log_loss:.4f} against {math.log(2):.4f}" in result.warning
    assert f"T{result.warning[1:]}." in " ".join(str(result).split()), "the text is wrapped"
    words = pa.table({"u": ["p", "q"], "y": ["a", "b"]})
    certain = fitted(words, "y", pc.Block("categorical", ["u"], pseudo_count=0))
    impossible = pc.evaluate(certain, {"u": ["p", "q"], "y": ["b", "b"]})
    assert impossible.worse_than_prior == ("log_loss", "brier")
    assert "log loss inf against 0.6931" in str(impossible)
