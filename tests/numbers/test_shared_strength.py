"""The prior that all classes share: p(x | c) backs off to p(x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import left_out

import probclass_core as pc

ALPHA = 0.5
STRENGTHS = (1, 2, 5, 10, 20)

BLOCKS: dict[str, Callable[..., pc.Block]] = {
    "categories": lambda **o: pc.Block("categorical", ["u"], **o),
    "bins": lambda **o: pc.Block("discretized", ["x"], cuts={"x": [1, 2, 3]}, **o),
    "categories given a column": lambda **o: pc.Block("categorical", ["u"], given=["z"], **o),
    "bins given a column": lambda **o: pc.Block(
        "discretized", ["x"], given=["z"], cuts={"x": [1, 2, 3]}, **o
    ),
}


def answers(rows: int = 60) -> pa.Table:
    """Four values, as text and as numbers, whose shares differ between three classes a bit."""
    random = np.random.default_rng(8)
    label = random.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1])
    value = np.where(random.random(rows) < 0.7, random.integers(0, 4, rows), (label == "a") * 2)
    z = random.choice(["p", "q"], rows)
    return pa.table({"label": label, "u": value.astype(str), "x": value + 0.5, "z": z})


def table_of(
    strength: float | str | None, name: str, rows: pa.Table, **options: Any
) -> tuple[pc.Model, np.ndarray]:
    """A model of one block, and its p(x | c) ``(k, m)`` where the given column is not known."""
    block = BLOCKS[name](pseudo_count=ALPHA, shared_strength=strength, **options)
    model = pc.fit(rows, pc.ModelSpec("label", [block]))
    batch = pa.table({"u": list("0123"), "x": [0.5, 1.5, 2.5, 3.5], "z": pa.nulls(4, pa.string())})
    return model, np.exp(model.log_likelihood_by_block(batch)[:, :, 0]).T


def counts_of(rows: pa.Table) -> np.ndarray:
    """Rows by class and value, ``(3, 4)``."""
    counts = np.zeros((3, 4))
    for label, value in zip(rows["label"].to_pylist(), rows["u"].to_pylist(), strict=True):
        counts["abc".index(label), int(value)] += 1
    return counts


def by_hand(counts: np.ndarray, mean: np.ndarray, strength: float) -> np.ndarray:
    shares: np.ndarray = (counts + strength * mean) / (counts.sum(1, keepdims=True) + strength)
    return shares


def mean_of(counts: np.ndarray) -> np.ndarray:
    mean: np.ndarray = (counts.sum(0) + ALPHA) / (counts.sum() + 4 * ALPHA)
    return mean


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("strength", [0.5, 10])
def test_a_class_backs_off_to_all_classes_together(name: str, strength: float) -> None:
    rows = answers()
    counts = counts_of(rows)
    _, shares = table_of(strength, name, rows)
    np.testing.assert_allclose(shares, by_hand(counts, mean_of(counts), strength))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_strength_is_that_of_rows_left_out(name: str) -> None:
    rows = answers()
    counts = counts_of(rows)
    scores = {}
    for strength in STRENGTHS:
        scores[strength] = 0.0
        for c, v in np.argwhere(counts):
            others = counts.copy()
            others[c, v] -= 1
            p = by_hand(others, mean_of(others), strength)[c, v]
            scores[strength] += counts[c, v] * np.log(p)
    best = max(scores, key=lambda strength: scores[strength])
    assert min(STRENGTHS) < best < max(STRENGTHS)
    np.testing.assert_allclose(table_of("loo", name, rows)[1], table_of(best, name, rows)[1])


@pytest.mark.parametrize("missing", ["marginalize", "level"])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_row_is_left_out_of_its_class_alone(name: str, missing: str) -> None:
    rows = answers()
    counts = counts_of(rows)
    model, _ = table_of(5, name, rows, missing=missing)
    logs = left_out(model, rows.set_column(3, "z", pa.nulls(len(rows), pa.string())))
    for row, (label, v) in enumerate(
        zip(rows["label"].to_pylist(), rows["u"].to_pylist(), strict=True)
    ):
        others = counts.copy()
        others["abc".index(label), int(v)] -= 1
        expected = by_hand(others, mean_of(counts), 5)[:, int(v)]
        np.testing.assert_allclose(np.exp(logs[row]), expected)


def test_a_value_that_no_class_showed_has_the_pseudo_count_alone() -> None:
    rows = answers()
    counts = counts_of(rows)
    mean = ALPHA / (counts.sum() + 4 * ALPHA)
    expected = 7 * mean / (counts.sum(axis=1) + 7)
    for name, column, missing in (
        ("categories", {"u": ["new"]}, {}),
        ("categories given a column", {"u": ["new"], "z": ["p"]}, {}),
        ("categories", {"u": pa.nulls(1, pa.string())}, {"missing": "level"}),
        ("bins", {"x": pa.nulls(1, pa.float64())}, {"missing": "level"}),
    ):
        block = BLOCKS[name](pseudo_count=ALPHA, shared_strength=7, **missing)
        model = pc.fit(rows, pc.ModelSpec("label", [block]))
        batch = pa.table({**column})
        actual = np.exp(model.log_likelihood_by_block(batch)[0, :, 0])
        if name == "categories given a column":  # backs off once more
            in_z = np.array([((rows["label"].to_numpy() == c) & z_is_p(rows)).sum() for c in "abc"])
            np.testing.assert_allclose(actual, 10 * expected / (in_z + 10))
        else:
            np.testing.assert_allclose(actual, expected)


def z_is_p(rows: pa.Table) -> np.ndarray:
    mask: np.ndarray = rows["z"].to_numpy() == "p"
    return mask


def test_columns_without_values_and_scarce_classes_fit() -> None:
    rows = answers(12).append_column("empty", pa.nulls(12, pa.string()))
    one = pa.table({"label": ["d"], "u": ["0"], "x": [0.5], "z": ["p"], "empty": [None]})
    rows = pa.concat_tables([rows, one.cast(rows.schema)])
    blocks = [pc.Block("categorical", ["u", "empty"], shared_strength="loo", pseudo_count=0)]
    blocks += [BLOCKS[name](shared_strength="loo") for name in BLOCKS if name != "categories"]
    model = pc.fit(rows, pc.ModelSpec("label", blocks, block_weights="fit"))
    assert np.isfinite(model.predict_log_proba(rows)).all()
