"""A task that scores whatever is missing or stale, woken by asset events, and batches of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, Asset, PartitionedAtRuntime
from lakes import write_rows

import probclass_core as pc
from probclass_airflow import ProbClassScoreOperator, score_task_group

ROWS = {"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "b", "a", "b"]}
SPEC = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])


def write_day(lake: Path, day: int) -> Path:
    return write_rows(lake / f"day=d{day:03d}", pa.table(ROWS)) / "0.parquet"


def score_badly(path: Path) -> None:
    """Write rows that can be read and not be scored."""
    pq.write_table(pa.table({**ROWS, "x": [0.0, float("inf"), 2.0, 3.0]}), path)


@pytest.fixture
def days(tmp_path: Path) -> Path:
    for day in range(6):
        write_day(tmp_path / "days", day)
    return tmp_path / "days"


@pytest.fixture
def fields(days: Path, tmp_path: Path) -> dict[str, Any]:
    """Arguments of an operator or of a group, with a saved model."""
    store = pc.ModelStore(tmp_path / "models")
    store.promote("tiny", store.save(pc.fit(ROWS, SPEC), "tiny"), "champion")
    places = {"source": str(days), "sink": str(tmp_path / "scored"), "store": store.uri}
    return {**places, "model": "tiny@champion"}


def test_a_run_scores_what_landed_and_says_whether_anything_changed(
    run: Any, fields: dict[str, Any], days: Path
) -> None:
    fields = {**fields, "changed": [Asset("scored", uri="file:///scored")]}
    first = run(ProbClassScoreOperator, partitions="day <= d003", **fields)
    assert (first.state, first.result["scored"], first.result["rows"]) == ("success", 4, 16)
    assert first.events["scored"] == first.result
    assert first.result["model"].startswith("tiny@")
    assert first.result["names"] == {"scored": [f"day=d00{day}" for day in range(4)]}
    store = pc.ModelStore(fields["store"])
    (record,) = store.scorings("tiny")
    assert [one["partition"]["day"] for one in record.partitions] == [f"d00{d}" for d in range(4)]
    again = run(ProbClassScoreOperator, partitions="day <= d003", **fields)
    assert (again.result["unchanged"], again.result["scored"], again.events) == (4, 0, {})
    assert len(store.scorings("tiny")) == 1

    for day in range(6, 12):
        write_day(days, day)
    shutil.rmtree(days / "day=d000")
    later = run(ProbClassScoreOperator, deleted="remove", **fields)
    assert (later.result["scored"], later.result["removed"]) == (8, 1)
    assert len(json.dumps(later.result)) < 2048
    limited = run(
        ProbClassScoreOperator, partitions={"where": [{"day": "d999"}], "limit": "1"}, **fields
    )
    assert (limited.state, limited.result["empty"], limited.events) == ("success", 1, {})


def test_a_run_with_partitions_names_each_that_it_scored_in_an_event_of_its_own(
    run_dag: Callable[..., Any], fields: dict[str, Any], days: Path
) -> None:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    def score_and_list_keys(**more: Any) -> list[str]:
        with DAG("keyed", schedule=PartitionedAtRuntime()) as dag:
            ProbClassScoreOperator(
                task_id="score",
                outlets=[Asset("keyed")],
                retry_delay=timedelta(0),
                **more,
                **fields,
            )
        with create_session() as session:
            before = session.scalars(select(AssetEvent.id)).all()
            states.append(run_dag(dag)["score"].state)
            query = select(AssetEvent.partition_key).where(AssetEvent.id.not_in(before))
            return sorted(str(key) for key in session.scalars(query))

    states: list[str] = []
    assert score_and_list_keys(partitions="day <= d001") == ["d000", "d001"]
    assert score_and_list_keys(partitions="day <= d001") == []
    damaged = days / "day=d003" / "rows.parquet"
    damaged.write_bytes(b"not yet complete")

    def arrive(context: Any) -> None:
        write_day(days, 3)

    keys = score_and_list_keys(retries=1, on_retry_callback=arrive)
    assert keys == ["d002", "d003", "d004", "d005"], "those of the first attempt as well"
    for region in ("eu", "us"):
        write_day(days.parent / "regions" / f"region={region}", 1)
    fields |= {"source": f"{days.parent}/regions", "sink": f"{days.parent}/scored_regions"}
    assert score_and_list_keys(partitions=[{"day": "d001"}]) == ["eu|d001", "us|d001"]
    assert set(states) == {"success"}


@pytest.mark.parametrize("may_pass", [False, True])
def test_a_failed_partition_fails_the_task_and_not_the_others(
    may_pass: bool, run: Any, fields: dict[str, Any], days: Path
) -> None:
    damaged = days / "day=d002" / "0.parquet"
    if may_pass:
        damaged.write_bytes(b"not yet complete")
    else:
        score_badly(damaged)
    task = run(ProbClassScoreOperator, retries=1, retry_delay=timedelta(0), **fields)
    assert (task.state, task.tries) == ("failed", 2 if may_pass else 1)
    outcome = task.result["unchanged" if may_pass else "scored"]
    assert (outcome, task.result["failed"]) == (5, 1)
    assert task.result["names"]["failed"] == ["day=d002"]
    assert len(task.result["errors"]) == 1
    scored = pc.open_table(fields["sink"]).partitions()
    assert [one["day"] for one in scored] == ["d000", "d001", "d003", "d004", "d005"]
    write_day(days, 2)
    assert run(ProbClassScoreOperator, **fields).result["scored"] == 1


def test_batches_score_many_partitions_and_a_damaged_one_fails_alone(
    run_dag: Callable[..., Any], fields: dict[str, Any], days: Path
) -> None:
    for day in range(6, 30):
        write_day(days, day)
    score_badly(write_day(days, 15))

    def scoring(dag_id: str, batch: Any) -> DAG:
        with DAG(dag_id, schedule=None) as dag:
            score_task_group(batch=batch, partitions="day != d003", **fields)
        return dag

    ran = run_dag(scoring("batches", 10))
    assert ran["score.plan"].result[0]["first"] == {"day": "d000"}
    assert len(ran["score.plan"].result) == 3
    tasks = [ran[f"score.score[{index}]"] for index in range(3)]
    assert [task.state for task in tasks] == ["success", "failed", "success"]
    assert [task.result["failed"] for task in tasks] == [0, 1, 0]
    assert sum(task.result["scored"] for task in tasks) == 28
    assert len({task.result["model"] for task in tasks}) == 1
    write_day(days, 15)
    again = run_dag(scoring("one_batch", "auto"))
    ends = {"first": {"day": "d015"}, "last": {"day": "d015"}}
    assert again["score.plan"].result == [{"where": "day != d003", **ends}]
    assert again["score.score[0]"].result["scored"] == 1
    nothing = run_dag(scoring("no_batch", "auto"))
    assert nothing["score.plan"].result == []
    assert nothing["score.score"].state == "skipped"


def test_batches_remove_what_is_gone_and_say_which_tasks_changed_something(
    run_dag: Callable[..., Any], fields: dict[str, Any], days: Path
) -> None:
    model = pc.ModelStore(fields["store"]).load(fields["model"])
    pc.score(model, days, fields["sink"], options=pc.ScoringOptions(prior={"a": 0.9, "b": 0.1}))
    for gone in (1, 4):
        shutil.rmtree(days / f"day=d00{gone}")
    write_day(days, 9)
    more = {
        "options": {"prior": {"a": "0.9", "b": "{{ 0.1 }}"}, "watch": {"fail": ["nulls"]}},
        "changed": [Asset("changed")],
        "deleted": "remove",
    }
    with DAG("batches_and_removal", schedule=None) as dag:
        score_task_group(batch=2, **more, **fields)
    ran = run_dag(dag)
    first, second = (ran[f"score.score[{index}]"] for index in range(2))
    assert first.result["names"] == {"removed": ["day=d001", "day=d004"]}
    assert second.result["names"] == {"scored": ["day=d009"]}
    assert first.events == {"changed": first.result}
    listed = [one["day"] for one in pc.open_table(fields["sink"]).partitions()]
    assert listed == ["d000", "d002", "d003", "d005", "d009"]


def test_a_partition_beside_partitions_is_an_error_when_the_file_is_parsed(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="give partition or partitions, not both"):
        ProbClassScoreOperator(
            task_id="score", partition={"day": "d001"}, partitions="day > d001", **fields
        )
