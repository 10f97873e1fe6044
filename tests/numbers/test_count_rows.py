"""What nulls, zeros, repeated and unknown terms tell in rows of counts; shares that add up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from readings import fitted
from scipy import stats

import probclass_core as pc
from probclass_core.estimation.contract import ItemizedLikelihood

WORDS = pa.list_(pa.string())
TALLY = pa.map_(pa.string(), pa.float64())
TEXTS = pa.table(
    {
        "words": pa.array([["a", "b", "a"], ["b"], ["c", "c", "a"], [], ["b", "c"], None], WORDS),
        "c": list("aababb"),
    }
)
PLAIN = TEXTS["words"].to_pylist()
COLUMNS = ["x", "y", "z"]
COUNTS = pa.table({"x": [0, 3, 1, 7], "y": [2, 0, 1, 1], "z": [4, 1, 2, 0], "c": list("aabb")})
BLOCKS = [
    pc.Block("bernoulli", ["words"]),
    pc.Block("multinomial", ["words"]),
    pc.Block("multinomial", ["words"], predictive=True),
]
every_block = pytest.mark.parametrize(
    "block", BLOCKS, ids=["bernoulli", "multinomial", "predictive"]
)


def logs(model: pc.Model, column: Any, kind: pa.DataType = WORDS) -> np.ndarray:
    """log p(words | c) of each row: ``(n, k)``."""
    rows = {"words": pa.array(column, kind)}
    likelihood: np.ndarray = model.log_likelihood_by_block(rows)[:, :, 0]
    return likelihood


@every_block
def test_a_map_of_counts_is_a_list_of_its_terms(block: pc.Block) -> None:
    tallies = [{"a": 2, "b": 1}, {"b": 1, "c": 0}, {"c": 2, "a": 1}, {}, {"b": 1, "c": 1}, None]
    mapped = TEXTS.set_column(0, "words", pa.array(tallies, TALLY))
    model, same = fitted(TEXTS, "c", block), fitted(mapped, "c", block)
    for name, table in model.parameters.items():
        assert table.to_pydict() == same.parameters[name].to_pydict()
    for one in (model, same):
        np.testing.assert_array_equal(logs(one, tallies, TALLY), logs(model, PLAIN))
    # A term twice in one map counts as the sum, and one without a number not at all.
    twice = [[("a", 1), ("b", 3), ("a", 1), ("c", None), ("b", math.nan)]]
    np.testing.assert_array_equal(
        logs(model, twice, TALLY), logs(model, [["a", "b", "a", "b", "b"]])
    )


@every_block
def test_order_nulls_and_unknown_terms_tell_nothing(block: pc.Block) -> None:
    model = fitted(TEXTS, "c", block)
    plain = logs(model, [["a", "b", "a"]])
    for same in (["a", "a", "b"], ["a", None, "b", "a", None], ["b", "new", "a", "newer", "a"]):
        np.testing.assert_array_equal(logs(model, [same]), plain)
    assert (logs(model, [None]) == 0.0).all()
    more = [pa.table({"words": pa.array([[*words]], WORDS), "c": ["a"]}) for words in ([None], [])]
    models = [fitted(pa.concat_tables([TEXTS, rows]), "c", block) for rows in more]
    assert models[0].id == models[1].id


def test_an_empty_document_lacks_every_word() -> None:
    bernoulli, multinomial = (fitted(TEXTS, "c", block) for block in BLOCKS[:2])
    p = np.exp(bernoulli.parameters["bernoulli"]["log_probability"].to_numpy()).reshape(2, 3)
    np.testing.assert_allclose(logs(bernoulli, [[]]), [np.log(1 - p).sum(axis=1)], rtol=1e-12)
    for unknown in ([], ["new"]):
        assert (logs(multinomial, [unknown]) == 0.0).all()


@every_block
def test_a_declared_vocabulary_is_all_there_is(block: pc.Block) -> None:
    options = {**block.options, "vocabulary": ["c", "zero", "a"]}
    model = fitted(TEXTS, "c", pc.Block(block.estimator, ["words"], **options))
    parameters = model.parameters[block.estimator]
    assert parameters["feature"].to_pylist() == ["c", "zero", "a"] * 2
    assert parameters["count"].to_pylist()[1::3] == [0.0, 0.0]
    without_b = [[w for w in words or [] if w != "b"] for words in PLAIN[:5]]
    same = TEXTS.set_column(0, "words", pa.array([*without_b, None], WORDS))
    assert fitted(same, "c", pc.Block(block.estimator, ["words"], **options)).id == model.id
    np.testing.assert_array_equal(logs(model, [["b", "a"]]), logs(model, [["a"]]))


@pytest.mark.parametrize("estimator", ["bernoulli", "multinomial"])
def test_without_pseudo_count_what_never_was_is_impossible(estimator: str) -> None:
    model = fitted(TEXTS, "c", pc.Block(estimator, ["words"], pseudo_count=0))
    likelihood = np.exp(logs(model, [["a"], ["b"], ["c"], ["a", "c"], []]))
    # Class a: a b a | b | (empty). Class b: c c a | b c | (null), where every document has a c.
    expected = {
        "bernoulli": [
            [1 / 3 * 1 / 3, 0],
            [2 / 3 * 2 / 3, 0],
            [0, 1 / 2 * 1 / 2],
            [0, 1 / 2 * 1 / 2],
            [2 / 3 * 1 / 3, 0],
        ],
        "multinomial": [[2 / 4, 1 / 5], [2 / 4, 1 / 5], [0, 3 / 5], [0, 2 * 1 / 5 * 3 / 5], [1, 1]],
    }
    np.testing.assert_allclose(likelihood, expected[estimator], rtol=1e-12)


def test_a_column_that_is_always_there_is_impossible_to_lack_but_may_be_null() -> None:
    table = pa.table({"x": [1, 1, 0, 1], "y": [0, 1, 0, 1], "c": list("aabb")})
    model = fitted(table, "c", pc.Block("bernoulli", ["x", "y"], pseudo_count=0))
    rows = {"x": [1, 0, None], "y": [1, 1, 1]}
    likelihood = np.exp(model.log_likelihood_by_block(rows)[:, :, 0])
    np.testing.assert_allclose(likelihood, [[0.5, 0.25], [0.0, 0.25], [0.5, 0.5]], rtol=1e-12)


def test_a_null_column_leaves_the_multinomial_of_the_others() -> None:
    block = pc.Block("multinomial", COLUMNS)
    model = fitted(COUNTS, "c", block)
    p = np.exp(model.parameters["multinomial"]["log_probability"].to_numpy()).reshape(2, 3)
    rows = {"x": [2, 2, None, None], "y": [1, None, None, None], "z": [3, 3, 5, None]}
    ours = model.log_likelihood_by_block(rows)[:, :, 0]
    for place, of_class in enumerate(p):
        pair = of_class[[0, 2]] / of_class[[0, 2]].sum()
        expected = [
            stats.multinomial(6, of_class).logpmf([2, 1, 3]),
            stats.multinomial(5, pair).logpmf([2, 3]),
            0.0,  # all of a total goes to the only column
            0.0,
        ]
        np.testing.assert_allclose(ours[:, place], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("estimator", ["bernoulli", "poisson"])
@pytest.mark.parametrize("predictive", [False, True])
def test_a_null_column_leaves_independent_counts_of_the_others(
    estimator: str, predictive: bool
) -> None:
    options = {"predictive": predictive} if estimator == "poisson" else {}
    rows = {"x": [2, 0], "y": [1, 1], "z": pa.array([None, math.nan], pa.float64())}
    model = fitted(COUNTS, "c", pc.Block(estimator, COLUMNS, **options))
    alone = fitted(COUNTS, "c", pc.Block(estimator, COLUMNS[:2], **options))
    np.testing.assert_allclose(
        model.log_likelihood_by_block(rows), alone.log_likelihood_by_block(rows), rtol=1e-12
    )


@every_block
@pytest.mark.parametrize("words", [["a", "c", "new", "a"], [], None, ["b", None]])
def test_the_shares_of_the_words_add_up(block: pc.Block, words: list[str] | None) -> None:
    model = fitted(TEXTS, "c", block)
    likelihood = model.likelihoods[block.estimator]
    assert isinstance(likelihood, ItemizedLikelihood)
    row = pa.record_batch({"words": pa.array([words], WORDS)})
    shares = likelihood.itemize(row)
    known = {word for word in words or () if word in ("a", "b", "c")}
    rest = "(absent terms)" if block.estimator == "bernoulli" else "(coefficient)"
    assert shares.keys() == known | {rest}
    total = sum(shares.values())
    np.testing.assert_allclose([total], likelihood.log_likelihood(row), rtol=1e-12, atol=1e-14)


def test_an_explanation_goes_by_words() -> None:
    model = fitted(TEXTS, "c", BLOCKS[1])
    items = pc.explain(model, {"words": [["a", "a", "c"]]}).table.to_pylist()
    named = {entry["item"]: entry["weight"] for entry in items if entry["entry"] == "item"}
    assert named.keys() == {"a", "c", "(coefficient)"}
    p = model.parameters["multinomial"]["log_probability"].to_numpy().reshape(2, 3)
    sign = 1 if named["a"] > 0 else -1
    assert named["a"] == pytest.approx(2 * sign * abs(p[0, 0] - p[1, 0]))
    assert named["(coefficient)"] == 0.0
