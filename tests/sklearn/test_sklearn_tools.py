"""scikit-learn's tools with a `ProbClassifier`: searches, pipelines, ensembles, copies."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import probclass_core as pc
from probclass_core.sklearn import ProbClassifier

NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
CATEGORIES = ["island", "sex"]
BODY = pc.Block("gaussian_full", NUMBERS, name="body")
KINDS = pc.Block("categorical", CATEGORIES, pseudo_count=2.0)
SPEC = pc.ModelSpec("kind", [BODY, KINDS], prior="uniform", weight="not read")


def options_of(model: pc.Model) -> dict[str, Any]:
    return {str(block.name): dict(block.options) for block in model.spec.blocks}


def test_grid_search_over_options_by_block(X: pd.DataFrame, y: pd.Series) -> None:
    grid = {"categorical__pseudo_count": [0.1, 1.0, 50.0], "gaussian_diagonal__ddof": [0, 1]}
    search = GridSearchCV(ProbClassifier("auto"), grid, scoring="neg_log_loss").fit(X, y)
    assert options_of(search.best_estimator_.model_) == {
        "categorical": {"pseudo_count": search.best_params_["categorical__pseudo_count"]},
        "gaussian_diagonal": {"ddof": search.best_params_["gaussian_diagonal__ddof"]},
    }
    by_count = pd.Series(search.cv_results_["mean_test_score"]).groupby(
        [params["categorical__pseudo_count"] for params in search.cv_results_["params"]]
    )
    assert by_count.max().idxmax() == search.best_params_["categorical__pseudo_count"]
    assert by_count.max()[50.0] < by_count.max()[1.0], "fifty pseudo-counts per value are too many"


def test_grid_search_over_estimators_with_their_options(X: pd.DataFrame, y: pd.Series) -> None:
    """Also as the last step of a pipeline."""
    grid = [
        {"p__estimator": ["gaussian_diagonal"], "p__gaussian_diagonal__variance_floor": [0, 1e-3]},
        {"p__estimator": ["knn_density"], "p__knn_density__k": [5, 25]},
        {"p__estimator": ["gaussian_full"], "p__prior": ["uniform", "empirical"]},
    ]
    pipeline = Pipeline([("scaled", StandardScaler()), ("p", ProbClassifier())])
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X[NUMBERS], y)
    assert len(search.cv_results_["params"]) == 6
    (block,) = search.best_estimator_["p"].model_.spec.blocks
    assert block.estimator == search.best_params_["p__estimator"]


@pytest.mark.parametrize(
    "classifier",
    [
        ProbClassifier("categorical", options={"pseudo_count": 0.5}),
        ProbClassifier("categorical").set_params(categorical__pseudo_count=0.5),
        ProbClassifier("categorical", options={"categorical": {"pseudo_count": 0.5}}),
        ProbClassifier({"categorical": CATEGORIES}, options={"pseudo_count": 0.5}),
        ProbClassifier([{"estimator": "categorical", "columns": CATEGORIES, "pseudo_count": 0.5}]),
        ProbClassifier([KINDS], options={"pseudo_count": 0.5}),
        ProbClassifier(pc.ModelSpec("y", KINDS), options={"categorical": {"pseudo_count": 0.5}}),
    ],
)
def test_one_option_given_in_different_forms(
    X: pd.DataFrame, y: pd.Series, classifier: ProbClassifier
) -> None:
    (options,) = options_of(clone(classifier).fit(X[CATEGORIES], y).model_).values()
    assert options == {"pseudo_count": 0.5}


def test_a_spec_keeps_its_names_and_prior(X: pd.DataFrame, y: pd.Series) -> None:
    model = clone(ProbClassifier(SPEC)).fit(X, y).model_
    assert (model.spec.label, model.spec.prior, model.spec.weight) == ("kind", "uniform", None)
    assert model.spec.blocks == SPEC.blocks
    other = ProbClassifier(SPEC, prior="empirical").fit(X, y).model_
    assert other.spec.prior == "empirical"


def test_set_params_does_not_change_the_original() -> None:
    given = {"categorical": {"pseudo_count": 0.5}}
    original = ProbClassifier(options=given)
    changed = clone(original).set_params(categorical__unseen="ignore", prior="uniform")
    assert changed.get_params()["categorical__pseudo_count"] == 0.5
    assert changed.get_params()["categorical__unseen"] == "ignore"
    assert clone(changed).get_params() == changed.get_params()
    assert original.get_params(deep=False) == {
        "estimator": "default",
        "options": {"categorical": {"pseudo_count": 0.5}},
        "prior": None,
        "block_weights": None,
        "on_scarce": None,
        "max_classes": None,
        "groups": None,
    }
    assert original.options is given
    again = ProbClassifier().set_params(**changed.get_params())
    assert again.get_params() == changed.get_params()


def test_cross_validation_accepts_nulls_and_text(X: pd.DataFrame, y: pd.Series) -> None:
    assert X.isna().any(axis=None)
    scores = cross_val_score(ProbClassifier(), X, y, cv=2, error_score="raise")
    assert scores.mean() > 0.95


@pytest.mark.parametrize("to", [pl.from_pandas, pa.table], ids=["polars", "pyarrow"])
def test_polars_and_pyarrow_give_the_same_posterior(X: pd.DataFrame, y: pd.Series, to: Any) -> None:
    arguments = {"method": "predict_log_proba", "cv": 2}
    theirs = cross_val_predict(ProbClassifier("fast"), to(X), y.to_numpy(), **arguments)
    ours = cross_val_predict(ProbClassifier("fast"), X, y, **arguments)
    np.testing.assert_array_equal(theirs, ours)


def test_a_column_transformer_can_come_first(X: pd.DataFrame, y: pd.Series) -> None:
    """Its output is an array of objects or of numbers.

    Without fitted weights, scaling changes nothing; the folds of weights follow from the values.
    """
    mixed = make_column_transformer((StandardScaler(), NUMBERS), ("passthrough", CATEGORIES))
    numbers = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(sparse_output=False), CATEGORIES)
    )
    plain, scaled, dummies = (
        cross_val_score(classifier, X, y, error_score="raise")
        for classifier in (
            ProbClassifier("auto"),
            make_pipeline(mixed, ProbClassifier("auto")),
            make_pipeline(numbers, ProbClassifier("gaussian_diagonal")),
        )
    )
    np.testing.assert_allclose(scaled, plain)
    assert dummies.mean() > 0.7


@pytest.mark.parametrize("estimator", ["gaussian_diagonal", "gaussian_full", "knn_density"])
def test_copies_of_a_fitted_classifier_are_equal(
    X: pd.DataFrame, y: pd.Series, estimator: str, tmp_path: Path
) -> None:
    original = ProbClassifier(estimator).fit(X[NUMBERS], y)
    expected = original.predict_log_proba(X[NUMBERS])
    joblib.dump(original, tmp_path / "it")
    pickled = pickle.loads(pickle.dumps(original))
    for other in (joblib.load(tmp_path / "it"), pickled, copy.deepcopy(original)):
        np.testing.assert_array_equal(other.predict_log_proba(X[NUMBERS]), expected)
        assert other.model_.id == original.model_.id
        assert other.partial_fit(X[NUMBERS], y).statistics_.rows == 2 * len(X)
