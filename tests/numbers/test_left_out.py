"""Likelihoods of training rows as if each, or its group, had been left out, against such fits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from model_values import left_out

import probclass_core as pc
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.statistics import bind

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
        "discretized", ["x"], given=["u", "z"], cuts=CUTS, missing="level"
    ),
    "bins given a category and a bin, shared out": pc.Block(
        "discretized", ["x"], given=["u", "z"], cuts=CUTS, missing="level", window=3
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


LEFT_OUT_BY_GROUP = {
    **{name: block for name, block in BLOCKS.items() if block.estimator != "knn_density"},
    "values that some groups have": pc.Block("categorical", ["only", "u"], shared_strength="loo"),
    "nulls that some groups have": pc.Block("categorical", ["only", "v"], missing="level"),
    "values ignored": pc.Block("categorical", ["only"], unseen="ignore"),
    "values ignored without a prior": pc.Block(
        "categorical", ["only"], unseen="ignore", pseudo_count=0.0
    ),
    "given values that some groups have": pc.Block(
        "categorical", ["only", "u"], given=["v", "x"], cuts=CUTS_OF_X, strength="loo"
    ),
    "nulls of given columns as a level": pc.Block(
        "discretized", ["x"], given=["only", "z"], cuts=CUTS, missing="level", strength="loo"
    ),
    "a column of one group": pc.Block("categorical", ["alone", "u"]),
    "bins of a column of one group": pc.Block("discretized", ["number"], cuts={"number": [0.0]}),
    "a declared domain without a prior": pc.Block(
        "categorical", ["alone"], domain={"alone": ["a", "b"]}, pseudo_count=0.0
    ),
    "a declared domain": pc.Block("categorical", ["alone"], domain={"alone": ["a", "b"]}),
    "bins by the classes": pc.Block("discretized", ["x", "z", "number"], shared_strength="loo"),
    "bins of equal width": pc.Block("discretized", ["x", "z"], method="width", missing="level"),
    "bins of equal width without a null": pc.Block(
        "discretized", ["y"], method="frequency", bins=3, missing="level"
    ),
}


def groups() -> tuple[pa.Table, np.ndarray]:
    """The rows with columns that have values, or nulls, in some groups only, and their groups."""
    group = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    columns = {
        "only": ["p", "q", "p", "p", "r", "r", None, "q", "q", "p", "s", "s"],
        "alone": ["a", "b", "a"] + [None] * 9,
        "number": [None] * 7 + [1.0, -1.0, 2.0, 0.5, None],
        "y": [0.5, 1.0, 2.0, 0.25, 1.5, None, 3.0, 0.0, 1.0, 2.5, -1.0, 0.5],
    }
    table = rows()
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table, group


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("name", LEFT_OUT_BY_GROUP)
def test_leaving_a_group_out_is_fitting_without_it(name: str, weight: str | None) -> None:
    (table, group), block = groups(), LEFT_OUT_BY_GROUP[name]
    spec = pc.ModelSpec("label", [block], weight=weight)
    statistics = pc.summarize(table, spec)
    (estimator,) = bind(spec, statistics.features, statistics.row_weight).values()
    parts = [pc.summarize(table.filter(pa.array(group == number)), spec) for number in range(3)]
    classes = statistics.classes["class"].combine_chunks()
    batch = Rows(table.combine_chunks().to_batches()[0])
    tables = [next(iter(part.blocks.values())) for part in parts]
    found = estimator.fit_without(tables, dict.fromkeys(range(3), classes))
    for number, likelihood in enumerate(found):
        model = pc.fit(table.filter(pa.array(group != number)), spec)
        member = np.flatnonzero(group == number)
        expected = model.log_likelihood_by_block(table.take(pa.array(member)))[:, :, 0]
        actual = likelihood.log_likelihood(batch.take(member))
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
