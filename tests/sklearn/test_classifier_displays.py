"""A fitted `ProbClassifier` can be shown, alone and as a part of scikit-learn's tools."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probclass_core as pc
from probclass_core.sklearn import ProbClassifier

RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(200, 2)), columns=["a", "b"])
X["c"] = RANDOM.choice(["x", "y"], 200)
Y = pd.Series(np.where(X["a"] * X["b"] > 0.0, "same", "different"), name="sign")
NUMBERS = ["a", "b"]
BOTH = {"gaussian_full": NUMBERS, "discretized": "a"}
TWICE = pc.ModelSpec("sign", BOTH, block_weights="fit")


def of_one_row() -> ProbClassifier:
    classifier = ProbClassifier("gaussian_diagonal", on_scarce="error")
    return classifier.partial_fit(X[NUMBERS][:1], Y[:1])


COUNTS = csr_matrix(RANDOM.poisson(1.0, (200, 4)))
FITTED = {
    "the default": lambda: ProbClassifier().fit(X, Y),
    "a column in two blocks": lambda: ProbClassifier(TWICE).fit(X, Y),
    "sparse counts": lambda: ProbClassifier("multinomial").fit(COUNTS, Y),
    "a pipeline": lambda: make_pipeline(StandardScaler(), ProbClassifier()).fit(X[NUMBERS], Y),
    "a search": lambda: GridSearchCV(
        ProbClassifier(), {"estimator": ["fast", "auto"]}, cv=2, error_score="raise"
    ).fit(X, Y),
    "columns that are transformed": lambda: make_pipeline(
        make_column_transformer((StandardScaler(), NUMBERS)), ProbClassifier()
    ).fit(X, Y),
    "batches that do not suffice yet": of_one_row,
}


@pytest.mark.parametrize("what", FITTED)
def test_a_fitted_classifier_can_be_listed_and_shown(what: str) -> None:
    fitted: Any = FITTED[what]()
    assert "predict_proba" in dir(fitted)
    assert "ProbClassifier" in fitted._repr_html_()
    assert "ProbClassifier" in fitted._repr_mimebundle_()["text/html"]
    assert "predict_proba" in dict(inspect.getmembers(fitted))
    assert "ProbClassifier" in repr(fitted)


def test_log_densities_are_refused_with_the_reason_where_blocks_overlap() -> None:
    fitted = ProbClassifier(TWICE).fit(X, Y)
    assert not hasattr(fitted, "score_samples")
    with pytest.raises(AttributeError, match="score_samples") as refused:
        fitted.score_samples(X)
    assert "no blocks of the pool have each column once" in str(refused.value.__cause__)


def test_rows_that_do_not_suffice_yet_are_named_when_predicting() -> None:
    few = of_one_row()
    with pytest.raises(ValueError, match="one class only"):
        few.predict(X[NUMBERS])
    more = few.partial_fit(X[NUMBERS][1:], Y[1:])
    assert set(more.predict(X[NUMBERS])) == {"same", "different"}
