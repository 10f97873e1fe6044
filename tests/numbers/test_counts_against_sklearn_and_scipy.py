"""Counts agree with scikit-learn and scipy on the same rows: parameters and densities to 1e-9."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted
from scipy import stats
from scipy.special import gammaln
from sklearn.datasets import load_digits
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

import probclass_core as pc

X, Y = load_digits(return_X_y=True)
PIXELS = [f"x{position}" for position in range(X.shape[1])]
DIGITS = pa.table({**dict(zip(PIXELS, np.ascontiguousarray(X.T), strict=True)), "y": Y})
WEIGHTS = 0.25 + np.arange(len(Y)) % 7
ALPHAS = (1.0, 0.01, 30.0)

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


def logs(estimator: str, **options: Any) -> np.ndarray:
    """log p(x | c) of the queries under a model of the small table: ``(n, 2)``."""
    model = fitted(pa.table(SMALL), "c", pc.Block(estimator, COLUMNS, **options))
    likelihood: np.ndarray = model.log_likelihood_by_block(QUERIES)[:, :, 0]
    return likelihood


def log_coefficient(counts: np.ndarray) -> np.ndarray:
    coefficient: np.ndarray = gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)
    return coefficient[:, None]


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_bernoulli_agrees_with_bernoulli_nb(alpha: float, weighted: bool) -> None:
    peer = BernoulliNB(alpha=alpha).fit(X, Y, sample_weight=WEIGHTS if weighted else None)
    table = DIGITS.append_column("w", pa.array(WEIGHTS))
    block = pc.Block("bernoulli", PIXELS, pseudo_count=alpha)
    model = fitted(table, "y", block, weight="w" if weighted else None)
    parameters = model.parameters["bernoulli"]
    assert_close(parameters["count"], peer.feature_count_.ravel())
    assert_close(parameters["log_probability"], peer.feature_log_prob_.ravel())
    assert_close(model.joint_log_likelihood(table), peer.predict_joint_log_proba(X))
    assert model.predict(table).to_pylist() == peer.predict(X).tolist()


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("weighted", [False, True])
def test_multinomial_agrees_with_multinomial_nb_and_coefficient(
    alpha: float, weighted: bool
) -> None:
    peer = MultinomialNB(alpha=alpha).fit(X, Y, sample_weight=WEIGHTS if weighted else None)
    table = DIGITS.append_column("w", pa.array(WEIGHTS))
    block = pc.Block("multinomial", PIXELS, pseudo_count=alpha)
    model = fitted(table, "y", block, weight="w" if weighted else None)
    parameters = model.parameters["multinomial"]
    assert_close(parameters["count"], peer.feature_count_.ravel())
    assert_close(parameters["log_probability"], peer.feature_log_prob_.ravel())
    assert_close(
        model.joint_log_likelihood(table),
        peer.predict_joint_log_proba(X) + log_coefficient(X),
    )
    assert model.predict(table).to_pylist() == peer.predict(X).tolist()


def test_multinomial_agrees_with_scipy() -> None:
    ours = logs("multinomial", pseudo_count=0.5)
    for position, counts in enumerate(COUNTS_BY_CLASS.values()):
        total = counts.sum(axis=1) + 0.5
        peer = stats.multinomial(GRID.sum(axis=0), total / total.sum())
        assert_close(ours[:, position], peer.logpmf(GRID.T))


def test_predictive_multinomial_agrees_with_scipy_dirichlet_multinomial() -> None:
    ours = logs("multinomial", pseudo_count=0.5, predictive=True)
    for position, counts in enumerate(COUNTS_BY_CLASS.values()):
        alpha = counts.sum(axis=1) + 0.5
        peer = [stats.dirichlet_multinomial.logpmf(row, alpha, row.sum()) for row in GRID.T]
        assert_close(ours[:, position], peer)


def test_poisson_agrees_with_scipy() -> None:
    ours = logs("poisson", pseudo_count=0.5, pseudo_rows=2)
    for position, counts in enumerate(COUNTS_BY_CLASS.values()):
        rate = (counts.sum(axis=1) + 0.5) / (counts.shape[1] + 2)
        assert_close(ours[:, position], stats.poisson(rate[:, None]).logpmf(GRID).sum(axis=0))


def test_predictive_poisson_agrees_with_scipy_negative_binomial() -> None:
    ours = logs("poisson", pseudo_count=0.5, pseudo_rows=2, predictive=True)
    for position, counts in enumerate(COUNTS_BY_CLASS.values()):
        shape, rate = counts.sum(axis=1) + 0.5, counts.shape[1] + 2
        peer = stats.nbinom(shape[:, None], rate / (rate + 1))
        assert_close(ours[:, position], peer.logpmf(GRID).sum(axis=0))


def test_bernoulli_agrees_with_scipy() -> None:
    ours = logs("bernoulli", pseudo_count=0.5)
    for position, counts in enumerate(COUNTS_BY_CLASS.values()):
        rate = ((counts > 0).sum(axis=1) + 0.5) / (counts.shape[1] + 1)
        assert_close(ours[:, position], stats.bernoulli(rate[:, None]).logpmf(GRID > 0).sum(axis=0))


def test_multinomial_of_fractions_agrees_with_multinomial_nb() -> None:
    """For example of weighted terms: x! becomes Γ(x + 1), which is the same in every class."""
    fractions = X / 7.0
    table = pa.table({**dict(zip(PIXELS, np.ascontiguousarray(fractions.T), strict=True)), "y": Y})
    model = fitted(table, "y", pc.Block("multinomial", PIXELS))
    peer = MultinomialNB().fit(fractions, Y)
    assert_close(model.predict_log_proba(table), peer.predict_log_proba(fractions))


@pytest.mark.parametrize("estimator", ["multinomial", "poisson"])
def test_predictive_counts_are_not_linear(estimator: str) -> None:
    model = fitted(DIGITS, "y", pc.Block(estimator, PIXELS, predictive=True))
    with pytest.raises(pc.NotSupportedError, match="not linear in its features"):
        model.linear_form()


@pytest.mark.parametrize("estimator", ["bernoulli", "multinomial", "poisson"])
def test_infinite_weights_are_not_linear(estimator: str) -> None:
    model = fitted(DIGITS, "y", pc.Block(estimator, PIXELS, pseudo_count=0))
    with pytest.raises(pc.NotSupportedError, match="set pseudo_count above 0"):
        model.linear_form()
