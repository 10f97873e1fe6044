"""Shared covariance and evidence of the normal families.

They agree with scikit-learn's linear discriminant, the densities of scipy, and identities.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_values import covariances, evidence, fitted, table_of_matrix
from scipy.stats import multivariate_normal, multivariate_t
from scipy.stats import t as student
from sklearn import datasets
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import probclass_core as pc

FAMILIES = ["gaussian_diagonal", "gaussian_full", "gaussian_shared"]
PRIOR = {
    "count": 0.6,
    "degrees_of_freedom": 6.5,
    "mean": {"x": 0.5, "y": -1.0, "z": 2.0},
    "variance": {"x": 0.8, "y": 2.0, "z": 0.3},
}


def sample(rows: int, seed: int = 5) -> pa.Table:
    """Three correlated features and two classes, the first of which is more frequent."""
    random = np.random.default_rng(seed)
    mixing = np.array([[1.0, 0.3, 0.0], [0.0, 1.2, -0.5], [0.2, 0.0, 0.4]])
    points = random.normal(size=(rows, 3)) @ mixing
    labels = np.where(np.arange(rows) % 3 == 2, "b", "a")
    points[labels == "b"] += [1.0, -0.5, 0.7]
    return table_of_matrix(points, "xyz", c=labels)


def matrix(table: pa.Table) -> np.ndarray:
    return np.column_stack([table[name].to_numpy() for name in "xyz"])


def block(estimator: str, **options: Any) -> pc.Block:
    return pc.Block(estimator, ["x", "y", "z"], **options)


def bundled(name: str) -> tuple[np.ndarray, np.ndarray, pa.Table]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, y, table_of_matrix(x, c=y)


@pytest.mark.parametrize("solver", ["lsqr", "eigen"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_shared_covariance_agrees_with_linear_discriminant_analysis(name: str, solver: str) -> None:
    x, y, table = bundled(name)
    peer = LinearDiscriminantAnalysis(solver=solver, store_covariance=True).fit(x, y)
    model = fitted(table, "c", pc.Block("gaussian_shared", table.schema.names[:-1]))
    parameters = model.parameters["gaussian_shared"]
    for covariance in covariances(parameters):
        np.testing.assert_allclose(covariance, peer.covariance_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parameters["mean"].to_pylist(), peer.means_, rtol=1e-12)
    # scikit-learn's least squares lose a few digits on the 30 different units of breast_cancer.
    np.testing.assert_allclose(model.predict_proba(table), peer.predict_proba(x), atol=2e-9)
    assert model.predict(table).to_pylist() == peer.predict(x).tolist()


@pytest.mark.parametrize(
    ("estimator", "most"), [("gaussian_full", 0), ("gaussian_full", 2**26), ("gaussian_shared", 0)]
)
def test_each_row_has_the_density_of_the_columns_that_it_has(
    monkeypatch: pytest.MonkeyPatch, estimator: str, most: int
) -> None:
    """Rows with any pattern of nulls, whether factors of covariances are kept or not."""
    monkeypatch.setattr("probclass_core.estimation.families.gaussian.full._MOST_WHITENING", most)
    noise = np.random.default_rng(0)
    rows = noise.normal(size=(3_000, 7)) @ noise.normal(size=(7, 7))
    rows[noise.random(rows.shape) < 0.4] = np.nan
    names = list("tuvwxyz")
    table = table_of_matrix(rows, names, c=noise.choice(["a", "b"], 3_000))
    model = fitted(table, "c", pc.Block(estimator, names))
    covariance = covariances(model.parameters[estimator])
    means = model.parameters[estimator]["mean"].to_pylist()
    ours = model.log_likelihood_by_block(table)[:, :, 0]
    for number in range(0, 3_000, 60):
        known = np.flatnonzero(~np.isnan(rows[number]))
        for position, mean in enumerate(means):
            part = covariance[position][np.ix_(known, known)]
            expected = (
                multivariate_normal.logpdf(rows[number, known], np.array(mean)[known], part)
                if len(known)
                else 0.0
            )
            assert ours[number, position] == pytest.approx(expected, rel=1e-10)


def test_far_from_all_rows_classes_are_equally_probable_with_outliers() -> None:
    rows = sample(300)
    models = [
        fitted(rows, "c", block("gaussian_full", **options)) for options in ({}, {"outliers": 1e-8})
    ]
    near, near_with_outliers = (model.predict_proba(rows) for model in models)
    np.testing.assert_allclose(near_with_outliers, near, atol=1e-6)
    far = table_of_matrix(matrix(rows) * 1000.0, "xyz")
    certain, unknown = (model.predict_proba(far) for model in models)
    assert np.median(certain.max(axis=1)) > 0.999
    prior = np.tile(np.exp(models[1].log_prior), (len(far), 1))
    np.testing.assert_allclose(unknown, prior, atol=1e-9)


def test_the_pooled_divisor_subtracts_ddof_once_per_class() -> None:
    table = sample(31)
    points, labels = matrix(table), np.array(table["c"])
    centered = [points[labels == label] - points[labels == label].mean(axis=0) for label in "ab"]
    scatter = sum(part.T @ part for part in centered)
    for ddof in (0, 1):
        model = fitted(table, "c", block("gaussian_shared", ddof=ddof))
        covariance = covariances(model.parameters["gaussian_shared"])[0]
        np.testing.assert_allclose(covariance, scatter / (31 - 2 * ddof), rtol=1e-12)


def test_covariances_use_all_complete_pairs() -> None:
    rows = {
        "x": [1.0, 3.0, None, 4.0, 6.0, 7.0],
        "y": [2.0, None, 5.0, 1.0, 2.0, None],
        "c": ["a", "a", "a", "b", "b", "b"],
    }
    model = fitted(pa.table(rows), "c", pc.Block("gaussian_shared", ["x", "y"]))
    covariance = covariances(model.parameters["gaussian_shared"])[0]
    # x: 1, 3 | 4, 6, 7; y: 2, 5 | 1, 2; both in one row of a, and in two of b.
    assert covariance[0, 0] == pytest.approx((2.0 + 14.0 / 3.0) / 5)
    assert covariance[1, 1] == pytest.approx((4.5 + 0.5) / 4)
    assert covariance[0, 1] == pytest.approx((0.0 + 1.0) / 3)


@pytest.mark.parametrize("estimator", FAMILIES)
def test_evidence_of_one_row_is_the_predictive_density_of_the_prior(estimator: str) -> None:
    one = sample(1)
    freedom, count = PRIOR["degrees_of_freedom"], PRIOR["count"]
    mean, variance = (np.array(list(PRIOR[key].values())) for key in ("mean", "variance"))
    row = matrix(one)[0]
    if estimator == "gaussian_diagonal":
        scale = (freedom - 2.0) * variance * (count + 1.0) / (count * freedom)
        expected = student.logpdf(row, freedom, mean, np.sqrt(scale)).sum()
    else:
        freedom_left = freedom - 2.0
        scale = (freedom - 4.0) * np.diag(variance) * (count + 1.0) / (count * freedom_left)
        expected = multivariate_t.logpdf(row, mean, scale, freedom_left)
    ours = evidence(one, block(estimator, conjugate_prior=PRIOR))
    assert ours == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rows", [4, 9, 13])
@pytest.mark.parametrize("estimator", FAMILIES)
def test_evidence_grows_by_student_t_of_the_next_row(estimator: str, rows: int) -> None:
    """log p(rows 1 … n+1) − log p(rows 1 … n), by Murphy 2007, sections 5 and 9."""
    table = sample(rows + 1)
    points, labels = matrix(table), np.array(table["c"])
    (before, row), own_class = np.split(points, [rows]), labels[:-1] == labels[-1]
    prior_mean, variance = (np.array(list(PRIOR[key].values())) for key in ("mean", "variance"))
    size = 1 if estimator == "gaussian_diagonal" else 3
    scatter = (PRIOR["degrees_of_freedom"] - size - 1.0) * np.diag(variance)
    freedom = PRIOR["degrees_of_freedom"] - size + 1.0
    groups = [own_class, ~own_class] if estimator == "gaussian_shared" else [own_class]
    for group in (before[each] for each in groups):
        deviation, weight = group - group.mean(axis=0), PRIOR["count"] + len(group)
        shift = group.mean(axis=0) - prior_mean
        between = PRIOR["count"] * len(group) / weight * np.outer(shift, shift)
        scatter, freedom = scatter + deviation.T @ deviation + between, freedom + len(group)
    own = before[own_class]
    count = PRIOR["count"] + len(own)
    mean = (PRIOR["count"] * prior_mean + own.sum(axis=0)) / count
    scale = scatter * (count + 1.0) / (count * freedom)
    if size == 1:
        expected = student.logpdf(row[0], freedom, mean, np.sqrt(np.diagonal(scale))).sum()
    else:
        expected = multivariate_t.logpdf(row[0], mean, scale, freedom)
    family = block(estimator, conjugate_prior=PRIOR)
    growth = evidence(table, family) - evidence(table.slice(0, rows), family)
    assert growth == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("estimator", FAMILIES)
def test_the_default_prior_has_the_pooled_moments(estimator: str) -> None:
    table = sample(21)
    points = matrix(table)
    given = {
        "count": 1.0,
        "degrees_of_freedom": 3.0 if estimator == "gaussian_diagonal" else 5.0,
        "mean": dict(zip("xyz", points.mean(axis=0).tolist(), strict=True)),
        "variance": dict(zip("xyz", points.var(axis=0).tolist(), strict=True)),
    }
    default = evidence(table, block(estimator))
    assert default == pytest.approx(evidence(table, block(estimator, conjugate_prior=given)))


@given(
    shift=st.floats(-1e3, 1e3),
    scale=st.sampled_from([1e-3, 1.0, 250.0]),
    estimator=st.sampled_from(FAMILIES),
)
def test_evidence_scales_with_the_unit(shift: float, scale: float, estimator: str) -> None:
    """Scaling a feature subtracts n log(scale); the default prior scales with it."""
    table = sample(15)
    moved = table.set_column(0, "x", pa.array(table["x"].to_numpy() * scale + shift))
    difference = evidence(table, block(estimator)) - evidence(moved, block(estimator))
    assert difference == pytest.approx(15 * math.log(scale), abs=1e-6)
