"""A fitted `ProbClassifier` is taken as a model, and `pc.fit(X, y)` says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.operation.promotion import evaluate_paired
from probclass_core.sklearn import ProbClassifier

BLOCKS = {"gaussian_diagonal": ["a", "b"]}
RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(200, 2)), columns=["a", "b"])
Y = pd.Series(np.where(X["a"] + RANDOM.normal(size=200) > 0.0, "high", "low"), name="level")
ROWS = X.assign(level=Y)
FITTED = ProbClassifier(BLOCKS).fit(X, Y)
OTHER = ProbClassifier({"gaussian_full": ["a", "b"]}).fit(X, Y)

CALLS: dict[str, Callable[[Any], Any]] = {
    "evaluate": lambda model: pc.evaluate(model, ROWS).log_loss,
    "health": lambda model: pc.health(model, X).to_dict(),
    "explain": lambda model: pc.explain(model, X, rows=3).table,
    "importance": lambda model: pc.importance(model, X).table,
    "drift": lambda model: pc.drift(model, OTHER).to_dict(),
    "calibrate": lambda model: pc.calibrate(model, ROWS).id,
    "with_density_quantiles": lambda model: pc.with_density_quantiles(model, X).id,
    "evaluate_paired": lambda model: evaluate_paired(model, OTHER, ROWS).to_dict(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_fitted_classifier_is_taken_as_its_model_and_another_is_refused(name: str) -> None:
    assert CALLS[name](FITTED) == CALLS[name](FITTED.model_)
    with pytest.raises(SpecError, match=r"the ProbClassifier has no model yet: .* not fitted"):
        CALLS[name](ProbClassifier(BLOCKS))


def test_tables_are_scored_with_a_classifier(tmp_path: Path) -> None:
    report = pc.score(FITTED, ROWS, tmp_path / "scored")
    assert report.model_id == FITTED.model_.id
    again = pc.score(FITTED.model_, ROWS, tmp_path / "scored")
    assert again.model_id == report.model_id


def test_a_store_saves_a_classifier(tmp_path: Path) -> None:
    store = pc.ModelStore(tmp_path)
    assert store.load(store.save(FITTED, "level").ref).id == FITTED.model_.id
    with pytest.raises(SpecError, match="expected a Model, got dict"):
        store.save({}, "level")  # type: ignore[arg-type]


def test_models_and_classifiers_are_compared_by_their_specs() -> None:
    specs = {"naive": FITTED.model_.spec, "full": OTHER.model_.spec}
    expected = pc.compare(ROWS, specs).table
    assert pc.compare(ROWS, {"naive": FITTED, "full": OTHER.model_}).table == expected


@pytest.mark.parametrize(
    "labels",
    [Y, Y.to_numpy(), Y.to_list(), tuple(Y), pl.Series(Y.to_list()), pa.array(Y), Y.to_frame()],
    ids=["series", "array", "list", "tuple", "polars", "arrow", "frame"],
)
def test_labels_beside_the_table_are_refused_with_the_call_to_write(labels: Any) -> None:
    with pytest.raises(SpecError, match=r"fit\(pandas\.DataFrame\(X\)\.assign\("):
        pc.fit(X, labels)
    for rows, options in ((X.to_numpy(), {}), (X, {"label": "level"})):
        with pytest.raises(SpecError, match="put them into the table"):
            pc.fit(rows, labels, **options)


def test_the_call_to_write_works() -> None:
    assert pc.fit(pd.DataFrame(X).assign(label=Y), label="label").spec.label == "label"


@pytest.mark.parametrize("exclude", ["b", ["b"]])
def test_fit_leaves_out_columns_as_the_derived_spec_does(exclude: Any) -> None:
    model = pc.fit(ROWS, label="level", exclude=exclude)
    assert model.spec == pc.ModelSpec.auto(ROWS, "level", exclude=exclude)
    assert "b" not in model.spec.features
