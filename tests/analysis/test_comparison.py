"""Evidence, Bayes factors and odds of models: exact fractions, and data of known origin."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.errors import DataError
from probclass_core.estimation.statistics import Statistics


def summarized(table: Any, *blocks: pc.Block, label: str = "c", **more: Any) -> Statistics:
    return pc.summarize(table, pc.ModelSpec(label=label, blocks=blocks, **more))


def log(fraction: Fraction) -> float:
    return math.log(fraction.numerator) - math.log(fraction.denominator)


def dirichlet(counts: list[int], alpha: int = 1) -> Fraction:
    """∫ ∏ θ_v^n_v Dir(θ | α) dθ for whole numbers, by rising factorials."""

    def rising(start: int, by: int) -> Fraction:
        return Fraction(math.factorial(start + by - 1), math.factorial(start - 1))

    parts = math.prod(rising(alpha, count) for count in counts)
    return Fraction(parts) / rising(alpha * len(counts), sum(counts))


def test_naive_and_joint_categories_agree_with_exact_fractions() -> None:
    dependent = {"u": ["p", "q"] * 8, "v": ["r", "s"] * 8, "c": ["a", "a", "b", "b"] * 4}
    independent = {**dependent, "v": ["r", "r", "s", "s", "s", "s", "r", "r"] * 2}
    for table, better in ((dependent, "joint"), (independent, "naive")):
        comparison = pc.compare(
            {
                "naive": summarized(table, pc.Block("categorical", ["u", "v"])),
                "joint": summarized(table, pc.Block("categorical_joint", ["u", "v"])),
            }
        )
        rows = list(zip(*table.values(), strict=True))
        naive, joint = Fraction(1), Fraction(1)
        for label in "ab":
            of_class = [(u, v) for u, v, c in rows if c == label]
            naive *= dirichlet([sum(u == x for u, _ in of_class) for x in "pq"])
            naive *= dirichlet([sum(v == x for _, v in of_class) for x in "rs"])
            joint *= dirichlet([of_class.count((x, y)) for x in "pq" for y in "rs"])
        odds = comparison.odds("joint", "naive")
        assert comparison.best == better
        assert odds.log_bayes_factor == pytest.approx(log(joint / naive), rel=1e-10)
        assert odds.bayes_factor == pytest.approx(float(joint / naive), rel=1e-10)
    assert comparison.odds("naive", "joint").odds == pytest.approx(1 / odds.odds)


def test_evidence_of_labels_by_prior() -> None:
    table = {"x": ["p", "q"] * 6, "c": ["a"] * 8 + ["b"] * 3 + ["d"]}
    priors: dict[str, Any] = {
        "empirical": "empirical",
        "uniform": "uniform",
        "given": {"a": 0.5, "b": 0.25, "d": 0.125, "e": 0.125},
    }
    block = pc.Block("categorical", "x")
    comparison = pc.compare({name: summarized(table, block, prior=p) for name, p in priors.items()})
    exact = {
        "empirical": dirichlet([8, 3, 1]),
        "uniform": Fraction(1, 3**12),
        "given": Fraction(1, 2**8 * 4**3 * 8),
    }
    for one in priors:
        for other in priors:
            factor = comparison.odds(one, other).log_bayes_factor
            assert factor == pytest.approx(log(exact[one] / exact[other]), abs=1e-10)


def test_a_prior_that_rules_out_the_rows_has_evidence_0() -> None:
    table = {"x": ["p", "q"] * 2, "c": ["a", "a", "b", "b"]}
    block = pc.Block("categorical", "x")
    never = summarized(table, block, prior={"a": 1.0, "b": 0.0})
    comparison = pc.compare({"never": never, "open": summarized(table, block), "not": never})
    assert comparison.table["model"].to_pylist() == ["open", "never", "not"]
    assert comparison.table["posterior"].to_pylist() == [1.0, 0.0, 0.0]
    assert comparison.table["log_evidence"].to_pylist()[1:] == [-math.inf] * 2
    assert comparison.odds("open", "never").odds == math.inf
    with pytest.raises(DataError, match="both models give the rows evidence 0"):
        comparison.odds("never", "not")
    with pytest.raises(DataError, match="every model gives the rows evidence 0"):
        pc.compare([never, never])


@pytest.mark.parametrize(
    ("odds", "reading", "other_way"),
    [
        (1.0, "not strong", "not strong"),
        (9.999, "not strong", "not strong"),
        (10.001, "strong", "strong against"),
        (99.99, "strong", "strong against"),
        (100.01, "decisive", "decisive against"),
    ],
)
def test_readings_of_odds_follow_the_textbook(odds: float, reading: str, other_way: str) -> None:
    """ "Bayes Classifiers": above 10 strong, above 100 decisive; equal models, prior odds alone."""
    same = summarized({"x": ["p", "q"], "c": ["a", "b"]}, pc.Block("categorical", "x"))
    comparison = pc.compare({"one": same, "two": same}, prior={"one": odds, "two": 1})
    assert comparison.odds("one", "two").reading == reading
    assert comparison.odds("two", "one").reading == other_way
    assert comparison.odds("one", "two").prior_odds == pytest.approx(odds)
    assert comparison.table["reading"].to_pylist() == ["best", other_way]
    assert comparison.table["posterior"][0].as_py() == pytest.approx(odds / (1 + odds))


@given(st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3))
def test_the_comparison_agrees_with_bayes_rule_over_models(prior: list[float]) -> None:
    table = {"u": ["p", "q", "q"] * 4, "v": ["r", "s", "r"] * 4, "c": ["a", "b"] * 6}
    specs = {
        "naive": [pc.Block("categorical", ["u", "v"])],
        "joint": [pc.Block("categorical_joint", ["u", "v"])],
        "half": [pc.Block("categorical", ["u", "v"], pseudo_count=0.5)],
    }
    statistics = {name: summarized(table, *blocks) for name, blocks in specs.items()}
    beforehand = dict(zip(specs, prior, strict=True))
    comparison = pc.compare(statistics, prior=beforehand)
    rows = {row["model"]: row for row in comparison.table.to_pylist()}
    evidence = {name: math.exp(row["log_evidence"]) for name, row in rows.items()}
    believed = {name: value / sum(prior) for name, value in beforehand.items()}
    expected = pc.bayes_rule(believed, evidence)
    assert comparison.best == expected.maximum_a_posteriori
    for name, row in rows.items():
        assert row["prior"] == pytest.approx(believed[name])
        assert row["posterior"] == pytest.approx(expected.posterior[name])
        assert row["odds"] == pytest.approx(
            expected.posterior[name] / expected.posterior[comparison.best]
        )
        pair = dataclasses.asdict(comparison.odds(name, comparison.best))
        assert {key: row[key] for key in ("bayes_factor", "odds")}.items() <= pair.items()
