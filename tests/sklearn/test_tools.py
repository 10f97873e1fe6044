"""scikit-learn's tools around a `ProbClassifier`: searches, pipelines, ensembles, copies."""

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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import probclass_core as pc
from probclass_core.sklearn import ProbClassifier

BODY = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
KINDS = ["island", "sex"]
SPEC = pc.ModelSpec(
    label="kind",
    blocks=[
        pc.Block("gaussian_full", BODY, name="body"),
        pc.Block("categorical", KINDS, pseudo_count=2.0),
    ],
    prior="uniform",
    weight="not read",
)


@pytest.fixture(scope="module")
def frame(penguins: pa.Table) -> pd.DataFrame:
    return penguins.to_pandas()


@pytest.fixture(scope="module")
def X(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="species")


@pytest.fixture(scope="module")
def y(frame: pd.DataFrame) -> pd.Series:
    return frame["species"]


def options_of(model: pc.Model) -> dict[str, Any]:
    return {str(block.name): dict(block.options) for block in model.spec.blocks}


def test_a_search_over_options_goes_by_block(X: pd.DataFrame, y: pd.Series) -> None:
    grid = {"categorical__pseudo_count": [0.1, 1.0, 50.0], "gaussian_diagonal__ddof": [0, 1]}
    search = GridSearchCV(ProbClassifier(), grid, scoring="neg_log_loss").fit(X, y)
    assert options_of(search.best_estimator_.model_) == {
        "categorical": {"pseudo_count": search.best_params_["categorical__pseudo_count"]},
        "gaussian_diagonal": {"ddof": search.best_params_["gaussian_diagonal__ddof"]},
    }
    by_count = pd.Series(search.cv_results_["mean_test_score"]).groupby(
        [params["categorical__pseudo_count"] for params in search.cv_results_["params"]]
    )
    assert by_count.max().idxmax() == search.best_params_["categorical__pseudo_count"]
    assert by_count.max()[50.0] < by_count.max()[1.0], "fifty rows of each value are too many"


def test_a_search_over_estimators_each_with_its_options(X: pd.DataFrame, y: pd.Series) -> None:
    grid = [
        {"estimator": ["gaussian_diagonal"], "gaussian_diagonal__variance_floor": [0.0, 1e-3]},
        {"estimator": ["knn_density"], "knn_density__k": [5, 25]},
        {"estimator": ["gaussian_full"], "prior": ["uniform", "empirical"]},
    ]
    search = GridSearchCV(ProbClassifier(), grid, error_score="raise").fit(X[BODY], y)
    assert len(search.cv_results_["params"]) == 6
    assert (
        search.best_estimator_.model_.spec.blocks[0].estimator == search.best_params_["estimator"]
    )


def test_a_search_reaches_through_a_pipeline(X: pd.DataFrame, y: pd.Series) -> None:
    road = make_pipeline(StandardScaler(), ProbClassifier("gaussian_diagonal"))
    grid = {"probclassifier__gaussian_diagonal__variance_floor": [1e-9, 1e-2]}
    search = GridSearchCV(road, grid, error_score="raise").fit(X[BODY], y)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize(
    "classifier",
    [
        ProbClassifier("categorical", options={"pseudo_count": 0.5}),
        ProbClassifier("categorical").set_params(categorical__pseudo_count=0.5),
        ProbClassifier("categorical", options={"categorical": {"pseudo_count": 0.5}}),
        ProbClassifier({"categorical": KINDS}, options={"pseudo_count": 0.5}),
        ProbClassifier([{"estimator": "categorical", "columns": KINDS, "pseudo_count": 0.5}]),
        ProbClassifier(
            [pc.Block("categorical", KINDS, pseudo_count=7.0)], options={"pseudo_count": 0.5}
        ),
        ProbClassifier(
            pc.ModelSpec("y", [pc.Block("categorical", KINDS, name="kinds")]),
            options={"kinds": {"pseudo_count": 0.5}},
        ),
    ],
)
def test_one_option_said_in_many_ways(
    X: pd.DataFrame, y: pd.Series, classifier: ProbClassifier
) -> None:
    (options,) = options_of(clone(classifier).fit(X[KINDS], y).model_).values()
    assert options == {"pseudo_count": 0.5}


def test_a_spec_brings_its_own_names_and_prior(X: pd.DataFrame, y: pd.Series) -> None:
    model = clone(ProbClassifier(SPEC)).fit(X, y).model_
    assert (model.spec.label, model.spec.prior, model.spec.weight) == ("kind", "uniform", None)
    assert model.spec.blocks == SPEC.blocks
    other = ProbClassifier(SPEC, prior="empirical").fit(X, y).model_
    assert other.spec.prior == "empirical"


