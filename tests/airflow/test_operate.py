"""A model operated by one task group: gate, judgment, fallback to the prior, late labels."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

import probclass_core as pc
from probclass_airflow import operate_model
from probclass_core.errors import DataError, SpecError
from probclass_core.operation.runs import Judgment, judge_served, plan_run


def write_week(lake: Path, week: int, *, inverted: bool = False, labeled: bool = True) -> None:
    """A week in which x tells the class apart; inverted, it tells the opposite."""
    rng = np.random.default_rng(week)
    label = rng.permutation(np.arange(400) % 4 == 0)  # a quarter is true
    x = rng.normal(2.0 * label, 1.0)
    late = pa.array(label != inverted) if labeled else pa.nulls(400, pa.bool_())
    rows = pa.table({"x": x, "late": late})
    folder = lake / f"week={week}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "part-0.parquet")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for week in range(11, 19):
        write_week(tmp_path / "lake", week, inverted=week == 15)
    return tmp_path / "lake"


@pytest.fixture
def operate(
    run_dag: Callable[..., Any], lake: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., Any]:
    """Run the group for a week; returns its tasks by id."""

    def run(week: int, **more: Any) -> dict[str, Any]:
        with DAG(f"{request.node.name}_{week}", schedule=None) as dag:
            operate_model(
                "late",
                source=str(lake),
                sink=str(tmp_path / "scored"),
                store=str(tmp_path / "models"),
                label_column="late",
                partition={"week": str(week)},
                train_on=2,
                **more,
            )
        return {task_id.removeprefix("late."): ran for task_id, ran in run_dag(dag).items()}

    return run


def test_a_model_that_does_harm_is_replaced_by_its_prior_before_the_next_week_is_scored(
    operate: Callable[..., Any], lake: Path, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path / "models")
    first = operate(15)
    assert {task.state for task in first.values()} == {"success"}
    assert first["plan"].result["labeled"] == {"week": "14"}
    assert first["train"].result["rows"] == 800
    champion = store.resolve("late@champion")
    assert first["promote"].result["model"] == champion.ref
    assert first["judge"].result["served"] is None  # no run has scored week 14
    assert first["score"].result["model"] == champion.ref

    second = operate(16)  # the labels of week 15 have come: all of them are inverted
    judged = second["judge"].result
    assert judged["served"] == champion.ref
    assert judged["below_prior"] is True
    assert judged["log_loss"] > judged["baseline_log_loss"]
    assert judged["action"] == "promoted"
    entry = store.history("late", "champion")[-1]
    assert "worse than the class prior: log loss" in str(entry.reason)
    assert store.resolve("late@champion").ref == judged["model"] == second["score"].result["model"]
    trained = store.load(second["train"].result["model"])
    assert store.load("late@champion").id == trained.prior_only().id
    scored = pq.read_table(tmp_path / "scored" / "week=16")
    assert np.unique(scored["p_true"].to_numpy()) == pytest.approx([0.25])
    assert second["done"].state == "success"


def test_without_labels_or_with_a_failed_training_the_week_is_scored_by_the_champion(
    operate: Callable[..., Any], lake: Path
) -> None:
    first = operate(15)
    champion = first["score"].result["model"]
    write_week(lake, 15, labeled=False)
    late = operate(16, label_timeout=timedelta(seconds=0))
    skipped = {task_id for task_id, task in late.items() if task.state == "skipped"}
    assert skipped == {"labels", "train", "promote", "judge"}
    assert late["score"].result["model"] == champion
    assert late["score"].result["names"] == {"scored": ["week=16"]}, "what was served stays"
    assert late["done"].state == "success"

    broken = operate(18, exclude=["no such column"])
    states = {task_id: task.state for task_id, task in broken.items()}
    assert states["train"] == "failed"
    assert states["promote"] == "upstream_failed"
    assert states["judge"] == states["score"] == "success"
    assert states["done"] == "upstream_failed", "the run fails"
    assert broken["score"].result["model"] == champion
    assert broken["score"].result["names"] == {"scored": ["week=17", "week=18"]}  # 17 was missed


def test_a_week_whose_labels_came_late_is_judged_once_they_are_there(
    lake: Path, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path / "models")
    spec = pc.ModelSpec("late", [pc.Block("gaussian_diagonal", ["x"])])
    version = store.save(pc.fit(lake, spec, where="week <= 13"), "late")
    store.promote("late", version, "champion")
    sink = str(tmp_path / "scored")
    for week in (14, 15, 16):
        report = pc.score(store.load(version.ref), lake, sink, partition={"week": week})
        store.record_scoring(version, report)
    write_week(lake, 14, labeled=False)
    write_week(lake, 15, labeled=False)

    def judge(catch_up: int) -> Judgment:
        week = {"week": "16"}
        return judge_served(
            store, "late", lake, sink, week, fallback=None, catch_up=catch_up, by="test"
        )

    assert judge(7).late == []
    write_week(lake, 15, inverted=True)
    assert judge(0).late == []
    (late,) = judge(7).late
    assert late.to_dict()["partition"] == {"week": 15}
    assert late.below_prior
    assert late.served == version
    write_week(lake, 14)
    again = judge(7)
    assert [one["partition"] for one in again.to_dict()["late"]] == [{"week": 14}]
    assert judge(7).late == []


def test_the_windows_of_a_run_do_not_overlap_and_end_before_the_labels_do(lake: Path) -> None:
    plan = plan_run(lake, {"week": "17"}, train=3, judge=2, label_delay=2)
    assert plan.to_dict() == {
        "scored": {"week": "17"},
        "labeled": {"week": "15"},
        "train": [["week", ">=", 11], ["week", "<=", 13]],
        "judge": [["week", ">=", 14], ["week", "<=", 15]],
    }


@pytest.mark.parametrize(
    ("partition", "fields", "message"),
    [
        ({"week": "12"}, {}, "1 labeled partitions before week=12, and a run needs 13"),
        ({"week": "17"}, {"judge": 0}, "judge must be a number of partitions of at least 1, got 0"),
        ({"day": "17"}, {}, "counted along one partition column"),
    ],
)
def test_a_run_that_cannot_be_planned_says_why(
    lake: Path, partition: dict[str, str], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises((SpecError, DataError), match=message):
        plan_run(lake, partition, **fields)
