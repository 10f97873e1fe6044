"""Invalid options of joint categories, and rows that do not suffice for them."""

from __future__ import annotations

import math
from datetime import date

import pyarrow as pa
import pytest

import probclass_core as pc

ROWS = pa.table(
    {
        "c": ["a", "b"] * 3,
        "u": ["p", "q"] * 3,
        "v": ["s", "s", "t"] * 2,
        "x": [date(2024, 1, 1)] * 6,
    }
)

OPTIONS: list[tuple[pc.Block, str]] = [
    (
        pc.Block("categorical_joint", ["u", "x"]),
        "column 'x' is date32.* but it models categories",
    ),
    (pc.Block("categorical_joint", ["u"], pseudo_count=-1), "pseudo_count must be .*got -1"),
    (
        pc.Block("categorical_joint", ["u"], domain={"w": ["p"]}),
        "domain names column 'w', which is not in the block; it has 'u'",
    ),
    (
        pc.Block("categorical_joint", ["u"], domain={"u": ["p"]}, pseudo_count={"u": {"q": 1}}),
        "pseudo_count of 'u' has value 'q', domain has not|domain of 'u' has value 'p'",
    ),
    (pc.Block("categorical_joint", ["u"], smooth="some"), "smooth must be one of 'all', 'zeros'"),
    (pc.Block("categorical_joint", ["u"], unseen="drop"), "unseen must be one of 'error'"),
]


@pytest.mark.parametrize(("block", "message"), OPTIONS)
def test_an_invalid_option_is_refused(block: pc.Block, message: str) -> None:
    with pytest.raises(pc.SpecError, match=message) as error_info:
        pc.fit(ROWS, pc.ModelSpec("c", [block]))
    assert str(error_info.value).startswith("categorical_joint")
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("name", ["class", "count", "log_probability"])
def test_a_feature_named_like_a_column_of_the_parameters_is_refused(name: str) -> None:
    table = pa.table({"c": ["a", "b"], name: ["p", "q"], "v": ["p", "q"]})
    block = pc.Block("categorical_joint", ["v", name])
    with pytest.raises(pc.SpecError, match=f"column '{name}' has the name .*; rename it"):
        pc.fit(table, pc.ModelSpec("c", [block]))


def test_rows_outside_a_declared_domain_are_refused_or_ignored() -> None:
    domain = {"u": ["p"]}
    spec = pc.ModelSpec("c", [pc.Block("categorical_joint", ["u", "v"], domain=domain)])
    with pytest.raises(pc.DataError, match="column 'u' has value 'q' in 3 training rows, outside"):
        pc.fit(ROWS, spec)
    ignoring = pc.Block("categorical_joint", ["u", "v"], domain=domain, unseen="ignore")
    model = pc.fit(ROWS, pc.ModelSpec("c", [ignoring]))
    parameters = model.parameters["categorical_joint"]
    assert set(parameters["u"].to_pylist()) == {"p"}
    assert sum(parameters["count"].to_pylist()) == 3.0


def test_scoring_an_unseen_value_is_refused() -> None:
    spec = pc.ModelSpec("c", [pc.Block("categorical_joint", ["u", "v"], unseen="error")])
    model = pc.fit(ROWS, spec)
    with pytest.raises(pc.DataError, match="column 'v': rows outside its domain: 1, such as 'z'"):
        model.predict({"u": ["p", "p"], "v": ["s", "z"]})


def test_data_without_a_complete_row_are_refused() -> None:
    table = {"c": ["a", "b"], "u": ["p", None], "v": [None, "s"]}
    spec = pc.ModelSpec("c", [pc.Block("categorical_joint", ["u", "v"])], on_scarce="error")
    with pytest.raises(pc.DataError, match="no training row has all of u, v; leave out the col"):
        pc.fit(table, spec)


def test_a_class_without_a_complete_row_needs_a_pseudo_count() -> None:
    table = {"c": ["a", "b"], "u": ["p", "q"], "v": ["s", None]}
    unsmoothed = pc.Block("categorical_joint", ["u", "v"], pseudo_count=0)
    with pytest.raises(pc.DataError, match="class 'b' has no row with all of u, v and its pseudo"):
        pc.fit(table, pc.ModelSpec("c", [unsmoothed], on_scarce="error"))
    smoothed = pc.fit(table, pc.ModelSpec("c", [pc.Block("categorical_joint", ["u", "v"])]))
    row = {"u": ["p"], "v": ["s"]}
    # The domain of u has two values, that of v one.
    assert smoothed.log_likelihood_by_block(row)[0, 1, 0] == pytest.approx(math.log(1 / 2))
