"""Sparse matrices of counts give the same model as dense ones, and are never made dense."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import probclass_core as pc
from probclass_core.arrow.sparse_counts import counts_column
from probclass_core.errors import DataError, SpecError
from probclass_core.sklearn import ProbClassifier

ESTIMATORS = ["bernoulli", "multinomial", "poisson"]


@pytest.fixture(scope="module")
def y() -> np.ndarray:
    return np.arange(60) % 3


@pytest.fixture(scope="module")
def X(y: np.ndarray) -> sparse.csr_array:
    """Counts of 12 columns; one column has none."""
    random = np.random.default_rng(0)
    rates = random.gamma(0.3, size=(3, 12))
    rates[:, 7] = 0.0
    return sparse.csr_array(random.poisson(rates[y]).astype(float))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sparse_and_dense_rows_give_the_same_densities(
    X: sparse.csr_array, y: np.ndarray, estimator: str
) -> None:
    options = {"pseudo_count": 0.3}
    of_sparse = ProbClassifier(estimator, options=options).fit(X, y)
    of_dense = ProbClassifier(estimator, options=options).fit(X.toarray(), y)
    expected = of_dense.predict_joint_log_proba(X.toarray())
    for rows in (X, X.toarray(), X.toarray().astype(int)):
        np.testing.assert_allclose(of_sparse.predict_joint_log_proba(rows), expected, rtol=1e-12)
    density = of_dense.score_samples(X.toarray())
    np.testing.assert_allclose(of_sparse.score_samples(X), density, rtol=1e-12)
    assert of_sparse.n_features_in_ == 12


def test_every_format_and_type_is_the_same_matrix(X: sparse.csr_array, y: np.ndarray) -> None:
    expected = ProbClassifier("multinomial").fit(X, y)
    formats = [X.asformat(kind) for kind in ("csc", "coo", "lil", "dia")]
    types = [X.astype(dtype) for dtype in (np.float32, np.int32, np.uint8)]
    for matrix in (*formats, *types, sparse.csr_matrix(X), sparse.coo_matrix(X)):
        ours = ProbClassifier("multinomial").fit(matrix, y)
        assert ours.model_.id == expected.model_.id
        np.testing.assert_array_equal(ours.predict_proba(matrix), expected.predict_proba(X))


def test_duplicates_add_up_and_stored_zeros_do_not_count() -> None:
    rows, columns, values = [0, 0, 1, 1], [0, 0, 1, 0], [1.0, 2.0, 1.0, 0.0]
    matrix = sparse.coo_array((values, (rows, columns)), shape=(2, 2))
    ours = ProbClassifier("poisson").fit(matrix, [0, 1])
    expected = ProbClassifier("poisson").fit([[3, 0], [0, 1]], [0, 1])
    np.testing.assert_allclose(
        ours.predict_joint_log_proba(matrix), expected.predict_joint_log_proba([[3, 0], [0, 1]])
    )
    assert matrix.data.tolist() == values, "the matrix is not modified"


def test_texts_are_vectorized_in_a_pipeline() -> None:
    texts = ["red apple", "green apple", "green pear", "fast car", "red car", "slow fast bus"] * 5
    labels = ["fruit"] * 3 + ["traffic"] * 3
    pipeline = make_pipeline(CountVectorizer(), ProbClassifier("multinomial"))
    assert cross_val_score(pipeline, texts, labels * 5, error_score="raise").mean() == 1.0
    copied = pickle.loads(pickle.dumps(clone(pipeline).fit(texts, labels * 5)))
    assert copied.predict(["green bus bus"]).tolist() == ["traffic"]


def test_a_wide_matrix_is_not_made_dense(y: np.ndarray) -> None:
    """Dense, it would take 240 GB."""
    wide = sparse.csr_array((np.ones(60), (np.arange(60), np.arange(60) % 3)), shape=(60, 200_000))
    ours = ProbClassifier("multinomial").fit(wide, y)
    assert ours.score(wide, y) == 1.0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_column_of_counts_is_fitted_like_any_column(
    X: sparse.csr_array, y: np.ndarray, estimator: str
) -> None:
    terms = [f"term {position}" for position in range(12)]
    table = pa.table({"words": counts_column(X, terms), "label": y})
    block = pc.Block(estimator, ["words"], vocabulary=terms)
    model = pc.fit(table, pc.ModelSpec(label="label", blocks=[block]))
    expected = ProbClassifier(estimator).fit(X, y).predict_log_proba(X)
    np.testing.assert_allclose(model.predict_log_proba(table), expected, rtol=1e-12)


def test_a_column_of_counts_has_a_map_per_row() -> None:
    matrix = sparse.csc_array(np.array([[0, 2.5], [0, 0], [1, 3]]))
    column = counts_column(matrix, np.array(["a", "b"], dtype=object))
    assert column.to_pylist() == [[("b", 2.5)], [], [("a", 1.0), ("b", 3.0)]]
    assert counts_column(matrix[:0], ["a", "b"]).to_pylist() == []


@pytest.mark.parametrize(
    "estimator", ["auto", "gaussian_diagonal", "categorical", {"multinomial": ["x0"]}]
)
def test_other_estimators_refuse_sparse_rows(
    X: sparse.csr_array, y: np.ndarray, estimator: Any
) -> None:
    with pytest.raises(SpecError, match=r"a sparse X has counts for .* estimator is .*toarray"):
        ProbClassifier(estimator).fit(X, y)


def test_a_classifier_of_columns_refuses_sparse_rows(X: sparse.csr_array, y: np.ndarray) -> None:
    of_dense = ProbClassifier("multinomial").fit(X.toarray(), y)
    with pytest.raises(DataError, match="X is sparse, but the classifier was fitted on columns"):
        of_dense.predict(X)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, "column 'counts' contains 1 count below 0, such as -1"),
        (np.nan, "Input X contains NaN"),
        (np.inf, "Input X contains infinity"),
        (2.0**60, "1 count above 2⁵³"),
    ],
)
def test_numbers_that_are_no_counts_are_refused(
    X: sparse.csr_array, y: np.ndarray, value: float, message: str
) -> None:
    damaged = X.copy()
    damaged.data[3] = value
    with pytest.raises(ValueError, match=message):
        ProbClassifier("multinomial").fit(damaged, y)
