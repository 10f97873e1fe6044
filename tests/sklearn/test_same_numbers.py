"""ProbClassifier agrees with scikit-learn's classifiers, and partial fits with one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import datasets
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.preprocessing import OrdinalEncoder

from probclass_core.sklearn import ProbClassifier


def same_logs(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


def test_methods_agree_with_those_of_gaussian_nb() -> None:
    """Other estimators are compared in tests/numbers: the model is that of `probclass_core.fit`."""
    X, y = datasets.load_wine(return_X_y=True)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    peer = GaussianNB(var_smoothing=0.0).fit(X, y, sample_weight=weight)
    ours = ProbClassifier("gaussian_diagonal", options={"variance_floor": 0}).fit(X, y, weight)
    same_logs(ours.predict_joint_log_proba(X), peer.predict_joint_log_proba(X))
    same_logs(ours.predict_log_proba(X), peer.predict_log_proba(X))
    assert ours.predict(X).tolist() == peer.predict(X).tolist()
    assert ours.score(X, y) == peer.score(X, y)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_codes_agree_with_categorical_nb(penguins: pa.Table, dtype: type) -> None:
    table = penguins.drop_null().to_pandas()
    codes = OrdinalEncoder(dtype=dtype).fit_transform(table[["island", "sex"]])
    peer = CategoricalNB(alpha=0.3).fit(codes, table["species"])
    ours = ProbClassifier("categorical", options={"pseudo_count": 0.3})
    ours.fit(codes, table["species"])
    same_logs(ours.predict_joint_log_proba(codes), peer.predict_joint_log_proba(codes))


def test_evidence_is_the_sum_over_classes_of_the_joint(X: pd.DataFrame, y: pd.Series) -> None:
    ours = ProbClassifier("auto").fit(X, y)
    joint = ours.predict_joint_log_proba(X)
    same_logs(ours.score_samples(X), np.logaddexp.reduce(joint, axis=1))
    same_logs(ours.predict_log_proba(X), joint - ours.score_samples(X)[:, None])
    np.testing.assert_allclose(ours.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)


def test_blocks_derived_from_types_do_not_depend_on_the_batches(
    X: pd.DataFrame, y: pd.Series
) -> None:
    in_batches = ProbClassifier()
    for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 5):
        in_batches.partial_fit(X.iloc[rows], y.iloc[rows], classes=y.unique())
    at_once = ProbClassifier().partial_fit(X, y)
    assert in_batches.model_.id == at_once.model_.id
    assert at_once.model_.block_weights is not None
    assert at_once.score(X, y) > 0.95


def days_of_a_growing_meter(days: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A counter that grows by a million per day, and a feature that distinguishes the classes."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(days), 50)
    y = rng.integers(0, 2, len(day))
    counter = 1e6 * day + rng.normal(0.0, 1.0, len(day))
    return np.column_stack([counter, y + rng.normal(0.0, 0.3, len(day))]), y, day


@pytest.mark.parametrize("estimator", ["gaussian_diagonal", "gaussian_full", "knn_density"])
def test_a_hundred_partial_fits_equal_one_fit(estimator: str) -> None:
    X, y, day = days_of_a_growing_meter(100)
    partial = ProbClassifier(estimator)
    for part in range(100):
        partial.partial_fit(X[day == part], y[day == part], classes=[0, 1])
    single_fit = ProbClassifier(estimator).fit(X, y)
    np.testing.assert_allclose(
        partial.predict_joint_log_proba(X), single_fit.predict_joint_log_proba(X), rtol=1e-9
    )
    assert partial.predict(X).tolist() == single_fit.predict(X).tolist()
    assert single_fit.score(X, y) > 0.95


def test_partial_fits_of_a_mixed_frame_equal_one_fit(X: pd.DataFrame, y: pd.Series) -> None:
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    partial = ProbClassifier("auto")
    for rows in np.array_split(np.random.default_rng(3).permutation(len(X)), 20):
        partial.partial_fit(X.iloc[rows], y.iloc[rows], y.unique(), sample_weight=weight[rows])
    repeated = np.repeat(X.index, weight)
    single_fit = ProbClassifier("auto").fit(X.loc[repeated], y.loc[repeated])
    same_logs(partial.predict_log_proba(X), single_fit.predict_log_proba(X))
    assert partial.statistics_.rows == len(X)
