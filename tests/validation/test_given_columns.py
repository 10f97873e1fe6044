"""Invalid options of blocks given other columns, and data that they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.estimation.families.conditional import counts
from probclass_core.estimation.statistics import bind

ROWS = pa.table(
    {
        "c": ["a", "b"] * 3,
        "u": ["p", "q"] * 3,
        "v": ["s", "s", "t"] * 2,
        "x": [0.5, 1.5, 2.5] * 2,
        "n": [1, 2, 3] * 2,
        "t": pa.array([0, 1, 2] * 2, pa.timestamp("s")),
    }
)


def given(estimator: str = "categorical", **options: Any) -> pc.Block:
    return pc.Block(estimator, **{"columns": ["u"], "given": ["v", "x"], **options})


OPTIONS: list[tuple[pc.Block, str]] = [
    *(
        (given(strength=strength), "strength must be a number above 0, or 'loo', got ")
        for strength in (0, -1, "best", True, None)
    ),
    (given(back_off="none"), "back_off must be one of 'given', 'uniform', got 'none'"),
    (given(pseudo_count=-1), "pseudo_count must be a number of at least 0, got -1"),
    (given(missing="drop"), "missing must be one of 'level', 'marginalize', got 'drop'"),
    (given(unseen="drop"), "unseen must be one of 'error', 'ignore', 'pseudo_count', got 'drop'"),
    (given(cells=3), "cells must be a whole number of at least 4, got 3"),
    (given(cuts={"w": [1]}), "cuts names column 'w', which is not in the block; it has 'u', 'v'"),
    (given(cuts={"v": [1]}), "cuts names column 'v', which is string"),
    (given(cuts={"x": [2, 1]}), r"cuts of 'x' must be a list of ascending numbers, got \[2, 1\]"),
    (given(domain={"v": ["s"]}), "domain names column 'v', which is given; declare domains of 'u'"),
    (given(cuts={"n": [1]}, columns=["n"], domain={"n": ["1"]}), "domain names column 'n', whose"),
    (given(columns=["t"], given=["u"]), "column 't' is timestamp.* but it models categories"),
    (given("discretized"), "column 'u' is string, but it models numbers"),
    (given(given=["t"]), "column 't' is .*, but it models numbers and categories"),
]


@pytest.mark.parametrize(("block", "message"), OPTIONS)
def test_an_invalid_option_is_refused(block: pc.Block, message: str) -> None:
    with pytest.raises(pc.SpecError, match=message) as error_info:
        pc.fit(ROWS, pc.ModelSpec("c", [block]))
    assert str(error_info.value).startswith(block.estimator)
    assert "\n" not in str(error_info.value)


def test_values_outside_a_declared_domain_are_refused_or_ignored() -> None:
    with pytest.raises(pc.DataError, match="column 'u' has value 'q' in 3 training rows, outside"):
        pc.fit(ROWS, pc.ModelSpec("c", [given(domain={"u": ["p"]})]))
    ignoring = given(domain={"u": ["p"]}, unseen="ignore")
    model = pc.fit(ROWS, pc.ModelSpec("c", [ignoring]))
    assert set(model.parameters["categorical"]["value"].to_pylist()) == {"p"}


def test_scoring_an_unseen_value_or_null_is_refused() -> None:
    block = given(given=["v"], unseen="error", missing="level")
    model = pc.fit(ROWS, pc.ModelSpec("c", [block]))
    with pytest.raises(pc.DataError, match="column 'u': rows outside its domain: 1, such as 'z'"):
        model.predict({"u": ["p", "z"], "v": ["s", "s"]})
    with pytest.raises(pc.DataError, match="column 'u': 1 rows are null, which training never saw"):
        model.predict({"u": pa.array(["p", None]), "v": ["s", "s"]})
    model.predict({"u": ["p"], "v": ["new"]})  # a given value may be new


def test_more_combinations_than_memory_has_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts, "MAX_CELLS", 2)
    message = "columns 'u' given 'v' have more than 2 combinations of values; leave out given"
    with pytest.raises(pc.DataError, match=message):
        pc.fit(ROWS, pc.ModelSpec("c", [given(given=["v"])]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "only with back_off='uniform' and a number as strength"),
        ({"back_off": "uniform", "strength": "loo"}, "only with back_off='uniform' and a number"),
        ({"back_off": "uniform"}, "no log evidence of cuts .*; declare cuts of 'x'"),
    ],
)
def test_evidence_without_a_closed_form_is_refused(options: dict[str, Any], message: str) -> None:
    spec = pc.ModelSpec("c", [given(**options)])
    with pytest.raises(pc.NotSupportedError, match=message):
        pc.compare([pc.summarize(ROWS, spec)] * 2)


def test_evidence_of_rows_without_a_given_value_is_refused() -> None:
    rows = pa.table({"c": ["a", "b"], "u": ["p", "q"], "v": pa.array(["s", None])})
    spec = pc.ModelSpec("c", [given(given=["v"], back_off="uniform")])
    statistics = pc.summarize(rows, spec)
    (estimator,) = bind(spec, statistics.features).values()
    with pytest.raises(pc.DataError, match="'v', which 'u' is given, is null in some rows"):
        estimator.log_evidence(statistics.blocks["categorical"])


SCARCE = pa.table(
    {
        "c": ["a", "a", "b", "b"],
        "u": pa.array(["p", "q", None, None]),
        "v": ["s", "s", "s", "t"],
        "empty": pa.nulls(4, pa.string()),
    }
)


def test_a_class_or_column_without_values_is_pooled_with_a_note() -> None:
    smoothed = given(given=["v"], columns=["u", "empty"])
    model = pc.fit(SCARCE, pc.ModelSpec("c", [smoothed]))
    assert [note.split(":")[0] for note in model.training["notes"]] == [
        "column 'empty' has no value in any training row",
        "class 'b' has no value of column 'u'",
    ]
    logs = model.log_likelihood_by_block({"u": ["p"], "v": ["s"], "empty": ["x"]})[0, :, 0]
    np.testing.assert_allclose(np.exp(logs), [0.5, 0.5])
    pooled = pc.fit(SCARCE, pc.ModelSpec("c", [given(given=["v"], pseudo_count=0)]))
    logs = pooled.log_likelihood_by_block({"u": ["p"], "v": ["t"]})[0, :, 0]
    np.testing.assert_allclose(np.exp(logs), [0.5, 0.5])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (given(columns=["empty"], given=["v"]), "column 'empty' has no value in any training row"),
        (given(given=["v"], pseudo_count=0), "class 'b' has no value of column 'u' and its pseudo"),
    ],
)
def test_a_class_or_column_without_values_is_refused_if_asked(
    block: pc.Block, message: str
) -> None:
    with pytest.raises(pc.DataError, match=message):
        pc.fit(SCARCE, pc.ModelSpec("c", [block], on_scarce="error"))
