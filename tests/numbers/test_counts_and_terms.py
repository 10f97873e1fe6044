"""Nulls, zeros, repeated and unknown terms in rows of counts; contributions that add up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted
from scipy import stats

import probclass_core as pc

WORDS = pa.list_(pa.string())
MAP = pa.map_(pa.string(), pa.float64())
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
]
every_block = pytest.mark.parametrize("block", BLOCKS, ids=["bernoulli", "multinomial"])


def logs(model: pc.Model, column: Any, kind: pa.DataType = WORDS) -> np.ndarray:
    """log p(words | c) of each row: ``(n, k)``."""
    rows = {"words": pa.array(column, kind)}
    likelihood: np.ndarray = model.log_likelihood_by_block(rows)[:, :, 0]
    return likelihood


@every_block
def test_counts_of_a_repeated_term_in_a_map_add_up(block: pc.Block) -> None:
    """A null count is that of no term; other maps are lists of terms by the laws of types."""
    model = fitted(TEXTS, "c", block)
    twice = [[("a", 1), ("b", 3), ("a", 1), ("c", None), ("b", math.nan)]]
    np.testing.assert_array_equal(logs(model, twice, MAP), logs(model, [["a", "b", "a", "b", "b"]]))


@every_block
def test_order_nulls_and_unknown_terms_have_no_effect(block: pc.Block) -> None:
    model = fitted(TEXTS, "c", block)
    plain = logs(model, [["a", "b", "a"]])
    for from_maps in (
        ["a", "a", "b"],
        ["a", None, "b", "a", None],
        ["b", "new", "a", "newer", "a"],
    ):
        np.testing.assert_array_equal(logs(model, [from_maps]), plain)
    assert (logs(model, [None]) == 0.0).all()
    more = [pa.table({"words": pa.array([[*words]], WORDS), "c": ["a"]}) for words in ([None], [])]
    models = [fitted(pa.concat_tables([TEXTS, rows]), "c", block) for rows in more]
    assert models[0].id == models[1].id


def test_an_empty_document_has_no_word_present() -> None:
    bernoulli, multinomial = (fitted(TEXTS, "c", block) for block in BLOCKS[:2])
    p = np.exp(bernoulli.parameters["bernoulli"]["log_probability"].to_numpy()).reshape(2, 3)
    np.testing.assert_allclose(logs(bernoulli, [[]]), [np.log(1 - p).sum(axis=1)], rtol=1e-12)
    for unknown in ([], ["new"]):
        assert (logs(multinomial, [unknown]) == 0.0).all()


@every_block
def test_words_outside_a_declared_vocabulary_are_ignored(block: pc.Block) -> None:
    options = {**block.options, "vocabulary": ["c", "zero", "a"]}
    model = fitted(TEXTS, "c", pc.Block(block.estimator, ["words"], **options))
    parameters = model.parameters[block.estimator]
    assert parameters["feature"].to_pylist() == ["c", "zero", "a"] * 2
    assert parameters["count"].to_pylist()[1::3] == [0.0, 0.0]
    without_b = [[w for w in words or [] if w != "b"] for words in PLAIN[:5]]
    from_maps = TEXTS.set_column(0, "words", pa.array([*without_b, None], WORDS))
    assert fitted(from_maps, "c", pc.Block(block.estimator, ["words"], **options)).id == model.id
    np.testing.assert_array_equal(logs(model, [["b", "a"]]), logs(model, [["a"]]))


@pytest.mark.parametrize("estimator", ["bernoulli", "multinomial"])
def test_without_pseudo_count_unseen_words_are_impossible(estimator: str) -> None:
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


def test_a_word_in_every_document_cannot_be_absent_but_null() -> None:
    table = pa.table({"x": [1, 1, 0, 1], "y": [0, 1, 0, 1], "c": list("aabb")})
    model = fitted(table, "c", pc.Block("bernoulli", ["x", "y"], pseudo_count=0))
    rows = {"x": [1, 0, None], "y": [1, 1, 1]}
    likelihood = np.exp(model.log_likelihood_by_block(rows)[:, :, 0])
    np.testing.assert_allclose(likelihood, [[0.5, 0.25], [0.0, 0.25], [0.5, 0.5]], rtol=1e-12)


def test_multinomial_marginalizes_a_null_column() -> None:
    block = pc.Block("multinomial", COLUMNS)
    model = fitted(COUNTS, "c", block)
    p = np.exp(model.parameters["multinomial"]["log_probability"].to_numpy()).reshape(2, 3)
    rows = {"x": [2, 2, None, None], "y": [1, None, None, None], "z": [3, 3, 5, None]}
    ours = model.log_likelihood_by_block(rows)[:, :, 0]
    for position, p_class in enumerate(p):
        p_pair = p_class[[0, 2]] / p_class[[0, 2]].sum()
        expected = [
            stats.multinomial(6, p_class).logpmf([2, 1, 3]),
            stats.multinomial(5, p_pair).logpmf([2, 3]),
            0.0,  # the only column has the total
            0.0,
        ]
        np.testing.assert_allclose(ours[:, position], expected, rtol=1e-12, atol=1e-14)


def test_an_explanation_lists_words() -> None:
    model = fitted(TEXTS, "c", BLOCKS[1])
    items = pc.explain(model, {"words": [["a", "a", "c"]]}).table.to_pylist()
    named = {entry["item"]: entry["weight"] for entry in items if entry["entry"] == "item"}
    assert named.keys() == {"a", "c"}
    p = model.parameters["multinomial"]["log_probability"].to_numpy().reshape(2, 3)
    sign = 1 if named["a"] > 0 else -1
    assert named["a"] == pytest.approx(2 * sign * abs(p[0, 0] - p[1, 0]))
