"""Invalid options of bins, and columns that cannot be cut into bins."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc

ROWS = pa.table({"c": ["a", "b"] * 3, "x": [1.0, 2, 3, 4, 5, 6], "u": ["p", "q"] * 3})

OPTIONS: list[tuple[pc.Block, str]] = [
    (
        pc.Block("discretized", ["x"], method="quantile"),
        "method must be one of 'frequency', 'mdl', 'width', got 'quantile'",
    ),
    (pc.Block("discretized", ["x"], bins=1), "bins must be a whole number of at least 2, got 1"),
    (pc.Block("discretized", ["x"], bins=2.5), "bins must be a whole number of .*got 2.5"),
    (pc.Block("discretized", ["x"], cells=3), "cells must be a whole number of at least 4, got 3"),
    (
        pc.Block("discretized", ["x"], pseudo_count=-1),
        "pseudo_count must be a number of at least 0, got -1",
    ),
    (
        pc.Block("discretized", ["x"], pseudo_count={"x": 1}),
        "pseudo_count must be a number of at least 0, got {'x': 1}",
    ),
    (
        pc.Block("discretized", ["x"], cuts={"y": [1]}),
        "cuts names column 'y', which is not in the block; it has 'x'",
    ),
    *(
        (
            pc.Block("discretized", ["x"], cuts={"x": cuts}),
            "cuts of 'x' must be a list of ascending numbers, got ",
        )
        for cuts in (5, "12", [2, 1], [1, 1], [1, "2"], [True])
    ),
    (
        pc.Block("discretized", ["x"], missing="value"),
        "missing must be one of 'level', 'marginalize', got 'value'",
    ),
    (pc.Block("discretized", ["x", "u"]), "column 'u' is string, but it models numbers"),
]


@pytest.mark.parametrize(("block", "message"), OPTIONS)
def test_an_invalid_option_is_refused(block: pc.Block, message: str) -> None:
    with pytest.raises(pc.SpecError, match=message) as error_info:
        pc.fit(ROWS, pc.ModelSpec("c", [block]))
    assert str(error_info.value).startswith("discretized")
    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_a_column_without_any_value_is_refused(missing: float | None) -> None:
    table = {"c": ["a", "b"], "x": pa.array([missing, None], pa.float64())}
    spec = pc.ModelSpec("c", [pc.Block("discretized", ["x"])], on_scarce="error")
    with pytest.raises(pc.DataError, match="column 'x' has no value in any training row; leave it"):
        pc.fit(table, spec)


def test_a_class_without_any_value_needs_a_pseudo_count() -> None:
    table = {"c": ["a", "a", "b"], "x": [1.0, 2.0, None]}
    unsmoothed = pc.Block("discretized", ["x"], method="width", bins=2, pseudo_count=0)
    with pytest.raises(pc.DataError, match="class 'b' has no value of column 'x' and its pseudo-c"):
        pc.fit(table, pc.ModelSpec("c", [unsmoothed], on_scarce="error"))
    smoothed = pc.fit(
        table, pc.ModelSpec("c", [pc.Block("discretized", ["x"], method="width", bins=2)])
    )
    masses = np.exp(smoothed.log_likelihood_by_block({"x": [-9.0, 9.0]})[:, 1, 0])
    assert masses == pytest.approx([1 / 2, 1 / 2])


def test_infinities_are_refused_in_training_and_in_scoring() -> None:
    spec = pc.ModelSpec("c", [pc.Block("discretized", ["x"])])
    with pytest.raises(pc.DataError, match="column 'x' contains 1 infinite value; make them null"):
        pc.fit({"c": ["a", "b"], "x": [1.0, math.inf]}, spec)
    with pytest.raises(pc.DataError, match="column 'x' contains 2 infinite values"):
        pc.fit(ROWS, spec).predict({"x": [math.inf, -math.inf]})


def test_evidence_of_bins_is_refused() -> None:
    estimator = pc.estimators()["discretized"](pa.schema([("x", pa.float64())]), {})
    statistics = pc.summarize(ROWS, pc.ModelSpec("c", [pc.Block("discretized", ["x"])]))
    with pytest.raises(pc.NotSupportedError, match="discretized offers no log evidence"):
        estimator.log_evidence(statistics.blocks["discretized"])
