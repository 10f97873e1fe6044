"""Agreement with scikit-learn on the same rows, where definitions agree.

Parameters to 1e-9 relative, log-posteriors to 1e-7. Then cases beyond scikit-learn: nulls, unseen
categories, chunks, and published values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from model_values import covariance, fitted, table_of_matrix
from sklearn import datasets
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import OrdinalEncoder

import probclass_core as pc

BODY = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def same_parameters(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=0.0)


def same_logs(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


@dataclass(frozen=True)
class Sample:
    """Rows as a matrix and labels for scikit-learn, and as a table with a column ``y``."""

    x: np.ndarray
    y: np.ndarray

    @property
    def table(self) -> pa.Table:
        return table_of_matrix(self.x, y=self.y)

    @property
    def names(self) -> list[str]:
        return list(self.table.column_names[:-1])


@pytest.fixture(scope="module", params=["iris", "wine", "breast_cancer", "digits", "penguins"])
def sample(request: pytest.FixtureRequest) -> Sample:
    """Numeric columns of full rank in every class; for digits, sums over squares of four pixels."""
    if request.param == "penguins":
        complete = request.getfixturevalue("penguins").drop_null().to_pandas()
        return Sample(complete[BODY].to_numpy(), complete["species"].to_numpy(str))
    x, y = getattr(datasets, f"load_{request.param}")(return_X_y=True)
    if request.param == "digits":
        x = x.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(-1, 16)
        spread = [x[y == label].std(axis=0) > 0.0 for label in np.unique(y)]
        x = x[:, np.all(spread, axis=0)]
    return Sample(x, y)


@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_diagonal_agrees_with_gaussian_nb(sample: Sample, weighted: bool) -> None:
    weights = 0.25 + np.arange(len(sample.y)) % 7 if weighted else np.ones(len(sample.y))
    peer = GaussianNB(var_smoothing=0.0).fit(sample.x, sample.y, sample_weight=weights)
    table = sample.table.append_column("w", pa.array(weights))
    block = pc.Block("gaussian_diagonal", sample.names, variance_floor=0.0)
    model = fitted(table, "y", block, weight="w")
    parameters = model.parameters["gaussian_diagonal"]
    assert model.classes.to_pylist() == peer.classes_.tolist()
    same_parameters(model.priors["prior"], peer.class_prior_)
    same_parameters(parameters["mean"], peer.theta_.ravel())
    same_parameters(parameters["variance"], peer.var_.ravel())
    same_logs(model.joint_log_likelihood(table), peer.predict_joint_log_proba(sample.x))
    assert model.predict(table).to_pylist() == peer.predict(sample.x).tolist()


class Unbiased:
    """A covariance estimator that divides by n − 1, with scikit-learn's interface."""

    def fit(self, x: np.ndarray) -> Unbiased:
        self.covariance_ = np.cov(x.T, ddof=1)
        return self


PEERS = {
    # Since scikit-learn 1.9 its own covariance divides by n.
    0: QuadraticDiscriminantAnalysis(store_covariance=True, tol=0.0),
    1: QuadraticDiscriminantAnalysis(
        solver="eigen", covariance_estimator=Unbiased(), store_covariance=True, tol=0.0
    ),
}


@pytest.mark.parametrize("ddof", PEERS)
def test_gaussian_full_agrees_with_quadratic_discriminant_analysis(
    sample: Sample, ddof: int
) -> None:
    peer = PEERS[ddof].fit(sample.x, sample.y)
    model = fitted(sample.table, "y", pc.Block("gaussian_full", sample.names, ddof=ddof))
    same_parameters(model.priors["prior"], peer.priors_)
    same_parameters(model.parameters["gaussian_full"]["mean"].to_pylist(), peer.means_)
    for position, label in enumerate(model.classes.to_pylist()):
        ours, theirs = covariance(model, label), peer.covariance_[position]
        scale = np.sqrt(np.outer(np.diag(theirs), np.diag(theirs)))
        # Covariances near 0 have no relative precision: compare on the scale of the features.
        np.testing.assert_allclose(ours / scale, theirs / scale, rtol=1e-9, atol=1e-9)
    same_logs(model.predict_log_proba(sample.table), peer.predict_log_proba(sample.x))
    assert model.predict(sample.table).to_pylist() == peer.predict(sample.x).tolist()


