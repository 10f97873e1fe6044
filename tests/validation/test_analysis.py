"""Invalid arguments of Bayes' rule, explanations and comparisons, refused in one line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from refusals import refused

import probclass_core as pc
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation.statistics import Statistics

EVEN = {"a": 0.5, "b": 0.5}
COIN = {"a": {"heads": 0.5, "tails": 0.5}, "b": {"heads": 0.9, "tails": 0.1}}
UNEVEN = {**COIN, "b": {"heads": 0.9, "tails": 0.2}}


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"a": 0.5, "b": 0.4}, "the prior sums to 0.9, not 1"),
        ({"a": 1.5, "b": -0.5}, "the prior: hypothesis 'a' must be .*0 to 1, got 1.5"),
        ({"a": float("nan"), "b": 1}, "hypothesis 'a' must be .*got nan"),
        (None, "the prior must give a probability for each hypothesis, got None"),
    ],
)
def test_an_invalid_prior_of_bayes_rule_is_refused(prior: Any, message: str) -> None:
    with refused(SpecError, message):
        pc.bayes_rule(prior, EVEN)


@pytest.mark.parametrize(
    ("likelihood", "observed", "message"),
    [
        ({"a": 1}, None, "the likelihood leaves out 'b', which the prior has"),
        ({"a": 1, "b": 2}, None, "likelihood: hypothesis 'b' must be .*got 2"),
        ([{"a": 1, "b": 0}, {"a": 0, "b": 1}], None, "impossible under every hypothesis"),
        ("heads", None, "likelihood must be a probability per hypothesis.*got str"),
        (COIN, "haeds", r"no outcome 'haeds'; the likelihood has 'heads', 'tails'. Did you"),
        ({**COIN, "b": {"heads": 1}}, "heads", "of 'b' leaves out 'tails', which that of 'a'"),
        (UNEVEN, "heads", "of 'b' sums to 1.1, not 1"),
        (EVEN, "heads", "likelihood of 'a' must give a probability for each outcome"),
    ],
)
def test_an_invalid_likelihood_is_refused(likelihood: Any, observed: Any, message: str) -> None:
    with refused(SpecError, message):
        pc.bayes_rule(EVEN, likelihood, observed=observed)


def test_odds_of_unknown_models_are_refused() -> None:
    odds = pc.compare([NAIVE, NAIVE]).odds
    with refused(SpecError, "no comparison with model 'M3'; there are 'M1', 'M2'"):
        odds("M1", "M3")


ROWS = pa.table({"x": [1.0, 2, 3, 4], "u": ["p", "q", "q", "p"], "c": ["a", "a", "b", "b"]})
MANY = pa.concat_tables([ROWS] * 251)


@pytest.fixture(scope="module")
def model() -> pc.Model:
    blocks = [pc.Block("gaussian_diagonal", "x"), pc.Block("categorical", "u")]
    return pc.fit(ROWS, pc.ModelSpec("c", blocks))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": "B"}, "the model has no class 'B'; it has 'a', 'b'"),
        ({"limit": 0}, "limit must be a number of at least 1, got 0"),
        ({"rows": [0, -1]}, r"rows must be .*got \[0, -1\]"),
        ({"rows": [1, 1]}, r"rows must be different numbers.*got \[1, 1\]"),
        ({"rows": range(1001)}, "an explanation covers at most 1,000 rows, got 1,001"),
    ],
)
def test_invalid_arguments_of_explain_are_refused(
    model: pc.Model, arguments: dict[str, Any], message: str
) -> None:
    with refused(SpecError, message):
        pc.explain(model, ROWS, **arguments)


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (ROWS, {"rows": [0, 4]}, "there is no row 4: there are 4, counted from 0"),
        (MANY, {}, r"covers at most 1,000 rows, .* with rows \(--row\) or where"),
        ({"x": [float("inf")], "u": ["p"]}, {}, "'x' contains 1 infinite value"),
    ],
)
def test_rows_that_cannot_be_explained_are_refused(
    model: pc.Model, rows: Any, arguments: dict[str, Any], message: str
) -> None:
    with refused(DataError, message):
        pc.explain(model, rows, **arguments)


def test_a_thousand_rows_of_any_table_are_explained(model: pc.Model) -> None:
    assert pc.explain(model, MANY, rows=[1003]).rows["row"].to_pylist() == [1003]
    assert pc.explain(model, MANY[:1000]).rows.num_rows == 1000


def summarize(rows: pa.Table, *blocks: pc.Block, **spec: Any) -> Statistics:
    return pc.summarize(rows, pc.ModelSpec(**{"label": "c", "blocks": blocks, **spec}))


NORMAL = pc.Block("gaussian_diagonal", "x")
NAIVE = summarize(ROWS, NORMAL, pc.Block("categorical", "u"))
HALF = summarize(ROWS, NORMAL)
EMPTY = summarize(ROWS[:0], NORMAL)
OTHER_LABEL = summarize(ROWS, NORMAL, label="u")
PRIORS: list[tuple[Any, str]] = [
    ({"M1": 1}, "for each of 'M1', 'M2', got {'M1': 1}"),
    ({"M1": 1, "M2": 0}, "'M2' must be .*above 0, got 0"),
    ({"M1": 1e300, "M2": 1}, "more than e.600 decide"),
]


@pytest.mark.parametrize(
    ("statistics", "arguments", "error", "message"),
    [
        ([NAIVE], {}, SpecError, "a comparison needs two models or more, got 1"),
        (["one", "two"], {}, SpecError, "expected a Statistics, got str; get them by summarize"),
        ([NAIVE, HALF], {}, SpecError, "'M1' and 'M2' do not model the same columns.*has 'u'"),
        *(([NAIVE] * 2, {"prior": prior}, SpecError, message) for prior, message in PRIORS),
        ([EMPTY] * 2, {}, DataError, "nothing to compare: the statistics have no labeled rows"),
        ([HALF, OTHER_LABEL], {}, SpecError, "'M2' has label 'u' and 'M1' has 'c'"),
        (
            [HALF, summarize(ROWS[:3], NORMAL)],
            {},
            DataError,
            "of different rows.*'a': 2.0, 'b': 2.0.* and .*'a': 2.0, 'b': 1.0",
        ),
    ],
)
def test_invalid_comparisons_are_refused(
    statistics: Any, arguments: dict[str, Any], error: type[pc.ProbClassError], message: str
) -> None:
    with refused(error, message):
        pc.compare(statistics, **arguments)


NULLS = pa.table(
    {
        "x": [1.0, None, 3, 4],
        "y": [1.0, 2, 3, 5],
        "u": ["p", "q", "p", "q"],
        "v": ["s", None] * 2,
        "c": [*"aabb"],
    }
)


@pytest.mark.parametrize(
    ("block", "error", "message"),
    [
        (
            pc.Block("knn_density", "x", name="near"),
            NotSupportedError,
            "model 'M1', block 'near': knn_density offers no log evidence; model its columns by",
        ),
        (pc.Block("gaussian_full", ["x", "y"]), DataError, "block 'gaussian_full': .*null"),
        (pc.Block("categorical", "u", given="v"), NotSupportedError, "offers no log evidence"),
    ],
)
def test_models_without_evidence_are_not_compared(
    block: pc.Block, error: type[pc.ProbClassError], message: str
) -> None:
    with refused(error, message):
        pc.compare([summarize(NULLS, block)] * 2)
