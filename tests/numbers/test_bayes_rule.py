"""Bayes' rule on plain tables: worked examples of lecture notes, and identities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.errors import SpecError

CANCER = {"cancer": 0.008, "no cancer": 0.992}
TEST = {"cancer": {"+": 0.98, "-": 0.02}, "no cancer": {"+": 0.03, "-": 0.97}}
positive = st.floats(1e-6, 1.0)


@given(
    st.lists(st.integers(1, 50), min_size=3, max_size=3),
    st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_posterior_agrees_with_exact_fractions(weights: list[int], table: list[list[int]]) -> None:
    names = ["a", "b", "c"]
    prior = [Fraction(weight, sum(weights)) for weight in weights]
    observations = [[Fraction(cell, 20) for cell in row] for row in table]
    joint = [p * math.prod(row[i] for row in observations) for i, p in enumerate(prior)]
    arguments = (
        dict(zip(names, map(float, prior), strict=True)),
        [dict(zip(names, map(float, row), strict=True)) for row in observations],
    )
    if not sum(joint):
        with pytest.raises(SpecError, match="impossible under every hypothesis"):
            pc.bayes_rule(*arguments)
        return
    result = pc.bayes_rule(*arguments)
    exact = [float(part / sum(joint)) for part in joint]
    np.testing.assert_allclose(list(result.posterior.values()), exact, rtol=1e-12)
    np.testing.assert_allclose(result.table["joint"], [float(j) for j in joint], rtol=1e-12)
    assert sum(result.posterior.values()) == pytest.approx(1.0)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=6), st.integers(0, 6))
def test_the_posterior_of_one_batch_is_the_prior_of_the_next(
    rates: list[tuple[float, float]], cut: int
) -> None:
    observations = [{"h": one, "not h": other} for one, other in rates]
    prior = {"h": 0.3, "not h": 0.7}
    all_at_once = pc.bayes_rule(prior, observations)
    first = pc.bayes_rule(prior, observations[:cut])
    second = pc.bayes_rule(first.posterior, observations[cut:])
    assert second.posterior == pytest.approx(all_at_once.posterior, rel=1e-9)
    # The evidence also multiplies: p(D1, D2) = p(D1) p(D2 | D1).
    chained = first.log_evidence + second.log_evidence
    assert chained == pytest.approx(all_at_once.log_evidence, rel=1e-9, abs=1e-9)


def test_posterior_odds_are_prior_odds_times_the_bayes_factor() -> None:
    result = pc.bayes_rule(CANCER, TEST, observed=["+", "+", "-"])
    factor = (0.98 / 0.03) ** 2 * (0.02 / 0.97)
    odds = result.posterior["cancer"] / result.posterior["no cancer"]
    assert odds == pytest.approx(0.008 / 0.992 * factor)


def test_an_impossible_hypothesis_has_a_posterior_of_zero() -> None:
    result = pc.bayes_rule({"a": 0.5, "b": 0.5, "c": 0.0}, {"a": 0.1, "b": 0.0, "c": 1.0})
    assert result.posterior == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert result.maximum_likelihood == "c"


def test_many_observations_do_not_underflow() -> None:
    coin = {"fair": {"heads": 0.5, "tails": 0.5}, "bent": {"heads": 0.6, "tails": 0.4}}
    tosses = ["heads"] * 3000 + ["tails"] * 3000
    result = pc.bayes_rule({"fair": 0.5, "bent": 0.5}, coin, observed=tosses)
    assert result.table["likelihood"].to_pylist() == [0.0, 0.0]  # beyond float64
    assert result.posterior["fair"] == pytest.approx(1.0)
    exact = 3000 * math.log(0.24 / 0.25)
    assert np.diff(result.log_likelihood) == pytest.approx(exact)
    assert result.log_evidence == pytest.approx(6000 * math.log(0.5) + math.log(0.5))
    assert result.maximum_likelihood == "fair"


def test_ties_go_to_the_first_hypothesis() -> None:
    result = pc.bayes_rule({"a": 0.2, "b": 0.4, "c": 0.4}, {"a": 0.5, "b": 0.5, "c": 0.5})
    assert (result.maximum_a_posteriori, result.maximum_likelihood) == ("b", "a")
