"""Invalid arguments of Bayes' rule, explanations and comparisons, refused in one line."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc

EVEN = {"a": 0.5, "b": 0.5}
COIN = {"a": {"heads": 0.5, "tails": 0.5}, "b": {"heads": 0.9, "tails": 0.1}}


@pytest.mark.parametrize(
    ("prior", "likelihood", "observed", "message"),
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
        (EVEN, {**EVEN, "c": 1}, None, "the likelihood names 'c', which the prior does not have"),
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
def test_invalid_probabilities_are_refused(
    prior: Any, likelihood: Any, observed: Any, message: str
) -> None:
    with pytest.raises(pc.SpecError, match=message) as caught:
        pc.bayes_rule(prior, likelihood, observed=observed)
    assert "\n" not in str(caught.value)


def test_odds_of_an_unknown_hypothesis_are_refused() -> None:
    with pytest.raises(pc.SpecError, match="no hypothesis 'c'; there are 'a', 'b'"):
        pc.bayes_rule(EVEN, EVEN).odds("a", "c")


ROWS = pa.table({"x": [1.0, 2, 3, 4], "u": ["p", "q", "q", "p"], "c": ["a", "a", "b", "b"]})


@pytest.fixture(scope="module")
def model() -> pc.Model:
    blocks = [pc.Block("gaussian_diagonal", "x"), pc.Block("categorical", "u", unseen="error")]
    return pc.fit(ROWS, pc.ModelSpec("c", blocks))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": "B"}, "the model has no class 'B'; it has 'a', 'b'"),
        ({"units": "dB"}, "units must be one of 'bits', 'decibans', 'nats', got 'dB'"),
        ({"units": []}, r"units must be one of .*, got \[\]"),
        ({"limit": 0}, "limit must be a whole number of at least 1, or None, got 0"),
        ({"limit": True}, "limit must be .*got True"),
        ({"limit": 2.5}, "limit must be .*got 2.5"),
        ({"rows": []}, r"rows must be different numbers, counted from 0, got \[\]"),
        ({"rows": [0, -1]}, r"rows must be .*got \[0, -1\]"),
        ({"rows": [1, 1]}, r"rows must be different numbers.*got \[1, 1\]"),
        ({"rows": ["0"]}, "rows must be .*got "),
        ({"rows": "3"}, "rows must be .*got '3'"),
        ({"rows": range(1001)}, "an explanation covers at most 1,000 rows, got 1,001"),
    ],
)
def test_invalid_arguments_of_explain_are_refused(
    model: pc.Model, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(pc.SpecError, match=message) as caught:
        pc.explain(model, ROWS, **arguments)
    assert "\n" not in str(caught.value)


def test_rows_that_cannot_be_explained_are_refused(model: pc.Model) -> None:
    with pytest.raises(pc.DataError, match="there is no row 4: there are 4, counted from 0"):
        pc.explain(model, ROWS, rows=[0, 4])
    many = pa.concat_tables([ROWS] * 251)
    with pytest.raises(
        pc.DataError, match=r"covers at most 1,000 rows, .* with rows \(--row\) or where"
    ):
        pc.explain(model, many)
    assert pc.explain(model, many, rows=[1003]).rows["row"].to_pylist() == [1003]
    assert pc.explain(model, many[:1000]).rows.num_rows == 1000
    with pytest.raises(pc.DataError, match="no column 'u'; the table has 'c', 'x'"):
        pc.explain(model, ROWS.drop_columns(["u"]))
    with pytest.raises(pc.DataError, match="column 'x' contains 1 infinite value"):
        pc.explain(model, {"x": [float("inf")], "u": ["p"]})
    with pytest.raises(pc.DataError, match="column 'u': rows outside its domain: 1"):
        pc.explain(model, {"x": [1.0], "u": ["r"]})
    with pytest.raises(pc.TableError, match="no row matches"):
        pc.explain(model, ROWS, where=[("x", ">", 9)])


def summarize(rows: pa.Table, *blocks: pc.Block, **spec: Any) -> pc.Statistics:
    return pc.summarize(rows, pc.ModelSpec(**{"label": "c", "blocks": blocks, **spec}))


NAIVE = summarize(ROWS, pc.Block("gaussian_diagonal", "x"), pc.Block("categorical", "u"))
HALF = summarize(ROWS, pc.Block("gaussian_diagonal", "x"))
EMPTY = summarize(ROWS[:0], pc.Block("gaussian_diagonal", "x"))


@pytest.mark.parametrize(
    ("statistics", "arguments", "error", "message"),
    [
        ([NAIVE], {}, pc.SpecError, "a comparison needs two models or more, got 1"),
        ({}, {}, pc.SpecError, "a comparison needs two models or more, got 0"),
        (NAIVE, {}, pc.SpecError, "expected a list or mapping of Statistics, got Statistics"),
        (["one", "two"], {}, pc.SpecError, "expected a Statistics, got str; get them by summarize"),
        ([NAIVE, HALF], {}, pc.SpecError, "'M1' and 'M2' do not model the same columns.*has 'u'"),
        ([NAIVE] * 2, {"names": ["a"]}, pc.SpecError, "2 models need as many different names"),
        ([NAIVE] * 2, {"names": ["a", "a"]}, pc.SpecError, "2 models need as many different names"),
        (
            {"a": NAIVE, "b": NAIVE},
            {"names": ["a", "b"]},
            pc.SpecError,
            "names its models; leave names=",
        ),
        ([NAIVE] * 2, {"prior": {"M1": 1}}, pc.SpecError, "for each of 'M1', 'M2', got {'M1': 1}"),
        ([NAIVE] * 2, {"prior": 2}, pc.SpecError, "prior must give a number for each of"),
        ([NAIVE] * 2, {"prior": {"M1": 1, "M2": 0}}, pc.SpecError, "'M2' must be .*above 0, got 0"),
        ([NAIVE] * 2, {"prior": {"M1": 1, "M2": "2"}}, pc.SpecError, "'M2' must be .*got '2'"),
        ([NAIVE] * 2, {"prior": {"M1": 1e300, "M2": 1}}, pc.SpecError, "more than e.600 decide"),
        ([EMPTY] * 2, {}, pc.DataError, "nothing to compare: the statistics have no labeled rows"),
    ],
)
def test_invalid_comparisons_are_refused(
    statistics: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        pc.compare(statistics, **arguments)
    assert "\n" not in str(caught.value)


def test_models_of_different_rows_are_not_compared() -> None:
    naive = pc.Block("gaussian_diagonal", "x")
    fewer = summarize(ROWS[:3], naive)
    with pytest.raises(pc.DataError, match=r"of different rows.*\(a 2, b 2\) and \(a 2, b 1\)"):
        pc.compare([HALF, fewer])
    other_label = pc.summarize(ROWS, pc.ModelSpec("u", [naive]))
    with pytest.raises(pc.SpecError, match="'M2' has label 'u' and 'M1' has 'c'"):
        pc.compare([HALF, other_label])
    weighted = ROWS.append_column("w", pa.array([1, 1, 1, 1]))
    with pytest.raises(pc.SpecError, match="'M2' has weight 'w' and 'M1' has None"):
        pc.compare([HALF, summarize(weighted, naive, weight="w")])


def test_models_without_evidence_are_not_compared() -> None:
    neighbors = summarize(ROWS, pc.Block("knn_density", "x", name="near"))
    message = "model 'knn', block 'near': knn_density offers no log evidence; model its columns by"
    with pytest.raises(pc.NotSupportedError, match=message):
        pc.compare({"normal": HALF, "knn": neighbors})
    unsmoothed = summarize(
        ROWS, pc.Block("gaussian_diagonal", "x"), pc.Block("categorical", "u", pseudo_count=0)
    )
    with pytest.raises(pc.NotSupportedError, match=r"block 'categorical': .*pseudo_count above 0"):
        pc.compare({"naive": NAIVE, "unsmoothed": unsmoothed})
    with_nulls = pa.table({"x": [1.0, None, 3, 4], "y": [1.0, 2, 3, 5], "c": ["a", "a", "b", "b"]})
    kinds = ("gaussian_diagonal", "gaussian_full")
    with pytest.raises(pc.DataError, match=r"model 'M2', block 'gaussian_full': .*null"):
        pc.compare([summarize(with_nulls, pc.Block(kind, ["x", "y"])) for kind in kinds])


def test_odds_of_a_model_that_was_not_compared_are_refused() -> None:
    with pytest.raises(pc.SpecError, match="no model 'M3' was compared; there are 'M1', 'M2'"):
        pc.compare([NAIVE, NAIVE]).odds("M1", "M3")


def test_a_prior_without_one_of_the_classes_is_refused() -> None:
    incomplete = summarize(ROWS, pc.Block("gaussian_diagonal", "x"), prior={"a": 1.0})
    with pytest.raises(pc.SpecError, match="the prior leaves out class 'b'; it has 'a'"):
        pc.compare([HALF, incomplete])
