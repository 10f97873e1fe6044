"""Invalid decision rules, costs and held-out tables, refused in one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.model.calibration import METHODS

ROWS = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0], "y": list("aaabbb")})
MODEL = pc.fit(ROWS, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))
ANGLES = pc.fit(ROWS, pc.ModelSpec("y", [pc.Block("knn_density", ["x"], metric="canberra")]))


def cells(**columns: Any) -> pa.Table:
    return pa.table({"class": ["a"], "prediction": ["b"], "cost": [1.0], **columns})


RULES: dict[str, tuple[Any, str]] = {
    "an unknown name": ("most", "decision by 'most' is unknown; use 'map', 'ml'"),
    "not a rule": (7, "decision must be 'map', 'ml', a DecisionRule or a table .* got 7"),
    "an unknown key": (
        {"min_probabilty": 0.9},
        "unknown key 'min_probabilty' .* Did you mean 'min_probability'",
    ),
    "a probability above 1": ({"min_probability": 1.5}, "min_probability must be .*got 1.5"),
    "a probability that is NaN": ({"min_probability": math.nan}, "min_probability must be"),
    "text as a probability": ({"min_probability": "high"}, "min_probability must .*got 'high'"),
    "a bool as a probability": ({"min_probability": True}, "min_probability must .*got True"),
    "a quantile below 0": ({"min_density_quantile": -0.1}, "min_density_quantile must .*-0.1"),
    "a negative cost": (
        {"costs": {"a": {"b": -1}}},
        "cost of predicting 'b' for class 'a' must be a finite number of at least 0, got -1",
    ),
    "a cost that is NaN": ({"costs": {"a": {"b": math.nan}}}, "'b' for class 'a' .*got nan"),
    "an infinite cost": ({"costs": {"a": {"b": math.inf}}}, "'b' for class 'a' .*got inf"),
    "text as a cost": ({"costs": {"a": {"b": "dear"}}}, "'b' for class 'a' .*got 'dear'"),
    "a number as the costs of a class": (
        {"costs": {"a": 5}},
        "costs of class 'a' must be a table of predicted class and cost, got 5",
    ),
    "a number as costs": ({"costs": 5}, "costs must be a table of tables, .* got 5"),
    "an unknown true class": (
        {"costs": {"A": {"b": 1}}},
        "the costs name class 'A'; the model has 'a', 'b'",
    ),
    "an unknown prediction": ({"costs": {"a": {"c": 1}}}, "the costs name class 'c'"),
    "a cost given twice": (
        {"costs": pa.concat_tables([cells(), cells()])},
        "cost of predicting 'b' for class 'a' is given twice",
    ),
    "a null cost": ({"costs": cells(cost=pa.nulls(1))}, "'b' for class 'a' .*got None"),
    "a density quantile without fitted quantiles": (
        {"min_density_quantile": 0.01},
        r"with_density_quantiles\(model, source\), or fit with --density-quantiles",
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_an_invalid_rule_is_refused(case: str) -> None:
    rule, message = RULES[case]
    with pytest.raises(pc.SpecError, match=message) as caught:
        MODEL.predict(ROWS, decision=rule)
    assert "\n" not in str(caught.value)


def test_costs_without_their_columns_are_refused() -> None:
    frame = pd.DataFrame({"class": ["a"], "predicted": ["b"], "cost": [1.0]})
    with pytest.raises(pc.DataError, match="no column 'prediction'; the table has 'class', 'cost'"):
        pc.DecisionRule(costs=frame)


@pytest.mark.parametrize("quantile", [0.0, 0.0005, 1.0])
def test_a_quantile_outside_the_stored_range_is_refused(quantile: float) -> None:
    model = pc.with_density_quantiles(MODEL, ROWS)
    with pytest.raises(pc.SpecError, match=r"must be between 0\.001 and 0\.999, got"):
        model.predict(ROWS, {"min_density_quantile": quantile})


def test_densities_that_are_not_normalized_have_no_quantiles() -> None:
    with pytest.raises(pc.NotSupportedError, match="ball of unknown volume"):
        pc.with_density_quantiles(ANGLES, ROWS)
    with pytest.raises(pc.NotSupportedError, match="ball of unknown volume"):
        ANGLES.predict(ROWS, {"min_density_quantile": 0.01})
    assert pc.calibrate(ANGLES, ROWS).calibration is not None, "posteriors can still be calibrated"


def test_changing_the_prior_of_a_calibrated_model_is_refused() -> None:
    for model, name in (
        (pc.calibrate(MODEL, ROWS), "calibration"),
        (pc.with_density_quantiles(MODEL, ROWS), "density_quantiles"),
    ):
        with pytest.raises(pc.SpecError, match=f"{name}=None"):
            model.with_prior("uniform")


HELD_OUT: dict[str, tuple[Mapping[str, Any], str]] = {
    "no rows": (
        ROWS.slice(0, 0).to_pydict()
        | {"x": pa.array([], pa.float64()), "y": pa.array([], pa.string())},
        "nothing to calibrate on: no row has a label 'y'",
    ),
    "no labels": ({"x": [1.0], "y": pa.nulls(1, pa.string())}, "nothing to calibrate on"),
    "unseen labels": ({"x": [1.0], "y": ["c"]}, "nothing to calibrate on"),
    "no column": ({"x": [1.0]}, "no column 'y'"),
    "another type": ({"x": [1.0], "y": [1]}, "label 'y' is int64 here and was string"),
    "an infinite value": ({"x": [math.inf], "y": ["a"]}, "column 'x' contains 1 infinite value"),
}


@pytest.mark.parametrize("case", HELD_OUT)
@pytest.mark.parametrize("method", METHODS)
def test_invalid_rows_to_calibrate_on_are_refused(case: str, method: str) -> None:
    rows, message = HELD_OUT[case]
    with pytest.raises(pc.DataError, match=message) as caught:
        pc.calibrate(MODEL, rows, method)
    assert "\n" not in str(caught.value)


def test_rows_of_weight_0_do_not_count() -> None:
    rows = ROWS.append_column("w", pa.array([1.0] * 6))
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])], weight="w")
    model = pc.fit(rows, spec)
    weightless = rows.set_column(2, "w", pa.array([0.0] * 6))
    calls: tuple[Callable[[], object], ...] = (
        lambda: pc.calibrate(model, weightless),
        lambda: pc.with_density_quantiles(model, weightless),
    )
    for call, message in zip(calls, ("weight above 0", "there are no rows"), strict=True):
        with pytest.raises(pc.DataError, match=message):
            call()
    with pytest.raises(pc.DataError, match="no column 'w'"):
        pc.calibrate(model, ROWS)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(
        pc.SpecError,
        match="'platt' is unknown; use 'isotonic', 'temperature', 'temperature_and_bias'",
    ):
        pc.calibrate(MODEL, ROWS, "platt")


@pytest.mark.parametrize("name", ["calibration", "density_quantiles"])
def test_a_block_cannot_have_the_name_of_a_postfit_table(name: str) -> None:
    with pytest.raises(pc.SpecError, match="cannot name a stored table"):
        pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"], name=name)])
