"""Log evidence agrees with the chain rule, and with integrals over the parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import evidence, fitted
from scipy import integrate

import probclass_core as pc
from probclass_core.errors import DataError, NotSupportedError

CATEGORIES = ["u", "v", "w"]
DOMAIN = {"u": ["p", "q", "r"], "v": ["1", "2"], "w": ["s", "t", "o", "n"]}
PSEUDO_COUNTS: Sequence[Any] = [
    1.0,
    0.25,
    {"u": 0.5},
    {"u": {"p": 2, "q": 1, "r": 0.5}, "w": {"s": 3, "t": 0.1, "o": 1, "n": 1}, "v": 0.3},
]
BLOCKS = {
    f"{name} {number}": pc.Block(name, CATEGORIES, domain=DOMAIN, pseudo_count=pseudo_count)
    for name in ("categorical", "categorical_joint")
    for number, pseudo_count in enumerate(PSEUDO_COUNTS)
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Rows whose features depend on the class and on each other."""
    random = np.random.default_rng(5)
    label = np.array([0, 0, 1] * 8)
    u = (label + random.integers(0, 2, 24)) % 3
    v = (u > 0) ^ (random.random(24) < 0.2)
    return pa.table(
        {
            "u": np.array(DOMAIN["u"])[u],
            "v": np.array(DOMAIN["v"])[v.astype(int)],
            "w": random.choice(DOMAIN["w"], 24),
            "c": np.array(["a", "b"])[label],
        }
    )


@pytest.mark.parametrize("name", BLOCKS)
def test_evidence_grows_by_the_likelihood_of_the_next_row(table: pa.Table, name: str) -> None:
    """log p(rows 1 … n+1) − log p(rows 1 … n) = log p(row n+1 | rows 1 … n)."""
    block = BLOCKS[name]
    for rows in (4, 9, 11, 17, 23):
        before, row = table.slice(0, rows), table.slice(rows, 1)
        model = fitted(before, "c", block)
        position = model.classes.to_pylist().index(row["c"][0].as_py())
        predicted = model.log_likelihood_by_block(row)[0, position, 0]
        growth = evidence(table.slice(0, rows + 1), block) - evidence(before, block)
        assert growth == pytest.approx(predicted, rel=1e-9, abs=1e-10)


def of_a_category(theta: float) -> float:
    # The power of 1 − θ that diverges at 1 is left to the weight of the quadrature.
    return float(theta**3.5 * (1 - theta) ** 2) / math.exp(log_beta(1.5, 0.7))


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@pytest.mark.parametrize("estimator", ["categorical", "categorical_joint"])
def test_evidence_is_the_integral_over_the_parameters(
    estimator: str,
) -> None:
    value, _ = integrate.quad(of_a_category, 0, 1, weight="alg", wvar=(0, -0.3))
    block = pc.Block(estimator, ["v"], pseudo_count={"v": {"1": 1.5, "2": 0.7}})
    actual = evidence(pa.table({"v": list("11122"), "c": ["a"] * 5}), block)
    assert actual == pytest.approx(math.log(value), rel=1e-7)


@pytest.mark.parametrize(
    ("names", "columns", "options", "message"),
    [
        (
            ["categorical", "categorical_joint"],
            CATEGORIES,
            {"smooth": "zeros"},
            r"smooth='zeros', .* set smooth='all'",
        ),
        (
            ["categorical", "categorical_joint"],
            CATEGORIES,
            {"pseudo_count": {"v": {"1": 1, "2": 0}}},
            r"a pseudo_count of 0 for 'v' \('2'\)",
        ),
        (["categorical"], ["u"], {"shared_strength": 5}, "shared_strength"),
    ],
)
def test_an_improper_prior_has_no_evidence(
    table: pa.Table, names: list[str], columns: list[str], options: dict[str, Any], message: str
) -> None:
    for name in names:
        with pytest.raises(NotSupportedError, match=rf"^{name} \w+ no log evidence .*{message}"):
            evidence(table, pc.Block(name, columns, **options))


def test_rows_with_some_nulls_have_no_evidence(table: pa.Table) -> None:
    columns = CATEGORIES
    nulls = {name: pa.nulls(2, table.schema.field(name).type) for name in columns}
    nothing = pa.table({"c": ["a", "b"], **nulls})
    some = nothing.slice(0, 1).set_column(1, columns[0], table[columns[0]].slice(0, 1))
    rows = table.select(["c", *columns]).drop_null()
    block = pc.Block("categorical_joint", columns)
    assert evidence(pa.concat_tables([rows, nothing]), block) == evidence(rows, block)
    with pytest.raises(DataError, match=r"1 rows have some of u, v, w and not all, .* drop those"):
        evidence(pa.concat_tables([rows, some]), block)
