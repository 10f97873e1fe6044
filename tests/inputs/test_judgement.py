"""What judgement refuses: Bayes' rule, explanations and comparisons that make no sense."""

from __future__ import annotations

from typing import Any

import pytest

import probclass_core as pc

EVEN = {"a": 0.5, "b": 0.5}
COIN = {"a": {"heads": 0.5, "tails": 0.5}, "b": {"heads": 0.9, "tails": 0.1}}


@pytest.mark.parametrize(
    ("prior", "likelihood", "observed", "says"),
    [
        ({"a": 0.5, "b": 0.4}, EVEN, None, "the prior sums to 0.9, not 1"),
        (
            {"a": 1.5, "b": -0.5},
            EVEN,
            None,
            "the prior: hypothesis 'a' must have .*0 to 1, got 1.5",
        ),
        ({"a": float("nan"), "b": 1}, EVEN, None, "hypothesis 'a' must have .*got nan"),
        ({"a": True, "b": 0}, EVEN, None, "hypothesis 'a' must have .*got True"),
        ({}, {}, None, "the prior must give a probability for each hypothesis, got {}"),
        (None, EVEN, None, "the prior must give a probability for each hypothesis, got None"),
        (EVEN, {"a": 1}, None, "the likelihood leaves out 'b', which the prior has"),
        (EVEN, {**EVEN, "c": 1}, None, "the likelihood names 'c', which the prior has not"),
        (EVEN, [EVEN, {"a": 1}], None, "likelihood of observation 2 leaves out 'b'"),
        (EVEN, {"a": 1, "b": 2}, None, "likelihood: hypothesis 'b' must have .*got 2"),
        (EVEN, [{"a": 1, "b": 0}, {"a": 0, "b": 1}], None, "impossible under every hypothesis"),
        (EVEN, "heads", None, "likelihood must be a probability per hypothesis.*got str"),
        (EVEN, [EVEN], "heads", "with observed= a table of outcomes per hypothesis; got list"),
        (EVEN, COIN, "haeds", r"no outcome 'haeds'; the likelihood has 'heads', 'tails'. Did you"),
        (
            EVEN,
            {**COIN, "b": {"heads": 1}},
            "heads",
            "of 'b' leaves out 'tails', which that of 'a'",
        ),
        (EVEN, {**COIN, "b": {"heads": 0.9, "tails": 0.2}}, "heads", "of 'b' sums to 1.1, not 1"),
        (EVEN, EVEN, "heads", "likelihood of 'a' must give a probability for each outcome"),
        (EVEN, {"a": COIN["a"]}, "heads", "the likelihood leaves out 'b', which the prior has"),
    ],
)
def test_what_is_no_table_of_probabilities(
    prior: Any, likelihood: Any, observed: Any, says: str
) -> None:
    with pytest.raises(pc.SpecError, match=says) as caught:
        pc.bayes_rule(prior, likelihood, observed=observed)
    assert "\n" not in str(caught.value)


def test_odds_of_an_unknown_hypothesis() -> None:
    with pytest.raises(pc.SpecError, match="no hypothesis 'c'; there are 'a', 'b'"):
        pc.bayes_rule(EVEN, EVEN).odds("a", "c")
