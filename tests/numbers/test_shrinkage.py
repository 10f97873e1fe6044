"""Shrinkage agrees with scikit-learn, and with its formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import covariances, fitted, table_of_matrix
from sklearn import datasets
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score

import probclass_core as pc
from probclass_core.estimation.tidy import notes_of
from probclass_core.sklearn import ProbClassifier

SETS = ["iris", "wine", "breast_cancer"]


def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, y


def normal(estimator: str, x: np.ndarray, y: np.ndarray, **options: Any) -> pa.Table:
    """The parameters of one block of all columns of x."""
    names = [f"x{position}" for position in range(x.shape[1])]
    model = fitted(table_of_matrix(x, c=y), "c", pc.Block(estimator, names, **options))
    return model.parameters[estimator]


def intensities(parameters: pa.Table) -> list[float]:
    values: list[float] = notes_of(parameters)["shrinkage"]
    return values


def centered(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows less the mean of their class."""
    return x - np.array([x[y == label].mean(axis=0) for label in np.unique(y)])[y]


@pytest.mark.parametrize("estimator", ["gaussian_full", "gaussian_shared"])
@pytest.mark.parametrize("name", SETS)
def test_covariances_are_shrunk_as_by_oas_of_standardized_rows(name: str, estimator: str) -> None:
    """Of the rows of a class, or of all rows, about the means of their classes."""
    x, y = bundled(name)
    parameters = normal(estimator, x, y, shrinkage="oas")
    for label, intensity in enumerate(intensities(parameters)):
        rows = centered(x, y)
        if estimator == "gaussian_full":
            rows = rows[y == label]
        width = rows.std(axis=0)
        expected, expected_intensity = oas(rows / width, assume_centered=True)
        assert intensity == pytest.approx(expected_intensity, rel=1e-9)
        np.testing.assert_allclose(
            covariances(parameters)[label], expected * np.outer(width, width), rtol=1e-9
        )


@pytest.mark.parametrize("intensity", [0.1, 1.0])
@pytest.mark.parametrize("name", SETS)
def test_a_number_agrees_with_linear_discriminant_analysis_on_columns_of_unit_variance(
    name: str, intensity: float
) -> None:
    """scikit-learn's target is the mean variance: 1 if columns are scaled within the classes."""
    x, y = bundled(name)
    x = x / centered(x, y).std(axis=0)
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=intensity).fit(x, y)
    ours = ProbClassifier("gaussian_shared", options={"shrinkage": intensity}).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), peer.predict_proba(x), atol=1e-8)


def test_an_intensity_of_one_leaves_independent_features() -> None:
    x, y = bundled("wine")
    full = ProbClassifier("gaussian_full", options={"shrinkage": 1}).fit(x, y)
    diagonal = ProbClassifier("gaussian_diagonal", options={"variance_floor": 0}).fit(x, y)
    np.testing.assert_allclose(
        full.predict_joint_log_proba(x), diagonal.predict_joint_log_proba(x), rtol=1e-9
    )


def test_many_small_classes_keep_the_correlations_that_they_share() -> None:
    """Fifty classes of eight rows have one covariance of 400 rows, not fifty of eight."""
    random = np.random.default_rng(0)
    mixing, y = random.normal(size=(5, 5)), np.repeat(np.arange(50), 8)
    x = 1.5 * random.normal(size=(50, 5))[y] + 0.5 * random.normal(size=(400, 5)) @ mixing
    ours = ProbClassifier("gaussian_shared", options={"shrinkage": "oas"})
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    our_loss, peer_loss = (
        -cross_val_score(each, x, y, cv=4, scoring="neg_log_loss").mean() for each in (ours, peer)
    )
    assert our_loss < 0.6 * peer_loss


@pytest.mark.parametrize("estimator", ["gaussian_full", "gaussian_shared"])
def test_the_intensity_does_not_depend_on_units_or_offsets(estimator: str) -> None:
    x, y = bundled("iris")
    shifted = x * [1e-6, 1.0, 1e3, 1e9] + [7.0, 1e5, -1e6, 1e10]
    before, after = (
        intensities(normal(estimator, rows, y, shrinkage="oas")) for rows in (x, shifted)
    )
    assert after == pytest.approx(before, rel=1e-5)


def test_with_nulls_each_pair_counts_the_rows_that_have_both() -> None:
    """The formula of the module, pair by pair."""
    x, y = bundled("iris")
    random = np.random.default_rng(4)
    x = np.where(random.random(x.shape) < 0.2, np.nan, x)
    parameters = normal("gaussian_full", x, y, shrinkage="oas")
    for label, intensity in enumerate(intensities(parameters)):
        rows = x[y == label]
        width = np.nanstd(rows, axis=0)
        chance = distance = 0.0
        for i in range(4):
            for j in range(4):
                pair = rows[:, [i, j]]
                pair = pair[~np.isnan(pair).any(axis=1)]
                product = ((pair - pair.mean(axis=0)) / width[[i, j]]).prod(axis=1).mean()
                chance += (product**2 + 1.0) / (len(pair) + 1)
                distance += (product - (i == j)) ** 2
        assert intensity == pytest.approx(min(chance / distance, 1.0), rel=1e-9)


def test_constant_and_single_columns_need_no_shrinkage() -> None:
    x, y = bundled("iris")
    constant = np.column_stack([x, np.full(len(y), 0.1)])
    with_constant, without = (
        normal("gaussian_full", rows, y, shrinkage="oas") for rows in (constant, x)
    )
    assert intensities(with_constant) == pytest.approx(intensities(without), rel=1e-9)
    assert intensities(normal("gaussian_full", x[:, :1], y, shrinkage="oas")) == [0.0] * 3


def test_a_class_without_a_column_is_shrunk_as_well() -> None:
    x, y = bundled("iris")
    x = np.where((y == 1)[:, None] & (np.arange(4) == 2), np.nan, x)
    parameters = normal("gaussian_full", x, y, shrinkage="oas")
    assert (np.linalg.eigvalsh(covariances(parameters)) > 0.0).all()