def test_options_that_are_set_are_parameters_and_leave_the_original_alone() -> None:
    given = {"categorical": {"pseudo_count": 0.5}}
    original = ProbClassifier(options=given)
    changed = clone(original).set_params(categorical__unseen="ignore", prior="uniform")
    assert changed.get_params()["categorical__pseudo_count"] == 0.5
    assert changed.get_params()["categorical__unseen"] == "ignore"
    assert clone(changed).get_params() == changed.get_params()
    assert original.get_params(deep=False) == {
        "estimator": "auto",
        "options": {"categorical": {"pseudo_count": 0.5}},
        "prior": None,
    }
    assert original.options is given
    again = ProbClassifier().set_params(**changed.get_params())
    assert again.get_params() == changed.get_params()


def test_a_block_that_there_is_not_is_said_by_fit(X: pd.DataFrame, y: pd.Series) -> None:
    with pytest.raises(pc.SpecError, match=r"options name the block 'categoric'.*Did you mean"):
        ProbClassifier().set_params(categoric__pseudo_count=0.5).fit(X, y)


def test_rows_with_nulls_and_text_go_through_cross_validation(
    X: pd.DataFrame, y: pd.Series
) -> None:
    assert X.isna().any(axis=None)
    scores = cross_val_score(ProbClassifier(), X, y, error_score="raise")
    assert scores.mean() > 0.95


@pytest.mark.parametrize("to", [pl.from_pandas, pa.table], ids=["polars", "pyarrow"])
def test_other_frames_say_the_same(X: pd.DataFrame, y: pd.Series, to: Any) -> None:
    asked = {"method": "predict_log_proba", "cv": 3}
    theirs = cross_val_predict(ProbClassifier(), to(X), y.to_numpy(), **asked)
    ours = cross_val_predict(ProbClassifier(), X, y, **asked)
    np.testing.assert_array_equal(theirs, ours)


def test_a_column_transformer_before_it(X: pd.DataFrame, y: pd.Series) -> None:
    """Its output is one array of objects, or one of numbers."""
    mixed = make_column_transformer((StandardScaler(), BODY), ("passthrough", KINDS))
    numbers = make_column_transformer(
        (StandardScaler(), BODY), (OneHotEncoder(sparse_output=False), KINDS)
    )
    plain = cross_val_score(ProbClassifier(), X, y, error_score="raise")
    scaled = cross_val_score(make_pipeline(mixed, ProbClassifier()), X, y, error_score="raise")
    np.testing.assert_allclose(scaled, plain)
    dummies = make_pipeline(numbers, ProbClassifier("gaussian_diagonal"))
    assert cross_val_score(dummies, X, y, error_score="raise").mean() > 0.7


def test_calibration_around_it(X: pd.DataFrame, y: pd.Series) -> None:
    calibrated = CalibratedClassifierCV(ProbClassifier(), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.95
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)


def test_a_vote_of_two(X: pd.DataFrame, y: pd.Series) -> None:
    one, two = ProbClassifier(), ProbClassifier({"gaussian_full": BODY, "categorical": KINDS})
    vote = VotingClassifier([("one", one), ("two", two)], voting="soft").fit(X, y)
    parts = [clone(part).fit(X, y).predict_proba(X) for part in (one, two)]
    np.testing.assert_allclose(vote.predict_proba(X), np.mean(parts, axis=0), rtol=1e-12)


@pytest.mark.parametrize("estimator", ["gaussian_diagonal", "gaussian_full", "knn_density"])
def test_copies_after_use_say_the_same(
    X: pd.DataFrame, y: pd.Series, estimator: str, tmp_path: Path
) -> None:
    original = ProbClassifier(estimator).fit(X[BODY], y)
    expected = original.predict_log_proba(X[BODY])
    joblib.dump(original, tmp_path / "it")
    copies = [
        joblib.load(tmp_path / "it"),
        pickle.loads(pickle.dumps(original)),
        copy.deepcopy(original),
    ]
    for other in copies:
        np.testing.assert_array_equal(other.predict_log_proba(X[BODY]), expected)
        assert other.model_.id == original.model_.id
        assert other.partial_fit(X[BODY], y).statistics_.rows == 2 * len(X)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_model_that_has_scored_can_be_copied(penguins: pa.Table, copied: Any) -> None:
    spec = pc.ModelSpec("species", [pc.Block("knn_density", BODY), pc.Block("categorical", KINDS)])
    model = pc.fit(penguins, spec)
    expected = model.predict_log_proba(penguins)
    other = copied(model)
    np.testing.assert_array_equal(other.predict_log_proba(penguins), expected)
    assert other.id == model.id
