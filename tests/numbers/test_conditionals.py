"""Blocks given other columns, against counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import left_out

import probclass_core as pc
from probclass_core.arrow.arrays import label_codes
from probclass_core.estimation.tidy import notes_of


def by_hand(
    table: pa.Table, row: dict[str, Any], label: str, child: str, given: list[str], strength: float
) -> float:
    """p(child | given, label) by back-off, counted row by row."""
    rows = [other for other in table.to_pylist() if other["label"] == label]
    rows = [other for other in rows if other[child] is not None]
    values = {other[child] for other in table.to_pylist()} - {None}
    same = [other for other in rows if other[child] == row[child]]
    p = (len(same) + 1) / (len(rows) + len(values))
    for depth in range(1, len(given) + 1):
        names = given[:depth]
        if row[names[-1]] is None:
            break
        key = [row[name] for name in names]
        of_key = [other for other in rows if [other[name] for name in names] == key]
        same = [other for other in of_key if other[child] == row[child]]
        p = (len(same) + strength * p) / (len(of_key) + strength)
    return p


def answers(rows: int = 60) -> pa.Table:
    """Three dependent categories and a class, with nulls and rare values."""
    rng = np.random.default_rng(11)
    draw = {
        name: rng.choice(np.array(values, dtype=object), rows, p=shares)
        for name, values, shares in (
            ("label", ["no", "yes"], [0.6, 0.4]),
            ("u", ["a", "b", None], [0.5, 0.4, 0.1]),
            ("v", ["p", "q", "r", None], [0.5, 0.3, 0.1, 0.1]),
            ("w", ["s", "t"], [0.7, 0.3]),
        )
    }
    draw["w"] = np.where(draw["u"] == "b", draw["w"], np.where(draw["v"] == "p", "s", "t"))
    return pa.table({name: pa.array(values.tolist()) for name, values in draw.items()})


def test_a_tree_augmented_network_agrees_with_counting_by_hand() -> None:
    table = answers()
    parents: dict[str, list[str]] = {"u": [], "v": ["u"], "w": ["v", "u"]}
    blocks = [pc.Block("categorical", [child], given=given) for child, given in parents.items()]
    model = pc.fit(table, pc.ModelSpec("label", blocks))
    actual = model.log_likelihood_by_block(table)
    for number, row in enumerate(table.to_pylist()):
        for position, label in enumerate(("no", "yes")):
            for factor, (child, given) in enumerate(parents.items()):
                expected = 1.0
                if row[child] is not None:
                    expected = by_hand(table, row, label, child, given, 10.0)
                assert np.exp(actual[number, position, factor]) == pytest.approx(expected)
    drift = pc.drift(pc.fit(table.slice(20), model.spec), model)  # of the columns given others
    assert set(drift.by_feature["feature"].to_pylist()) == set(parents)
    assert drift.uncompared == ()


def test_given_numbers_are_cut_by_the_classes_unless_cuts_are_given() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=300)
    table = pa.table(
        {
            "label": np.where(x > 0.3, "a", "b"),
            "x": x,
            "u": np.where(rng.random(300) < 0.8, x > 1.0, x > -1.0),
        }
    )
    bins = pc.fit(table, pc.ModelSpec("label", [pc.Block("discretized", ["x"])]))
    cut = bins.parameters["discretized"]["lower"].to_pylist()[1]
    computed, declared = (
        pc.fit(table, pc.ModelSpec("label", [pc.Block("categorical", ["u"], given=["x"], **cuts)]))
        for cuts in ({}, {"cuts": {"x": [cut]}})
    )
    assert computed.parameters["categorical"].equals(declared.parameters["categorical"])
    given = declared.parameters["categorical"]["given x"].to_pylist()
    assert set(given) == {None, f"[-inf, {cut})", f"[{cut}, inf)"}


def test_rows_are_shared_out_among_neighboring_bins() -> None:
    """A row counts ½ in its bin and ¼ in each next one, or ⅔ and ⅓ if its bin is the last."""
    cuts = {"x": [1.0, 2.0, 3.0], "z": [1.0, 2.0]}
    random = np.random.default_rng(7)
    x, z = random.integers(0, 4, 40), random.integers(0, 3, 40)
    table = pa.table({"label": np.where(random.random(40) < 0.5, "a", "b"), "x": x, "z": z})
    block = pc.Block("discretized", ["x"], given=["z"], cuts=cuts, window=2, strength=3)
    model = pc.fit(table, pc.ModelSpec("label", [block]))
    every = pa.table({"x": np.tile(np.arange(4), 3), "z": np.repeat(np.arange(3), 4)})
    actual = np.exp(model.log_likelihood_by_block(every)[:, :, 0])

    def share(of: int, to: int, bins: int) -> float:
        if abs(of - to) > 1:
            return 0.0
        is_last = of in (0, bins - 1)
        return (2 / 3 if is_last else 1 / 2) if of == to else (1 / 3 if is_last else 1 / 4)

    for position, label in enumerate("ab"):
        rows = [row for row in table.to_pylist() if row["label"] == label]
        for cell, row in enumerate(every.to_pylist()):
            alone = (sum(one["x"] == row["x"] for one in rows) + 1) / (len(rows) + 4)
            of_z = [share(one["z"], row["z"], 3) for one in rows]
            of_x = [share(one["x"], row["x"], 4) for one in rows]
            expected = (np.dot(of_x, of_z) + 3 * alone) / (sum(of_z) + 3)
            assert actual[cell, position] == pytest.approx(expected)
    np.testing.assert_allclose(actual.reshape(3, 4, 2).sum(axis=1), 1.0)


def test_unseen_values_back_off() -> None:
    table = pa.table({"label": list("aabb"), "u": list("pqpp"), "v": list("xyxy")})
    block = pc.Block("categorical", ["u"], given=["v"], strength=2)
    model = pc.fit(table, pc.ModelSpec("label", [block]))
    alone = pc.fit(table, pc.ModelSpec("label", [pc.Block("categorical", ["u"])]))
    rows = pa.table({"u": ["p", "never seen"], "v": ["new", "x"]})
    actual, marginal = (m.log_likelihood_by_block(rows)[:, :, 0] for m in (model, alone))
    np.testing.assert_allclose(actual[0], marginal[0])  # nothing is known of the given value
    np.testing.assert_allclose(
        np.exp(actual[1]),
        2 * np.exp(marginal[1]) / (1 + 2),  # one row of x in each class
    )


def test_a_strength_is_chosen_by_the_likelihood_of_rows_that_are_left_out() -> None:
    table = answers(400)

    def fitted(strength: Any) -> tuple[pc.Model, float]:
        block = pc.Block("categorical", ["w"], given=["v"], strength=strength)
        model = pc.fit(table, pc.ModelSpec("label", [block]))
        truth = label_codes(table["label"], model.classes)
        logs = left_out(model, table)
        return model, float(logs[np.arange(len(truth)), truth].sum())

    model, best = fitted("loo")
    (strength,) = notes_of(model.parameters["categorical"])["strengths"]["w"]
    others = {value: fitted(value)[1] for value in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)}
    assert best == pytest.approx(max(others.values()))
    assert others[strength] == pytest.approx(best)


def test_too_many_combinations_for_a_table_give_the_same_probabilities() -> None:
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, 90, 3000).astype(str) for name in ("u", "v", "w")}
    table = pa.table({"label": rng.choice(["a", "b"], 3000), **columns})
    spec = pc.ModelSpec("label", [pc.Block("categorical", ["u"], given=["v", "w"])])
    model = pc.fit(table, spec)
    actual = model.log_likelihood_by_block(table.slice(0, 5))[:, :, 0]
    for row, logs in zip(table.slice(0, 5).to_pylist(), actual, strict=True):
        expected = [by_hand(table, row, label, "u", ["v", "w"], 10.0) for label in "ab"]
        np.testing.assert_allclose(np.exp(logs), expected)
    others = pc.fit(table.slice(1), spec).log_likelihood_by_block(table.slice(0, 1))[:, :, 0]
    np.testing.assert_allclose(left_out(model, table.slice(0, 1)), others)


def test_statistics_of_a_column_without_values_in_one_part_merge() -> None:
    table = answers().append_column("x", pa.array(np.linspace(0.0, 1.0, 60)))
    spec = pc.ModelSpec("label", [pc.Block("categorical", ["u"], given=["x"])])
    empty = table.slice(30).set_column(4, "x", pa.nulls(30))
    statistics = pc.merge([pc.summarize(table.slice(0, 30), spec), pc.summarize(empty, spec)])
    assert pc.finalize(statistics, early=True).class_names == ["no", "yes"]


def test_fitted_weights_use_conditionals_without_the_row_itself() -> None:
    rng = np.random.default_rng(1)
    rows = 600
    label = rng.choice(["a", "b"], rows)
    u = rng.integers(0, 2, rows)
    table = pa.table(
        {
            "label": label,
            "u": u.astype(str),
            "v": (u ^ (label == "a")).astype(str),  # tells the class only together with u
            "noise": rng.integers(0, 200, rows).astype(str),
        }
    )
    blocks = [
        pc.Block("categorical", ["u"], name="u"),
        pc.Block("categorical", ["v"], name="v"),
        pc.Block("categorical", ["v"], given=["u"], name="v given u"),
        pc.Block("categorical", ["v"], given=["noise"], name="v given noise"),
    ]
    model = pc.fit(table, pc.ModelSpec("label", blocks, block_weights="fit"))
    assert model.weights is not None
    weights = model.weights.by_block
    assert weights["v given u"] > 0.5 > weights["v given noise"]
    assert (model.predict(table).to_numpy(zero_copy_only=False) == label).all()
