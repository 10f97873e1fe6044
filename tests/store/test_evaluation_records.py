"""Evaluations recorded with a version: stored, read back, and refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.errors import DataError, StoreError


def test_a_recorded_evaluation_is_read_back_unchanged(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table
) -> None:
    version = store.save(model, "iris")
    quality = pc.evaluate(model, iris)
    recorded = store.record_evaluation(
        "iris", quality, on={"source": "iris.csv"}, provenance={"run": 1}
    )
    (record,) = store.evaluations(version)
    assert record == recorded
    assert (record.model, record.version) == ("iris", version.id)
    assert (record.on, record.provenance) == ({"source": "iris.csv"}, {"run": 1})
    again = Evaluation.from_dict(record.result)
    assert again.to_dict() == quality.to_dict()
    assert again.confusion == quality.confusion
    assert again.reliability == quality.reliability
    # The folder of evaluations is not listed as a model or version.
    assert (store.models(), store.versions("iris")) == (["iris"], [version])
    assert store.load("iris").id == version.id


def test_the_same_evaluation_is_recorded_once(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table
) -> None:
    version = store.save(model, "iris")
    quality = pc.evaluate(model, iris)
    first = store.record_evaluation(version, quality, on={"part": 1}, provenance={"run": 1})
    assert store.record_evaluation(version, quality, on={"part": 1}, provenance={"run": 2}) == first
    other = store.record_evaluation(version, quality, on={"part": 2})
    assert store.evaluations("iris") == [first, other]


def test_later_evaluations_are_compared_with_that_of_the_promotion(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table
) -> None:
    """That is the last one before the promotion; the first one may be of other rows, long ago."""
    version = store.save(model, "iris")
    assert store.evaluation_at_promotion(version) is None
    first, second, third = (pc.evaluate(model, iris.slice(start, 60)) for start in (0, 30, 60))
    recorded = [store.record_evaluation(version, one) for one in (first, second)]
    assert store.evaluation_at_promotion("iris") == recorded[0]
    store.promote("iris", version, alias="champion")
    store.record_evaluation(version, third)
    assert store.evaluation_at_promotion("iris@champion") == recorded[1]
    other = store.save(model.prior_only(), "iris")
    store.promote("iris", other, alias="champion")
    assert store.evaluation_at_promotion(other) is None
    assert store.evaluation_at_promotion(version) == recorded[1]


def test_an_infinite_loss_stays_infinite(store: pc.ModelStore, iris: pa.Table) -> None:
    block = pc.Block("categorical", ["x"], pseudo_count=0.0)
    table = pa.table({"c": ["a", "b"], "x": ["u", "v"]})
    model = pc.fit(table, pc.ModelSpec("c", [block]))
    store.save(model, "m")
    quality = pc.evaluate(model, pa.table({"c": ["a", "b"], "x": ["v", "v"]}))
    store.record_evaluation("m", quality)
    (record,) = store.evaluations("m")
    assert record.result["log_loss"] is None
    assert Evaluation.from_dict(record.result).log_loss == float("inf") == quality.log_loss


def test_an_evaluation_of_many_classes_is_stored_without_its_tables(store: pc.ModelStore) -> None:
    names = [f"class {number:03}" for number in range(400)]
    table = pa.table({"c": names * 2, "x": [float(at) for at in range(800)]})
    spec = pc.ModelSpec("c", {"gaussian_diagonal": "x"}, max_classes=400)
    model = pc.fit(table, spec)
    store.save(model, "m")
    record = store.record_evaluation("m", pc.evaluate(model, table))
    assert record.result["rows"] == 800
    assert "confusion" not in record.result
    assert "worse_than_prior" in record.result
    with pytest.raises(DataError, match="not a complete evaluation: 'confusion' is missing"):
        Evaluation.from_dict(record.result)


def test_an_evaluation_of_another_model_is_refused(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table
) -> None:
    store.save(model, "iris")
    other = pc.fit(iris.slice(0, 120), model.spec)
    with pytest.raises(StoreError, match=f"is of model {other.id[:12]}, not of 'iris@"):
        store.record_evaluation("iris", pc.evaluate(other, iris))
    with pytest.raises(StoreError, match="on must be plain values"):
        store.record_evaluation("iris", pc.evaluate(model, iris), on={"when": object()})
    assert store.evaluations("iris") == []
