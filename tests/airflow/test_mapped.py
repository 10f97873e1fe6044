"""Training and scoring in mapped tasks: the same model, small XComs, nothing read twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from airflow.sdk import DAG, Asset

import probclass_core as pc
from probclass_airflow import score_task_group, train_task_group

SPEC = {
    "label": "air",
    "blocks": {
        "gaussian_full": ["dew_point", "temperature", "pressure"],
        "categorical": ["wind_direction"],
    },
}
YEAR = [("month", ">=", "2012-01"), ("month", "<", "2013-01")]
QUARTER = [("month", ">=", "2012-10"), ("month", "<", "2013-01")]
LARGEST_MESSAGE = 4096


@pytest.fixture
def store(tmp_path: Path) -> pc.ModelStore:
    return pc.ModelStore(tmp_path / "models")


def training(dag_id: str, lake: str, store: pc.ModelStore, **fields: Any) -> DAG:
    with DAG(dag_id, schedule=None) as dag:
        train_task_group(
            source=lake,
            spec=fields.pop("spec", SPEC),
            where=fields.pop("where", YEAR),
            store=store.uri,
            model="air",
            held_out_where=[("month", "==", "{{ '2013-01' }}")],
            outlets=[Asset("air.champion")],
            **{"min_shard_rows": 2_000, **fields},
        )
    return dag


def test_a_mapped_training_gives_the_model_of_one_task(
    run_dag: Callable[..., Any], lake: str, store: pc.ModelStore
) -> None:
    ran = run_dag(training("mapped_training", lake, store))
    expected = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), where=YEAR)
    shards = ran["train.plan"].result
    assert {task.state for task in ran.values()} == {"success"}
    assert len(shards) == 4  # 8,784 hours, at least 2,000 in a shard
    summaries = [ran[f"train.summarize[{index}]"].result for index in range(4)]
    assert [summary["shard"] for summary in summaries] == shards
    assert sum(summary["rows"] for summary in summaries) == expected.training["rows"] == 366 * 24
    merged = ran["train.merge"].result
    assert merged["model"] == f"air@{expected.id}"
    assert merged["cache"] == {"units": 12, "reused": 12}
    promoted = ran["train.promote"]
    assert promoted.result["promoted"] is True
    january = pc.evaluate(expected, lake, partition={"month": "2013-01"})
    assert promoted.result["challenger_value"] == january.log_loss
    assert promoted.events == {"air.champion": promoted.result}
    assert store.resolve("air@champion").id == expected.id
    assert max(len(json.dumps(task.result)) for task in ran.values()) < LARGEST_MESSAGE


def test_mapped_tasks_fit_the_weights_of_one_task(
    run_dag: Callable[..., Any], lake: str, store: pc.ModelStore
) -> None:
    blocks = [
        {"estimator": "discretized", "columns": ["dew_point"]},
        {"estimator": "categorical", "columns": ["wind_direction"]},
        {"estimator": "categorical", "columns": ["hour"], "given": ["wind_direction"]},
        {"estimator": "gaussian_full", "columns": ["dew_point", "temperature", "pressure"]},
    ]
    spec = {"label": "air", "block_weights": "fit", "blocks": blocks}
    ran = run_dag(
        training("mapped_weights", lake, store, spec=spec, where=QUARTER, min_shard_rows=700)
    )
    expected = pc.fit(lake, pc.ModelSpec.from_dict(spec), where=QUARTER)
    assert [ran[f"train.summarize[{index}]"].state for index in range(3)] == ["success"] * 3
    assert ran["train.merge"].result["model"] == f"air@{expected.id}"
    assert ran["train.promote"].result["promoted"] is True
    weights = store.load("air@champion").block_weights
    assert weights is not None
    assert weights.equals(expected.block_weights)


def test_a_window_without_new_rows_is_merged_without_a_summary(
    run_dag: Callable[..., Any], lake: str, store: pc.ModelStore
) -> None:
    expected = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), where=QUARTER, cache=store)
    again = run_dag(training("same_window", lake, store, where=QUARTER))
    assert again["train.plan"].result == []
    assert again["train.summarize"].state == "skipped"
    assert again["train.merge"].result["model"] == f"air@{expected.id}"
    assert again["train.promote"].state == "success"


def test_a_training_group_requires_held_out_rows() -> None:
    with (
        DAG("no_held_out_rows", schedule=None),
        pytest.raises(ValueError, match="has no rows to evaluate on"),
    ):
        train_task_group(source="lake", spec={}, store="models", model="air")


def test_mapped_tasks_score_partitions_with_one_version(
    run_dag: Callable[..., Any], lake: str, store: pc.ModelStore, tmp_path: Path
) -> None:
    model = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), where=YEAR)
    store.promote("air", store.save(model, "air"), alias="champion")
    sink = tmp_path / "scored"
    with DAG("mapped_scoring", schedule=None, params={"first": "2013-01"}) as dag:
        score_task_group(
            source=lake,
            sink=str(sink),
            store=store.uri,
            model="air@champion",
            batch=1,
            partitions=[("month", ">=", "{{ params.first }}"), ("month", "<", "2013-04")],
            options={"columns": ["time"]},
            outlets=[Asset("air.scored")],
        )
    ran = run_dag(dag)
    assert {task.state for task in ran.values()} == {"success"}
    months = ["2013-01", "2013-02", "2013-03"]
    ranges = ran["score.plan"].result
    assert [(one["first"], one["last"]) for one in ranges] == [
        ({"month": month}, {"month": month}) for month in months
    ]
    for index, month in enumerate(months):
        task = ran[f"score.score[{index}]"]
        assert task.result["model"] == f"air@{model.id}"
        assert task.result["names"] == {"scored": [f"month={month}"]}
        assert task.events["air.scored"]["rows"] == task.result["rows"]
    rows = ds.dataset(sink, partitioning="hive").to_table()
    assert rows.num_rows == (31 + 28 + 31) * 24
    assert set(rows["model_id"].to_pylist()) == {model.id}
