"""Tasks with a decision rule, and the task that calibrates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from airflow.sdk import Asset

import probclass_core as pc
from probclass_airflow import (
    ProbClassCalibrateOperator,
    ProbClassEvaluateOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)

SPEC = {"label": "air", "blocks": {"gaussian_diagonal": ["dew_point", "pressure"]}}
RULE = {
    "costs": {"unhealthy": {"good": 5}},
    "min_probability": 0.5,
    "min_rarity": 0.01,
}
JANUARY = {"month": "2013-01"}
FEBRUARY = {"month": "2013-02"}


@pytest.fixture
def trained(lake: str, tmp_path: Path) -> pc.ModelStore:
    """A store with the model of January 2013, ``air@champion``, with density quantiles."""
    store = pc.ModelStore(tmp_path / "models")
    model = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), partition=JANUARY)
    version = store.save(pc.with_density_quantiles(model, lake, partition=JANUARY), "air")
    store.promote("air", version, alias="champion")
    return store


def test_training_saves_density_quantiles(
    run: Any, lake: str, trained: pc.ModelStore, tmp_path: Path
) -> None:
    task = run(
        ProbClassTrainOperator,
        source=lake,
        spec=SPEC,
        partition=JANUARY,
        store=str(tmp_path / "others"),
        model="air",
        density_quantiles=True,
    )
    assert task.result["model"] == trained.resolve("air@champion").ref


def test_score_and_evaluate_accept_a_rule_from_a_template(
    run: Any, lake: str, trained: pc.ModelStore, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {
        "source": lake,
        "store": trained.uri,
        "model": "air@champion",
        "partition": FEBRUARY,
        "params": {"least": 0.5},
    }
    rule = RULE | {"min_probability": "{{ params.least }}"}
    model = trained.load("air@champion")
    sink = str(tmp_path / "scored")
    scored = run(ProbClassScoreOperator, sink=sink, options={"decision": rule}, **fields)
    assert scored.state == "success"
    table = ds.dataset(tmp_path / "scored", partitioning="hive").to_table()
    expected = pc.score(
        model, lake, tmp_path / "same", partition=FEBRUARY, options={"decision": RULE}
    )
    assert scored.result["commit_id"] == expected.commit_id
    assert set(table["rejected"].to_pylist()) == {"density", "probability", None}
    evaluated = run(
        ProbClassEvaluateOperator, outlets=[Asset("air.quality")], decision=rule, **fields
    )
    evaluation = pc.evaluate(model, lake, partition=FEBRUARY, decision=RULE).to_dict()
    errors = {name for name in evaluation if name.endswith("_error")}
    left_out = {"confusion", "per_class", "reliability", *errors}
    numbers = {name: value for name, value in evaluation.items() if name not in left_out}
    assert evaluated.result == evaluated.result | numbers
    assert left_out.isdisjoint(evaluated.result)
    assert evaluated.events == {"air.quality": evaluated.result}

    sink = str(tmp_path / "by_name")
    by_name = run(ProbClassScoreOperator, sink=sink, options={"decision": "{{ 'ml' }}"}, **fields)
    expected = pc.score(
        model, lake, tmp_path / "same", partition=FEBRUARY, options={"decision": "ml"}
    )
    assert by_name.result["commit_id"] == expected.commit_id


def test_calibration_saves_promotes_and_reports(
    run: Any, lake: str, trained: pc.ModelStore
) -> None:
    task = run(
        ProbClassCalibrateOperator,
        source=lake,
        store=trained.uri,
        model="air@champion",
        alias="calibrated",
        partition={"month": "{{ '2013-02' }}"},
        outlets=[Asset("air.model")],
    )
    before = trained.resolve("air@champion")
    expected = pc.calibrate(trained.load(before.ref), lake, partition=FEBRUARY)
    assert task.state == "success"
    assert task.result == {
        "model": f"air@{expected.id}",
        "alias": "calibrated",
        "of": before.ref,
        **{
            name: expected.training["calibration"][name]
            for name in ("applied", "rows", "uncalibrated_log_loss", "calibrated_log_loss")
        },
    }
    assert task.events == {"air.model": task.result}
    saved = trained.resolve("air@calibrated")
    assert saved.id == expected.id
    assert saved.provenance["airflow"]["task_id"] == "task"
    assert trained.resolve("air@champion") == before
