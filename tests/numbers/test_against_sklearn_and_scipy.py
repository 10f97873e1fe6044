"""Agreement with scikit-learn and scipy on the same rows, where definitions agree.

Parameters to 1e-9 relative, log-posteriors to 1e-7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from model_values import covariance, fitted
from naive import naive_spec
from sklearn import datasets
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
    def names(self) -> list[str]:
        return [f"x{position}" for position in range(self.x.shape[1])]

    @property
    def table(self) -> pa.Table:
        columns = dict(zip(self.names, np.ascontiguousarray(self.x.T), strict=True))
        return pa.table({**columns, "y": self.y})

    def halves(self) -> tuple[Sample, Sample]:
        """The even rows and the odd rows."""
        return Sample(self.x[::2], self.y[::2]), Sample(self.x[1::2], self.y[1::2])


def bundled(name: str) -> Sample:
    return Sample(*getattr(datasets, f"load_{name}")(return_X_y=True))


def complete_rows(table: pa.Table) -> pa.Table:
    """The rows without nulls, which scikit-learn requires."""
    return table.drop_null()


def body(penguins: pa.Table) -> Sample:
    complete = complete_rows(penguins).to_pandas()
    return Sample(complete[BODY].to_numpy(), complete["species"].to_numpy(str))


def numbers_of_adult(part: pa.Table) -> Sample:
    complete = complete_rows(part).to_pandas()
    numeric = complete.select_dtypes("number")
    return Sample(numeric.to_numpy(np.float64), complete["income"].to_numpy(str))


def with_spread(x: np.ndarray, y: np.ndarray) -> Sample:
    """The features that vary in every class: digits have pixels that do not."""
    spread = [x[y == label].std(axis=0) > 0.0 for label in np.unique(y)]
    return Sample(x[:, np.all(spread, axis=0)], y)


@pytest.fixture(scope="module", params=["wine", "digits", "penguins"])
def spread_sample(request: pytest.FixtureRequest) -> Sample:
    """Numeric columns with a spread in every class."""
    if request.param == "penguins":
        return body(request.getfixturevalue("penguins"))
    sample = bundled(request.param)
    return with_spread(sample.x, sample.y)


@pytest.fixture(
    scope="module", params=["iris", "wine", "breast_cancer", "digits", "penguins", "adult"]
)
def full_rank_sample(request: pytest.FixtureRequest) -> Sample:
    """Numeric columns of full rank in every class; for digits, sums over squares of four pixels."""
    if request.param == "penguins":
        return body(request.getfixturevalue("penguins"))
    if request.param == "adult":
        return numbers_of_adult(request.getfixturevalue("adult")[0])
    sample = bundled(request.param)
    if request.param == "digits":
        squares = sample.x.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4))
        return with_spread(squares.reshape(-1, 16), sample.y)
    return sample


def same_naive_normals(sample: Sample, other: Sample) -> None:
    peer = GaussianNB(var_smoothing=0.0).fit(sample.x, sample.y)
    block = pc.Block("gaussian_diagonal", sample.names, variance_floor=0.0)
    model = fitted(sample.table, "y", block)
    parameters = model.parameters["gaussian_diagonal"]
    shape = peer.theta_.shape
    assert model.classes.to_pylist() == peer.classes_.tolist()
    same_parameters(model.priors["prior"], peer.class_prior_)
    same_parameters(parameters["mean"].to_numpy().reshape(shape), peer.theta_)
    same_parameters(parameters["variance"].to_numpy().reshape(shape), peer.var_)
    same_logs(model.joint_log_likelihood(other.table), peer.predict_joint_log_proba(other.x))
    same_logs(model.predict_log_proba(other.table), peer.predict_log_proba(other.x))
    assert model.predict(other.table).to_pylist() == peer.predict(other.x).tolist()


def test_gaussian_diagonal_agrees_with_gaussian_nb(spread_sample: Sample) -> None:
    same_naive_normals(spread_sample, spread_sample)


def test_weighted_gaussian_diagonal_agrees_with_gaussian_nb(spread_sample: Sample) -> None:
    weights = 0.25 + np.arange(len(spread_sample.y)) % 7
    peer = GaussianNB(var_smoothing=0.0).fit(
        spread_sample.x, spread_sample.y, sample_weight=weights
    )
    table = spread_sample.table.append_column("w", pa.array(weights))
    block = pc.Block("gaussian_diagonal", spread_sample.names, variance_floor=0.0)
    model = fitted(table, "y", block, weight="w")
    parameters = model.parameters["gaussian_diagonal"]
    same_parameters(model.priors["prior"], peer.class_prior_)
    same_parameters(parameters["mean"], peer.theta_.ravel())
    same_parameters(parameters["variance"], peer.var_.ravel())
    same_logs(model.predict_log_proba(table), peer.predict_log_proba(spread_sample.x))


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
    full_rank_sample: Sample, ddof: int
) -> None:
    peer = PEERS[ddof].fit(full_rank_sample.x, full_rank_sample.y)
    model = fitted(
        full_rank_sample.table, "y", pc.Block("gaussian_full", full_rank_sample.names, ddof=ddof)
    )
    same_parameters(model.priors["prior"], peer.priors_)
    same_parameters(model.parameters["gaussian_full"]["mean"].to_pylist(), peer.means_)
    for position, label in enumerate(model.classes.to_pylist()):
        ours, theirs = covariance(model, label), peer.covariance_[position]
        scale = np.sqrt(np.outer(np.diag(theirs), np.diag(theirs)))
        # Covariances near 0 have no relative precision: compare on the scale of the features.
        np.testing.assert_allclose(ours / scale, theirs / scale, rtol=1e-9, atol=1e-9)
    same_logs(
        model.predict_log_proba(full_rank_sample.table), peer.predict_log_proba(full_rank_sample.x)
    )
    assert (
        model.predict(full_rank_sample.table).to_pylist()
        == peer.predict(full_rank_sample.x).tolist()
    )


def same_categories(
    table: pa.Table,
    columns: list[str],
    label: str,
    peer: CategoricalNB,
    other: pa.Table,
    **options: Any,
) -> None:
    encoder = OrdinalEncoder(dtype=np.int64).fit(_frame(table, columns))
    peer.fit(encoder.transform(_frame(table, columns)), table[label].to_pylist())
    model = fitted(table, label, pc.Block("categorical", columns, **options))
    parameters = model.parameters["categorical"]
    for column, theirs in zip(columns, peer.feature_log_prob_, strict=True):
        ours = parameters.filter(compute.field("feature") == column)["log_probability"]
        same_parameters(np.exp(ours.to_numpy().reshape(theirs.shape)), np.exp(theirs))
    x = encoder.transform(_frame(other, columns))
    same_logs(model.joint_log_likelihood(other), peer.predict_joint_log_proba(x))
    same_logs(model.predict_log_proba(other), peer.predict_log_proba(x))


def _frame(table: pa.Table, columns: list[str]) -> pd.DataFrame:
    return table.select(columns).to_pandas().astype(str)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_categorical_agrees_with_categorical_nb_on_penguins(
    penguins: pa.Table, alpha: float
) -> None:
    table = complete_rows(penguins)
    peer = CategoricalNB(alpha=alpha)
    same_categories(table, ["island", "sex"], "species", peer, table, pseudo_count=alpha)


def test_a_domain_agrees_with_min_categories_of_categorical_nb() -> None:
    """Pixels have values from 0 to 16, and many pixels lack some of them."""
    digits = bundled("digits")
    x = digits.x.astype(np.int64)
    peer = CategoricalNB(min_categories=17).fit(x, digits.y)
    table = Sample(x, digits.y).table
    domain = {name: list(range(17)) for name in digits.names}
    model = fitted(table, "y", pc.Block("categorical", digits.names, domain=domain))
    theirs = np.concatenate([np.exp(logs).ravel() for logs in peer.feature_log_prob_])
    same_parameters(np.exp(model.parameters["categorical"]["log_probability"]), theirs)
    same_logs(model.predict_log_proba(table), peer.predict_log_proba(x))


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
    train, test = bundled(name).halves()
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


def same_mixture(
    train: pa.Table, label: str, numeric: list[str], categorical: list[str], test: pa.Table
) -> None:
    """log p(x, c) of naive normals plus that of categories, minus the prior that both include."""
    encoder = OrdinalEncoder(dtype=np.int64).fit(_frame(train, categorical))
    y = train[label].to_pylist()
    normals = GaussianNB(var_smoothing=0.0).fit(train.select(numeric).to_pandas().to_numpy(), y)
    categories = CategoricalNB().fit(encoder.transform(_frame(train, categorical)), y)
    theirs = (
        normals.predict_joint_log_proba(test.select(numeric).to_pandas().to_numpy())
        + categories.predict_joint_log_proba(encoder.transform(_frame(test, categorical)))
        - np.log(normals.class_prior_)
    )
    model = fitted(
        train,
        label,
        pc.Block("gaussian_diagonal", numeric, variance_floor=0.0),
        pc.Block("categorical", categorical),
    )
    same_logs(model.joint_log_likelihood(test), theirs)
    evidence = np.logaddexp.reduce(theirs, axis=1)
    same_logs(model.score_samples(test), evidence)
    same_logs(model.predict_log_proba(test), theirs - evidence[:, None])


def test_mixed_blocks_agree_with_gaussian_nb_times_categorical_nb_on_adult(
    adult: tuple[pa.Table, pa.Table],
) -> None:
    train, test = map(complete_rows, adult)
    spec = naive_spec(train.schema, "income")
    numeric, categorical = (list(block.columns) for block in spec.blocks)
    same_mixture(train, "income", numeric, categorical, test)
