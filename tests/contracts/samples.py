"""Options of each estimator, and tables of the conformance kit with every kind of column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import reject
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.errors import DataError
from probclass_core.testing import suite
from probclass_core.testing.trial import LABEL

NUMBERS, CATEGORIES, COUNTS, TERMS = ("x", "y"), ("u", "v"), ("i", "j"), ("words",)
COLUMNS = {
    **dict.fromkeys(NUMBERS, suite.numbers()),
    **dict.fromkeys(CATEGORIES, suite.categories()),
    **dict.fromkeys(COUNTS, suite.counts(largest=2**53)),
    **dict.fromkeys(TERMS, suite.words()),
}
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
    ],
    "gaussian_full": [
        {},
        {"ridge": 1e-3},
        {"ddof": 1},
        {"shrinkage": "oas"},
        {"shrinkage": 0.5},
        {"outliers": 1e-8},
    ],
    "gaussian_shared": [
        {},
        {"ridge": 1e-3},
        {"ddof": 1},
        {"shrinkage": "oas"},
        {"shrinkage": 0.5},
        {"outliers": 1e-8},
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
    "multinomial": [{}, {"pseudo_count": 0}],
    "multinomial_of_terms": _OF_TERMS,
    "poisson": [
        {},
        {"pseudo_count": 0},
        {"pseudo_count": 0, "pseudo_rows": 0},
    ],
    "poisson_of_terms": [*_OF_TERMS, {"pseudo_count": 0, "pseudo_rows": 0}],
    "knn_density": [
        {"k": 1},
        {"k": 3, "metric": "manhattan"},
        {"k": 2, "metric": "chebyshev"},
        {"k": 2, "metric": "minkowski", "p": 3},
        {"k": 2, "metric": "canberra"},
        {"k": 2, "metric": "cosine"},
        {"k": 2, "pseudo_count": 1, "scale": "standard"},
        {"k": 2, "pseudo_count": 0.5, "points": 4},
        {"k": 2, "scale": "robust", "least_ball": 0.5},
    ],
}


def spec_of(estimator: str, *, weight: str | None = None, **options: Any) -> pc.ModelSpec:
    """A spec with one of the `BLOCKS`, named by its key."""
    block = BLOCKS[estimator]
    block = pc.Block(block.estimator, block.columns, estimator, **{**block.options, **options})
    return pc.ModelSpec(LABEL, [block], weight=weight)


def training_tables() -> st.SearchStrategy[pa.Table]:
    """Tables of two or three classes that begin with two complete rows of each."""
    return suite.tables(COLUMNS)


def queries() -> st.SearchStrategy[pa.Table]:
    """Rows to score, with extreme numbers and values that training never contains."""
    return suite.far_rows(COLUMNS)


def drawn_model(estimator: str, data: st.DataObject) -> tuple[pc.Model, pa.Table]:
    """A model with some options, and its training rows."""
    options = data.draw(st.sampled_from(OPTIONS[estimator]))
    table = data.draw(training_tables())
    return fitted_or_rejected(table, spec_of(estimator, **options)), table


def fitted_or_rejected(table: pa.Table, spec: pc.ModelSpec) -> pc.Model:
    """A fitted model; tables that no model can be fitted to are skipped."""
    try:
        return pc.fit(table, spec)
    except DataError:
        reject()