def as_text(table: pa.Table, columns: list[str]) -> pd.DataFrame:
    return table.select(columns).to_pandas().astype(str)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_categorical_agrees_with_categorical_nb(penguins: pa.Table, alpha: float) -> None:
    table, columns = penguins.drop_null(), ["island", "sex"]
    codes = OrdinalEncoder(dtype=np.int64).fit_transform(as_text(table, columns))
    peer = CategoricalNB(alpha=alpha).fit(codes, table["species"].to_pylist())
    model = fitted(table, "species", pc.Block("categorical", columns, pseudo_count=alpha))
    parameters = model.parameters["categorical"]
    for column, theirs in zip(columns, peer.feature_log_prob_, strict=True):
        ours = parameters.filter(compute.field("feature") == column)["log_probability"]
        same_parameters(np.exp(ours.to_numpy().reshape(theirs.shape)), np.exp(theirs))
    same_logs(model.joint_log_likelihood(table), peer.predict_joint_log_proba(codes))


@pytest.mark.parametrize("name", ["iris", "breast_cancer"])
@pytest.mark.parametrize(
    ("metric", "p"),
    [
        ("euclidean", 2),
        ("manhattan", 2),
        ("chebyshev", 2),
        ("minkowski", 3),
        ("canberra", 2),
        ("braycurtis", 2),
    ],
)
def test_knn_density_agrees_with_k_neighbors_classifier_without_ties(
    name: str, metric: str, p: int
) -> None:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    train, test = Sample(x[::2], y[::2]), Sample(x[1::2], y[1::2])
    k = 7
    peer = KNeighborsClassifier(k, metric=metric, p=p, algorithm="brute").fit(train.x, train.y)
    distance, _ = peer.kneighbors(test.x, n_neighbors=k + 1)
    without_tie = distance[:, k] > distance[:, k - 1] * (1.0 + 1e-9)
    assert without_tie.sum() > 20
    block = pc.Block("knn_density", train.names, k=k, metric=metric, p=p)
    ours = fitted(train.table, "y", block).predict_proba(test.table)
    np.testing.assert_allclose(
        ours[without_tie], peer.predict_proba(test.x)[without_tie], atol=1e-12
    )


def test_the_variance_floor_is_relative_to_each_feature() -> None:
    """One feature distinguishes the classes by its spread; the other is heavy-tailed and has the
    same values in both classes. Smoothing by the largest variance hides the first one."""
    random = np.random.default_rng(18)
    noise = np.repeat(random.standard_t(1, 2000) * 1e3, 2)
    y = np.tile([0, 1], 2000)
    x = np.column_stack([random.normal(0.0, np.where(y == 0, 0.01, 0.05)), noise])
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})

    def accuracy(columns: list[str]) -> float:
        model = fitted(table, "y", pc.Block("gaussian_diagonal", columns))
        return pc.evaluate(model, table).accuracy

    assert accuracy(["a", "b"]) == accuracy(["a"]) > 0.8
    assert GaussianNB().fit(x, y).score(x, y) < 0.55
    assert GaussianNB(var_smoothing=0.0).fit(x, y).score(x, y) == accuracy(["a", "b"])


def test_a_class_that_is_constant_by_chance_has_no_spike() -> None:
    """Many pixels of handwritten digits are 0 in all training rows of some class."""
    images, digits = load_digits(return_X_y=True)
    names: list[Any] = [f"pixel_{number}" for number in range(64)]
    table = pa.table([*images.T, digits], names=[*names, "y"])
    half = len(digits) // 2
    train, test = table.slice(0, half), table.slice(half)
    blocks = [pc.Block("gaussian_diagonal", names, **o) for o in ({}, {"variance_floor": 1e-9})]
    accuracy, with_spikes = (
        pc.evaluate(fitted(train, "y", block), test).accuracy for block in blocks
    )
    peer = GaussianNB().fit(images[:half], digits[:half]).score(images[half:], digits[half:])
    assert with_spikes < peer < accuracy - 0.02


def test_many_narrow_classes_far_apart_are_not_widened_by_the_floor() -> None:
    """The floor follows the variance within the classes, not that over all classes."""
    random = np.random.default_rng(5)
    y = np.repeat(np.arange(1000), 5)
    table = pa.table({"x": y + random.normal(0.0, 0.05, len(y)), "y": y})
    model = fitted(table, "y", pc.Block("gaussian_diagonal", ["x"]))
    assert pc.evaluate(model, table).accuracy > 0.99
