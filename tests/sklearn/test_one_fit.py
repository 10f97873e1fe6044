"""`ProbClassifier.fit` and `pc.fit` train one model on the same rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.sklearn import ProbClassifier
from probclass_core.spec.model_spec import Effort

TWO_PASSES = pc.ModelSpec(
    "label",
    [pc.Block("discretized", "age", given="fare"), pc.Block("categorical", ["sex", "embarked"])],
)
"""The cuts of the first block are found in a pass of their own."""


@pytest.fixture(scope="module")
def titanic(titanic: pa.Table) -> pd.DataFrame:
    """A few of its columns."""
    return titanic.select(["pclass", "sex", "age", "fare", "embarked", "label"]).to_pandas()


def test_a_spec_of_two_passes_gives_one_model(titanic: pd.DataFrame) -> None:
    model = pc.fit(titanic, TWO_PASSES)
    fitted = ProbClassifier(TWO_PASSES).fit(titanic.drop(columns="label"), titanic["label"])
    assert model.training["passes"] == 2
    assert fitted.model_.training["passes"] == 2
    assert fitted.model_.id == model.id


@pytest.mark.parametrize("effort", ["fast", "default"])
@pytest.mark.parametrize("on_scarce", ["pool", "error"])
def test_derived_blocks_give_one_model(
    titanic: pd.DataFrame, effort: Effort, on_scarce: Any
) -> None:
    spec = pc.ModelSpec.auto(titanic, "label", effort=effort, on_scarce=on_scarce)
    classifier = ProbClassifier(effort, on_scarce=on_scarce)
    fitted = classifier.fit(titanic.drop(columns="label"), titanic["label"])
    assert fitted.model_.spec == spec
    assert fitted.model_.id == pc.fit(titanic, spec).id


def test_rows_of_a_group_are_left_out_together(titanic: pd.DataFrame) -> None:
    rows = titanic.assign(cabin=np.arange(len(titanic)) // 50)
    spec = pc.ModelSpec.auto(rows, "label", groups="cabin")
    fitted = ProbClassifier(groups="cabin").fit(rows.drop(columns="label"), rows["label"])
    assert fitted.model_.spec == spec
    assert fitted.model_.id == pc.fit(rows, spec).id
    assert fitted.model_.training["block_weights"]["groups"] > 1
    assert fitted.predict(rows.drop(columns="label")).shape == (len(rows),)
    with pytest.raises(SpecError, match="groups are for blocks that are derived"):
        ProbClassifier("auto", groups="cabin").fit(rows.drop(columns="label"), rows["label"])


def test_an_arrow_table_gives_the_model_of_its_columns(titanic: pd.DataFrame) -> None:
    table = pa.table(titanic)
    fitted = ProbClassifier().fit(table.drop_columns("label"), titanic["label"])
    assert fitted.model_.id == pc.fit(table, label="label").id


def test_sample_weights_train_as_a_weight_column_does(titanic: pd.DataFrame) -> None:
    weights = np.arange(len(titanic)) % 3 + 1.0
    spec = dataclasses.replace(TWO_PASSES, weight="weight")
    model = pc.fit(titanic.assign(weight=weights), spec)
    rows = titanic.drop(columns="label"), titanic["label"]
    fitted = ProbClassifier(TWO_PASSES).fit(*rows, sample_weight=weights)
    assert fitted.model_.priors.equals(model.priors)
    for name, parameters in model.parameters.items():
        assert fitted.model_.parameters[name].equals(parameters)


def test_a_search_over_efforts_has_no_fold_without_a_score(titanic: pd.DataFrame) -> None:
    grid = {"estimator": ["fast", "default", "best", TWO_PASSES]}
    folds = StratifiedKFold(2)
    search = GridSearchCV(ProbClassifier(), grid, scoring="neg_log_loss", cv=folds)
    search.fit(titanic.drop(columns="label"), titanic["label"])
    for fold in range(2):
        assert np.isfinite(search.cv_results_[f"split{fold}_test_score"]).all()


def test_batches_say_that_a_pass_over_all_rows_is_missing(titanic: pd.DataFrame) -> None:
    features = titanic.drop(columns="label")
    batch = ProbClassifier(TWO_PASSES).partial_fit(features, titanic["label"])
    with pytest.raises(ValueError, match="asks for another pass over the rows: train by fit"):
        batch.predict(features)


def test_batches_go_on_with_the_cuts_of_a_fit(titanic: pd.DataFrame) -> None:
    features, labels = titanic.drop(columns="label"), titanic["label"]
    fitted = ProbClassifier(TWO_PASSES).fit(features, labels)
    assert fitted.partial_fit(features, labels).model_.training["rows"] == 2 * len(titanic)


def test_partial_fits_of_a_mixed_frame_equal_one_fit(X: pd.DataFrame, y: pd.Series) -> None:
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    partial = ProbClassifier("auto")
    for rows in np.array_split(np.random.default_rng(3).permutation(len(X)), 20):
        partial.partial_fit(X.iloc[rows], y.iloc[rows], y.unique(), sample_weight=weight[rows])
    repeated = np.repeat(X.index, weight)
    single_fit = ProbClassifier("auto").fit(X.loc[repeated], y.loc[repeated])
    expected = single_fit.predict_log_proba(X)
    np.testing.assert_allclose(partial.predict_log_proba(X), expected, rtol=1e-7, atol=1e-7)
    assert partial.statistics_.rows == len(X)
