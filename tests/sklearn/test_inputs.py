"""Accepted forms of X and y, the type of results, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import OrdinalEncoder

from probclass_core.errors import DataError, PluginError, SpecError
from probclass_core.sklearn import ProbClassifier

BODY = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
SPECIES = ["Adelie", "Chinstrap", "Gentoo"]
AUTO = {"estimator": "auto"}


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (SPECIES, SPECIES),
        (np.array(SPECIES, dtype=object), SPECIES),
        (pd.Series(SPECIES, dtype="category"), SPECIES),
        (pd.Series(SPECIES, dtype="string"), SPECIES),
        (pl.Series(SPECIES), SPECIES),
        (pa.chunked_array([SPECIES[:1], SPECIES[1:]]), SPECIES),
        ([-1, 3, 10], ["-1", "3", "10"]),
        (np.array([0, 1, 2], dtype=np.uint8), ["0", "1", "2"]),
        ([1.0, 2.0, 10.0], ["1", "2", "10"]),
        ([True, False], ["false", "true"]),
    ],
)
def test_labels_are_returned_unchanged(labels: Any, names: list[str]) -> None:
    x = np.arange(len(labels), dtype=float)[:, None]
    fitted = ProbClassifier("gaussian_diagonal").fit(x, labels)
    assert fitted.classes_.tolist() == sorted(np.asarray(labels).tolist())
    assert fitted.predict(x).tolist() == np.asarray(labels).tolist()
    assert fitted.predict(x).dtype == fitted.classes_.dtype
    assert fitted.model_.class_names == names


def test_the_model_has_the_names_of_label_and_columns(X: pd.DataFrame, y: pd.Series) -> None:
    fitted = ProbClassifier("auto").fit(X, y)
    assert fitted.feature_names_in_.tolist() == X.columns.tolist()
    assert fitted.model_.spec.label == "species"
    assert set(fitted.model_.features.names) == set(X.columns)
    assert fitted.model_.predict(X).to_pylist() == fitted.predict(X).tolist()
    nameless = ProbClassifier().fit(X.rename(columns={"sex": "y"}), y.tolist())
    assert nameless.model_.spec.label == "y_", "a feature is called y"


def test_columns_are_identified_by_position(X: pd.DataFrame, y: pd.Series) -> None:
    fitted = ProbClassifier("gaussian_diagonal").fit(X[BODY], y)
    expected = fitted.predict_log_proba(X[BODY])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(fitted.predict_log_proba(X[BODY].to_numpy()), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(X[BODY[::-1]])
    numbered = X[BODY].set_axis(range(4), axis=1).set_index(np.arange(len(X))[::-1])
    unnamed = ProbClassifier("gaussian_diagonal").fit(numbered, y)
    assert not hasattr(unnamed, "feature_names_in_")
    assert unnamed.model_.features.names == ["x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal(unnamed.predict_log_proba(X[BODY].to_numpy()), expected)


def test_a_block_names_the_columns_of_an_array(X: pd.DataFrame, y: pd.Series) -> None:
    matrix = X.to_numpy()  # an array of objects: text and numbers
    by_place = ProbClassifier({"gaussian_full": ["x1", "x2"], "categorical": "x5"}).fit(matrix, y)
    by_name = ProbClassifier({"gaussian_full": BODY[:2], "categorical": "sex"}).fit(X, y)
    expected = by_name.predict_log_proba(X)
    np.testing.assert_array_equal(by_place.predict_log_proba(matrix), expected)


def test_all_float_types_give_the_same_posterior(X: pd.DataFrame, y: pd.Series) -> None:
    rounded = X[BODY].round()  # exact in half precision up to 2048
    rounded["body_mass_g"] //= 100.0
    expected = ProbClassifier("fast").fit(rounded, y).predict_log_proba(rounded)
    arrays = ("float32", "float16", "longdouble", "object")
    for rows in (rounded.astype("Float64"), *(rounded.astype(kind).to_numpy() for kind in arrays)):
        logs = ProbClassifier("fast").fit(rows, y).predict_log_proba(rows)
        np.testing.assert_allclose(logs, expected)


def test_codes_with_gaps_are_categories(X: pd.DataFrame, y: pd.Series) -> None:
    """An encoder returns floats, with NaN for missing values."""
    codes = OrdinalEncoder().fit_transform(X[["island", "sex"]])
    assert np.isnan(codes).any()
    on_codes = ProbClassifier("categorical").fit(codes, y)
    on_text = ProbClassifier("categorical").fit(X[["island", "sex"]], y)
    np.testing.assert_allclose(
        on_codes.predict_log_proba(codes), on_text.predict_log_proba(X[["island", "sex"]])
    )


def test_a_declared_class_without_rows_has_probability_0(X: pd.DataFrame, y: pd.Series) -> None:
    known = (y != "Chinstrap").to_numpy()
    fitted = ProbClassifier("auto").partial_fit(X[known], y[known], classes=SPECIES)
    assert fitted.classes_.tolist() == SPECIES
    probability = fitted.predict_proba(X)
    assert probability[:, 1].tolist() == [0.0] * len(X)
    assert np.isneginf(fitted.predict_joint_log_proba(X)[:, 1]).all()
    without = ProbClassifier("auto").fit(X[known], y[known])
    np.testing.assert_array_equal(probability[:, [0, 2]], without.predict_proba(X))
    rounded = fitted.partial_fit(X[~known], y[~known]).predict_log_proba(X)
    expected = ProbClassifier("auto").fit(X, y).predict_log_proba(X)
    np.testing.assert_allclose(rounded, expected, rtol=1e-9)


def test_a_class_whose_weights_are_0_has_probability_0(X: pd.DataFrame, y: pd.Series) -> None:
    fitted = ProbClassifier().fit(X, y, sample_weight=(y != "Gentoo").astype(float))
    assert fitted.classes_.tolist() == SPECIES
    assert fitted.predict_proba(X)[:, 2].max() == 0.0


def test_undeclared_classes_are_added_by_later_rows(X: pd.DataFrame, y: pd.Series) -> None:
    fitted = ProbClassifier("auto")
    for species in SPECIES:
        fitted.partial_fit(X[y == species], y[y == species])
    assert fitted.classes_.tolist() == SPECIES
    expected = ProbClassifier("auto").fit(X, y).predict_log_proba(X)
    np.testing.assert_allclose(fitted.predict_log_proba(X), expected, rtol=1e-9)


def test_first_rows_need_not_suffice_for_a_model(X: pd.DataFrame, y: pd.Series) -> None:
    fitted = ProbClassifier().partial_fit(X[:1], y[:1], classes=SPECIES)
    assert set(fitted.predict(X)) == {"Adelie"}
    fitted.partial_fit(X[1:], y[1:])
    assert fitted.score(X, y) > 0.95


def test_refused_rows_change_nothing(X: pd.DataFrame, y: pd.Series) -> None:
    fitted = ProbClassifier().fit(X, y)
    before = fitted.predict_log_proba(X)
    with pytest.raises(DataError, match="infinite"):
        fitted.partial_fit(X.assign(body_mass_g=np.inf), y)
    with pytest.raises(SpecError, match=r"'body_mass_g' is .*string, but it models numbers"):
        fitted.partial_fit(X.assign(body_mass_g="heavy"), y)
    np.testing.assert_array_equal(fitted.predict_log_proba(X), before)


def test_before_fit_there_is_no_model(X: pd.DataFrame) -> None:
    unfitted = ProbClassifier()
    assert not hasattr(unfitted, "model_")
    for method in (unfitted.predict, unfitted.score_samples, unfitted.predict_joint_log_proba):
        with pytest.raises(NotFittedError):
            method(X)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"estimator": "gaussian_full"}, SpecError, "'island' is .*string"),
        ({"estimator": {"categorical": "isle"}}, DataError, "no column 'isle'; the table has"),
        ({"estimator": "most"}, PluginError, "unknown estimator 'most'"),
        ({"options": {"categorical": {}}}, SpecError, "Blocks of this estimator: .*'island'"),
        (
            AUTO | {"options": {"categorical": 3}},
            SpecError,
            "'categorical' must be a table, got 3",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_refused_by_fit(
    X: pd.DataFrame, y: pd.Series, parameters: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ProbClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None] * 2, "y contains NaN or None in 2 rows"),
        (np.array([0, 1, 2, 2**63], dtype=np.uint64), "beyond int64"),
        ([0.5, 1.5, 2.5, 3.5], "Unknown label type"),
    ],
)
def test_invalid_labels_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProbClassifier().fit([[1.0], [2.0], [3.0], [4.0]], labels)


@pytest.mark.parametrize(
    ("classes", "labels", "message"),
    [
        (SPECIES, ["Emperor"], "label 'Emperor' is not one of the classes 'Adelie'"),
        (SPECIES, [1], "labels are int64, but classes string"),
        (["Adelie", "Gentoo"], ["Adelie"], "were 'Adelie', 'Chinstrap', 'Gentoo' before"),
    ],
)
def test_labels_outside_the_declared_classes_are_refused(
    classes: list[str], labels: Any, message: str, X: pd.DataFrame, y: pd.Series
) -> None:
    fitted = ProbClassifier().partial_fit(X, y, classes=SPECIES)
    with pytest.raises(DataError, match=message):
        fitted.partial_fit(X[:1], labels, classes=classes)
