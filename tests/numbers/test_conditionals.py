"""Blocks given other columns, against regression, counting, and products of conditionals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

import probclass_core as pc


def weather(rows: int = 400) -> pa.Table:
    """Two correlated numbers, two dependent categories and a class, with nulls."""
    rng = np.random.default_rng(7)
    label = rng.integers(0, 2, rows)
    z = rng.normal(label, 1.0)
    x = 1.0 + 2.0 * z * (1 + label) + rng.normal(0.0, 0.5, rows)
    u = rng.integers(0, 3, rows)
    v = np.where(rng.random(rows) < 0.7, u, rng.integers(0, 3, rows))
    return pa.table(
        {
            "label": np.array(["dry", "wet"])[label],
            "x": x,
            "z": z,
            "u": np.array(["a", "b", "c"])[u],
            "v": np.array(["p", "q", "r"])[v],
        }
    )


def test_a_normal_given_another_column_is_the_linear_regression_on_it() -> None:
    table = weather()
    block = pc.Block("gaussian_full", ["x"], given=["z"])
    model = pc.fit(table, pc.ModelSpec("label", [block]))
    scored = model.log_likelihood_by_block(table)[:, :, 0]
    x, z, label = (table[name].to_numpy(zero_copy_only=False) for name in ("x", "z", "label"))
    for position, name in enumerate(("dry", "wet")):
        mine = label == name
        slope, intercept = np.polyfit(z[mine], x[mine], 1)
        residual = x[mine] - (intercept + slope * z[mine])
        expected = norm(intercept + slope * z, np.sqrt((residual**2).mean())).logpdf(x)
        np.testing.assert_allclose(scored[:, position], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("estimator", "child", "parent"),
    [
        ("gaussian_full", "x", "z"),
        ("gaussian_shared", "x", "z"),
        ("categorical_joint", "v", "u"),
    ],
)
def test_the_chain_rule_gives_the_joint_distribution(
    estimator: str, child: str, parent: str
) -> None:
    table = weather()
    chain = [pc.Block(estimator, [child], given=[parent]), pc.Block(estimator, [parent])]
    joint = pc.fit(table, pc.ModelSpec("label", [pc.Block(estimator, [child, parent])]))
    if estimator == "categorical_joint":  # three cells of α = 1/3 make one value of α = 1
        chain[0] = pc.Block(estimator, [child], given=[parent], pseudo_count=1 / 3)
        block = pc.Block(estimator, [child, parent], pseudo_count=1 / 3)
        joint = pc.fit(table, pc.ModelSpec("label", [block]))
    model = pc.fit(table, pc.ModelSpec("label", chain))
    np.testing.assert_allclose(
        model.joint_log_likelihood(table), joint.joint_log_likelihood(table), rtol=1e-9
    )


def test_a_null_given_column_leaves_the_distribution_of_the_others() -> None:
    table = weather()
    block = pc.Block("gaussian_full", ["x"], given=["z"])
    model = pc.fit(table, pc.ModelSpec("label", [block]))
    alone = pc.fit(table, pc.ModelSpec("label", [pc.Block("gaussian_full", ["x"])]))
    without = table.set_column(2, "z", pa.nulls(len(table), pa.float64()))
    np.testing.assert_allclose(
        model.joint_log_likelihood(without), alone.joint_log_likelihood(table), rtol=1e-9
    )


def test_an_explanation_names_the_given_values_and_sums_to_the_log_odds() -> None:
    table = weather(20)
    blocks = [
        pc.Block("categorical_joint", ["v"], given=["u"]),
        pc.Block("categorical", ["u"]),
        pc.Block("gaussian_full", ["x", "z"]),
    ]
    model = pc.fit(table, pc.ModelSpec("label", blocks))
    ledger = pc.explain(model, table, rows=[3]).table
    values = dict(zip(ledger["item"].to_pylist(), ledger["value"].to_pylist(), strict=True))
    v, u = (table[name][3].as_py() for name in ("v", "u"))
    assert values["v"] == f"{v} given u={u}"
    joint = np.sort(model.joint_log_likelihood(table.slice(3, 1))[0])
    assert ledger["total"].to_pylist()[-1] == pytest.approx(joint[1] - joint[0], abs=1e-9)
