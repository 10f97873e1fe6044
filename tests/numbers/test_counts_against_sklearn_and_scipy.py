"""Counts agree with scikit-learn and scipy on the same rows: parameters and densities to 1e-9."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted, table_of_matrix
from scipy import stats
from scipy.special import gammaln
from sklearn.datasets import load_digits
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

import probclass_core as pc

X, Y = load_digits(return_X_y=True)
PIXELS = [f"x{position}" for position in range(X.shape[1])]
DIGITS = table_of_matrix(X, y=Y)
WEIGHTS = 0.25 + np.arange(len(Y)) % 7
PEERS = {"bernoulli": BernoulliNB, "multinomial": MultinomialNB}

SMALL = {
    "x": [0, 3, 1, 0, 7, 2, 5],
    "y": [2, 0, 1, 4, 1, 1, 0],
    "z": [1, 1, 0, 0, 3, 9, 2],
    "c": list("aababbb"),
}
COLUMNS = ("x", "y", "z")
GRID = np.array(np.meshgrid(*[np.arange(5)] * 3)).reshape(3, -1)
QUERIES = dict(zip(COLUMNS, GRID, strict=True))
COUNTS_BY_CLASS = {
    label: np.array([[v for v, c in zip(SMALL[n], SMALL["c"], strict=True) if c == label]
                     for n in COLUMNS], dtype=float)
    for label in "ab"
}  # fmt: skip


def assert_close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def log_coefficient(counts: np.ndarray) -> np.ndarray:
    coefficient: np.ndarray = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    return coefficient[:, None]


@pytest.mark.parametrize("alpha", [1.0, 0.01, 30.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("estimator", "peer"), PEERS.items())
def test_counts_agree_with_scikit_learn(
    estimator: str, peer: Any, alpha: float, weighted: bool
) -> None:
    peer = peer(alpha=alpha).fit(X, Y, sample_weight=WEIGHTS if weighted else None)
    table = DIGITS.append_column("w", pa.array(WEIGHTS))
    block = pc.Block(estimator, PIXELS, pseudo_count=alpha)
    model = fitted(table, "y", block, weight="w" if weighted else None)
    parameters = model.parameters[estimator]
    assert_close(parameters["count"], peer.feature_count_.ravel())
    assert_close(parameters["log_probability"], peer.feature_log_prob_.ravel())
    # scikit-learn leaves out the multinomial coefficient, which is the same in all classes.
    coefficient = log_coefficient(X) if estimator == "multinomial" else 0.0
    assert_close(model.joint_log_likelihood(table), peer.predict_joint_log_proba(X) + coefficient)
    assert model.predict(table).to_pylist() == peer.predict(X).tolist()


def of_bernoulli(counts: np.ndarray) -> Any:
    rate = ((counts > 0).sum(axis=1) + 0.5) / (counts.shape[1] + 1)
    return stats.bernoulli(rate[:, None]).logpmf(GRID > 0).sum(axis=0)


def of_multinomial(counts: np.ndarray) -> Any:
    total = counts.sum(axis=1) + 0.5
    return stats.multinomial(GRID.sum(axis=0), total / total.sum()).logpmf(GRID.T)


def of_poisson(counts: np.ndarray) -> Any:
    rate = (counts.sum(axis=1) + 0.5) / (counts.shape[1] + 2)
    return stats.poisson(rate[:, None]).logpmf(GRID).sum(axis=0)


@pytest.mark.parametrize(
    ("estimator", "options", "peer"),
    [
        ("bernoulli", {}, of_bernoulli),
        ("multinomial", {}, of_multinomial),
        ("poisson", {"pseudo_rows": 2}, of_poisson),
    ],
)
def test_counts_agree_with_scipy(
    estimator: str, options: dict[str, Any], peer: Callable[[np.ndarray], Any]
) -> None:
    model = fitted(pa.table(SMALL), "c", pc.Block(estimator, COLUMNS, pseudo_count=0.5, **options))
    ours = model.log_likelihood_by_block(QUERIES)[:, :, 0]
    for position, counts in enumerate(COUNTS_BY_CLASS.values()):
        assert_close(ours[:, position], peer(counts))


def test_multinomial_of_fractions_agrees_with_multinomial_nb() -> None:
    """For example of weighted terms: x! becomes Γ(x + 1), which is the same in every class."""
    fractions = X / 7.0
    table = table_of_matrix(fractions, y=Y)
    model = fitted(table, "y", pc.Block("multinomial", PIXELS))
    peer = MultinomialNB().fit(fractions, Y)
    assert_close(model.predict_log_proba(table), peer.predict_log_proba(fractions))
