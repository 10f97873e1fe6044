"""Likelihoods of training rows as if each had been left out, against fits without the row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from model_values import left_out

import probclass_core as pc

CUTS = {"x": [-0.5, 0.75], "z": [0.25]}
CUTS_OF_X = {"x": CUTS["x"]}
DOMAIN = {"u": ["a", "b"], "v": ["p", "q"]}
BLOCKS = {
    "categories": pc.Block("categorical", ["u", "v"], domain={"u": ["a", "b"], "v": ["p", "q"]}),
    "zeros": pc.Block(
        "categorical", ["u"], pseudo_count=0.5, smooth="zeros", domain={"u": ["a", "b"]}
    ),
    "pseudo-counts by value": pc.Block(
        "categorical", ["u"], pseudo_count={"u": {"a": 2, "b": 0.1}}
    ),
    "nulls as a level": pc.Block("categorical", ["u", "v"], missing="level"),
    "bins": pc.Block("discretized", ["x", "z"], cuts=CUTS),
    "categories given a bin": pc.Block(
        "categorical", ["u", "v"], given=["x"], cuts=CUTS_OF_X, domain=DOMAIN
    ),
    "bins given a category and a bin": pc.Block(
        "discretized", ["x"], given=["u", "z"], cuts=CUTS, missing="level", back_off="uniform"
    ),
    "bins with nulls": pc.Block("discretized", ["x", "z"], cuts=CUTS, missing="level"),
    "neighbors": pc.Block("knn_density", ["x", "z"], k=3),
    "neighbors of a large ball": pc.Block("knn_density", ["x", "z"], k=4, pseudo_count=1.0),
    "neighbors in a square": pc.Block("knn_density", ["x", "z"], k=2, metric="chebyshev"),
    "neighbors by another metric": pc.Block(
        "knn_density", ["x", "z"], k=3, metric="canberra", pseudo_count=0.5
    ),
}


def rows() -> pa.Table:
    """Twelve rows with nulls and weights; no value is in one row only."""
    return pa.table(
        {
            "label": ["a", "a", "b", "b", "b", "c", "c", "a", "b", "c", "a", "c"],
            "u": ["a", "b", "b", None, "a", "a", "b", None, "b", "a", "a", "b"],
            "v": ["p", None, "q", "q", "p", None, "p", "q", None, "q", "p", "p"],
            "x": [0.0, 1.0, None, -1.0, 0.75, 2.0, -3.0, None, 0.5, None, 1.0, -0.5],
            "z": [1.0, None, 0.25, 0.0, None, 5.0, -1.0, 0.0, 2.0, 0.5, None, 1.0],
            "w": [1.0, 0.5, 2.0, 1.0, 0.1, 3.0, 1.0, 1.5, 0.7, 1.0, 0.3, 1.0],
        }
    )


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("name", BLOCKS)
def test_leaving_a_row_out_is_fitting_without_it(name: str, weight: str | None) -> None:
    table, spec = rows(), pc.ModelSpec("label", [BLOCKS[name]], weight=weight)
    actual = left_out(pc.fit(table, spec), table)
    for row in range(len(table)):
        others = table.take(pa.array([other for other in range(len(table)) if other != row]))
        expected = pc.fit(others, spec).log_likelihood_by_block(table.slice(row, 1))[0, :, 0]
        np.testing.assert_allclose(actual[row], expected, rtol=1e-9, atol=1e-12)
