"""Invalid decision rules, costs and held-out tables, refused in one line."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from refusals import refused

import probclass_core as pc
from probclass_core.errors import DataError, NotSupportedError, SpecError

ROWS = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0], "y": list("aaabbb")})
MODEL = pc.fit(ROWS, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))
FLOORED = pc.fit(ROWS, pc.ModelSpec("y", [pc.Block("gaussian_full", ["x"], outliers=0.01)]))
MIXED_UP = pa.table({"x": [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0] * 9, "y": list("aababbb") * 9})


COST = pa.table({"class": ["a"], "prediction": ["b"], "cost": [1.0]})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("most", "decision by 'most' is unknown; use 'map', 'ml'"),
        (7, "a decision rule must be a DecisionRule or a table of its fields, got 7"),
        (
            {"min_probabilty": 0.9},
            "a decision rule has no 'min_probabilty'.* mean 'min_prob",
        ),
        ({"min_probability": math.nan}, "min_probability must be"),
        ({"min_probability": True}, "min_probability must .*got True"),
        ({"min_rarity": -0.1}, "min_rarity must .*-0.1"),
        (
            {"min_rarity": 0.01},
            r"with_density_quantiles\(model, source\), or fit with --density-quantiles",
        ),
        ({"costs": {"A": {"b": 1}}}, "the costs name class 'A'; the model has 'a', 'b'"),
        ({"costs": COST}, "costs must be a table of tables"),
        (
            {"costs": {"a": {"b": -1}}},
            "cost of predicting 'b' for class 'a' must be a number of at least 0, got -1",
        ),
        *(
            ({"costs": {"a": {"b": cost}}}, f"'b' for class 'a' .*got {cost!r}")
            for cost in (math.nan, math.inf, "dear", None)
        ),
    ],
)
def test_an_invalid_rule_is_refused(rule: Any, message: str) -> None:
    with refused(SpecError, message):
        MODEL.predict(ROWS, decision=rule)


@pytest.mark.parametrize("quantile", [0.0, 0.0005, 1.0])
def test_a_quantile_outside_the_stored_range_is_refused(quantile: float) -> None:
    model = pc.with_density_quantiles(MODEL, ROWS)
    # A row is a sixth of all.
    with pytest.raises(SpecError, match=r"must be between 0\.167 and 0\.999, got"):
        model.predict(ROWS, {"min_rarity": quantile})


def test_densities_that_are_not_normalized_have_no_quantiles() -> None:
    with pytest.raises(NotSupportedError, match="is not a density"):
        pc.with_density_quantiles(FLOORED, ROWS)
    with pytest.raises(NotSupportedError, match="is not a density"):
        FLOORED.predict(ROWS, {"min_rarity": 0.01})
    record = pc.calibrate(FLOORED, ROWS).training["calibration"]
    assert record["rows"] == len(ROWS), "posteriors can still be calibrated"


def test_changing_the_prior_of_a_calibrated_model_is_refused() -> None:
    with pytest.raises(SpecError, match="calibration=None"):
        pc.calibrate(MODEL, MIXED_UP).with_prior("uniform")


def test_rarity_is_not_known_under_another_prior() -> None:
    model = pc.with_density_quantiles(MODEL, ROWS).with_prior("uniform")
    with pytest.raises(SpecError, match="the rarity of rows needs a model with density quantiles"):
        model.rarity(ROWS)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS.slice(0, 0), "nothing to calibrate on: no row has a label 'y'"),
        ({"x": [1.0], "y": ["c"]}, "nothing to calibrate on"),
        ({"x": [1.0], "y": [1]}, "label 'y' is int64 here and was string"),
    ],
)
def test_invalid_rows_to_calibrate_on_are_refused(rows: Any, message: str) -> None:
    with refused(DataError, message):
        pc.calibrate(MODEL, rows)


def test_rows_of_weight_0_do_not_count() -> None:
    rows = ROWS.append_column("w", pa.array([1.0] * 6))
    model = pc.fit(rows, pc.ModelSpec("y", {"gaussian_diagonal": "x"}, weight="w"))
    weightless = rows.set_column(2, "w", pa.array([0.0] * 6))
    with pytest.raises(DataError, match="weight above 0"):
        pc.calibrate(model, weightless)
    with pytest.raises(DataError, match="there are no rows"):
        pc.with_density_quantiles(model, weightless)
    with pytest.raises(DataError, match="no column 'w'"):
        pc.calibrate(model, ROWS)
