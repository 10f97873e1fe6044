"""ProbClassifier agrees with scikit-learn's classifiers, and partial fits with one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.naive_bayes import GaussianNB

from probclass_core.sklearn import ProbClassifier


def same_logs(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


def test_methods_agree_with_those_of_gaussian_nb() -> None:
    """Other estimators are compared in tests/numbers: the model is that of `probclass_core.fit`."""
    X, y = datasets.load_wine(return_X_y=True)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    peer = GaussianNB(var_smoothing=0.0).fit(X, y, sample_weight=weight)
    ours = ProbClassifier("gaussian_diagonal", options={"variance_floor": 0}).fit(X, y, weight)
    joint = peer.predict_joint_log_proba(X)
    same_logs(ours.predict_joint_log_proba(X), joint)
    same_logs(ours.score_samples(X), np.logaddexp.reduce(joint, axis=1))
    same_logs(ours.predict_log_proba(X), peer.predict_log_proba(X))
    assert ours.predict(X).tolist() == peer.predict(X).tolist()
    assert ours.score(X, y) == peer.score(X, y)


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


def test_partial_fits_of_a_mixed_frame_equal_one_fit(X: pd.DataFrame, y: pd.Series) -> None:
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    partial = ProbClassifier("auto")
    for rows in np.array_split(np.random.default_rng(3).permutation(len(X)), 20):
        partial.partial_fit(X.iloc[rows], y.iloc[rows], y.unique(), sample_weight=weight[rows])
    repeated = np.repeat(X.index, weight)
    single_fit = ProbClassifier("auto").fit(X.loc[repeated], y.loc[repeated])
    same_logs(partial.predict_log_proba(X), single_fit.predict_log_proba(X))
    assert partial.statistics_.rows == len(X)
