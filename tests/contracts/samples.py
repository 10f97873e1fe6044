"""Tables with every kind of column, to test laws of whole models; options of each estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st

import probclass_core as pc

LABEL, WEIGHT = "label", "weight"
NUMBERS, CATEGORIES, COUNTS, TERMS = ("x", "y"), ("u", "v"), ("i", "j"), ("words",)
BLOCKS = {
    "gaussian_diagonal": pc.Block("gaussian_diagonal", NUMBERS),
    "gaussian_full": pc.Block("gaussian_full", NUMBERS),
    "gaussian_shared": pc.Block("gaussian_shared", NUMBERS),
    "categorical": pc.Block("categorical", CATEGORIES),
    "categorical_joint": pc.Block("categorical_joint", CATEGORIES),
    "discretized": pc.Block("discretized", NUMBERS, cells=4),
    "bernoulli": pc.Block("bernoulli", COUNTS),
    "bernoulli_of_terms": pc.Block("bernoulli", TERMS),
    "multinomial": pc.Block("multinomial", COUNTS),
    "multinomial_of_terms": pc.Block("multinomial", TERMS),
    "poisson": pc.Block("poisson", COUNTS),
    "poisson_of_terms": pc.Block("poisson", TERMS),
    "knn_density": pc.Block("knn_density", NUMBERS, k=2),
}
KINDS = ("gaussian_full", "categorical_joint", "multinomial_of_terms", "knn_density")
"""Estimators whose likelihoods differ in kind: densities, masses with zeros, and neither."""

_OF_TERMS: list[dict[str, Any]] = [
    {},
    {"pseudo_count": 0},
    {"vocabulary": ["b", "never seen", ""]},
]
OPTIONS: Mapping[str, Sequence[dict[str, Any]]] = {
    "gaussian_diagonal": [
        {},
        {"variance_floor": 0},
        {"variance_floor": 0.1},
        {"ddof": 1},
        {"predictive": True},
        {"predictive": True, "conjugate_prior": {"count": 0.1, "mean": 1.0}},
    ],
    "gaussian_full": [
        {},
        {"ridge": 1e-3},
        {"ddof": 1},
        {"shrinkage": "ledoit_wolf"},
        {"shrinkage": 0.5},
        {"shrinkage": "ledoit_wolf", "shrinkage_target": "pooled"},
        {"predictive": True},
    ],
    "gaussian_shared": [
        {},
        {"ridge": 1e-3},
        {"ddof": 1},
        {"shrinkage": "ledoit_wolf"},
        {"shrinkage": 0.5},
        {"predictive": True},
        {"predictive": True, "conjugate_prior": {"degrees_of_freedom": 3.5, "mean": {"x": 1.0}}},
    ],
    "categorical": [
        {},
        {"pseudo_count": 0, "smooth": "zeros"},
        {"pseudo_count": 0.5, "unseen": "ignore"},
        {"pseudo_count": {"u": 2, "v": {"": 1, "b": 0, "3": 0.1, "ß": 4}}},
    ],
    "categorical_joint": [
        {},
        {"pseudo_count": 0},
        {"smooth": "zeros", "domain": {"u": ["", "b", "3", "ß"]}},
        {"pseudo_count": 0.5, "unseen": "ignore", "domain": {"v": ["b", "ß"]}},
        {"pseudo_count": {"u": 2, "v": {"": 1, "b": 0, "3": 0.1, "ß": 4}}},
    ],
    "discretized": [
        {},
        {"method": "width", "bins": 3},
        {"method": "frequency", "bins": 2, "cells": 4096},
        {"method": "width", "bins": 7, "cells": 4096, "pseudo_count": 0},
    ],
    "bernoulli": [{}, {"pseudo_count": 0}, {"pseudo_count": 0.1}],
    "bernoulli_of_terms": _OF_TERMS,
    "multinomial": [{}, {"pseudo_count": 0}, {"predictive": True}],
    "multinomial_of_terms": [
        *_OF_TERMS,
        *({**options, "predictive": True} for options in _OF_TERMS),
    ],
    "poisson": [
        {},
        {"pseudo_count": 0},
        {"pseudo_count": 0, "pseudo_rows": 0},
        {"predictive": True},
        {"predictive": True, "pseudo_count": 0, "pseudo_rows": 0},
    ],
    "poisson_of_terms": [
        *({**options, "predictive": flag} for options in _OF_TERMS for flag in (False, True)),
        {"pseudo_count": 0, "pseudo_rows": 0},
    ],
    "knn_density": [
        {"k": 1},
        {"k": 3, "metric": "manhattan"},
        {"k": 2, "metric": "chebyshev"},
        {"k": 2, "metric": "minkowski", "p": 3},
        {"k": 2, "metric": "canberra"},
        {"k": 2, "metric": "cosine"},
        {"k": 2, "pseudo_count": 1, "standardize": True},
        {"k": 2, "pseudo_count": 0.5, "points": 4},
    ],
}


def spec_of(estimator: str, *, weight: str | None = None, **options: Any) -> pc.ModelSpec:
    """A spec with one of the `BLOCKS`, named by its key."""
    block = BLOCKS[estimator]
    block = pc.Block(block.estimator, block.columns, estimator, **{**block.options, **options})
    return pc.ModelSpec(LABEL, [block], weight=weight)


@st.composite
def numbers(draw: st.DrawFn, size: int, complete: int = 0) -> pa.Array:
    """Floats: constant, repeated or spread out, with any offset and scale; nulls at the end."""
    scale = draw(st.sampled_from([1.0, 1e-3, 1e3, 1e-100, 1e100]))
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, -1e6]))
    value = draw(
        st.sampled_from(
            [st.just(7.0), st.integers(-2, 2).map(float), st.floats(-100, 100, width=32)]
        )
    )
    missing = st.sampled_from([None, math.nan])
    cells = [draw(value if row < complete else value | value | missing) for row in range(size)]
    scaled = [None if cell is None else (cell + offset) * scale for cell in cells]
    return pa.array(scaled, pa.float64())


@st.composite
def categories(draw: st.DrawFn, size: int, complete: int = 0) -> pa.Array:
    """Text, or a dictionary that lists values without rows; nulls at the end."""
    value = draw(st.sampled_from([st.just("b"), st.sampled_from(["", "b", "3", "ß"])]))
    cells = [draw(value if row < complete else value | st.none()) for row in range(size)]
    column = pa.array(cells, pa.string())
    return column.dictionary_encode() if draw(st.booleans()) else column


@st.composite
def counts(draw: st.DrawFn, size: int, complete: int = 0) -> pa.Array:
    """Counts: all 0, all small, or some of the largest allowed; nulls at the end."""
    value = st.sampled_from(draw(st.sampled_from([[0], [0, 0, 1, 2, 7], [0, 3, 2**53]])))
    cells = [draw(value if row < complete else value | st.none()) for row in range(size)]
    return pa.array(cells, pa.float64() if draw(st.booleans()) else pa.int64())


@st.composite
def documents(draw: st.DrawFn, size: int, complete: int = 0) -> pa.Array:
    """Lists of words: some are empty or null, some contain null words."""
    document = st.lists(st.sampled_from(["", "b", "b", "3", "ß", None]), max_size=5)
    cells = [draw(document if row < complete else document | st.none()) for row in range(size)]
    return pa.array(cells, pa.list_(pa.string()))


@st.composite
def tables(draw: st.DrawFn, start: Sequence[str] = ()) -> pa.Table:
    """A table with every column; a class may have one row, or no value of a feature.

    Args:
        start: labels of the first rows, which have no nulls.
    """
    classes = draw(st.sampled_from([["a", "b"], ["a", "b", "c"]]))
    more = draw(st.lists(st.sampled_from([*(start or classes), None]), max_size=12))
    size = len(start) + len(more)
    weights = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return pa.table(
        {
            LABEL: pa.array([*start, *more], pa.string()),
            WEIGHT: pa.array(weights, pa.int64()),
            **{name: draw(numbers(size, len(start))) for name in NUMBERS},
            **{name: draw(categories(size, len(start))) for name in CATEGORIES},
            **{name: draw(counts(size, len(start))) for name in COUNTS},
            **{name: draw(documents(size, len(start))) for name in TERMS},
        }
    )


def training_tables() -> st.SearchStrategy[pa.Table]:
    """Tables of two or three classes that begin with two complete rows of each."""
    return st.sampled_from([["a", "b"] * 2, ["b", "a", "c"] * 2]).flatmap(tables)


@st.composite
def queries(draw: st.DrawFn) -> pa.Table:
    """Rows to score, with extreme numbers and values that training never contains."""
    extremes = [0.0, -0.0, 5e-324, -1e-160, 1.0, -7e3, 1e6, -1e6, 1e100, -1e154, 1e200]
    number = st.sampled_from([*extremes, 1.7e308, -1.7e308, math.nan, None]) | st.floats(-100, 100)
    category = st.sampled_from(["", "b", "3", "ß", "never seen", None])
    count = st.sampled_from([0.0, 1.0, 2.0, 170.0, 1e6, 2.0**53, None])
    words = st.lists(category, max_size=9) | st.none()
    size = draw(st.integers(0, 8))

    def column(cell: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(draw(st.lists(cell, min_size=size, max_size=size)), kind)

    return pa.table(
        {
            **{name: column(number, pa.float64()) for name in NUMBERS},
            **{name: column(category, pa.string()) for name in CATEGORIES},
            **{name: column(count, pa.float64()) for name in COUNTS},
            **{name: column(words, pa.list_(pa.string())) for name in TERMS},
        }
    )


def drawn_model(estimator: str, data: st.DataObject) -> tuple[pc.Model, pa.Table]:
    """A model with some options, and its training rows."""
    options = data.draw(st.sampled_from(OPTIONS[estimator]))
    table = data.draw(training_tables())
    return fitted_or_rejected(table, spec_of(estimator, **options)), table


def fitted_or_rejected(table: pa.Table, spec: pc.ModelSpec) -> pc.Model:
    """A fitted model; tables that no model can be fitted to are skipped."""
    try:
        return pc.fit(table, spec)
    except pc.DataError:
        reject()
