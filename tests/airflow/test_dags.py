"""The example DAGs: they parse, cover the months of the data, and train and score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from airflow.sdk.exceptions import ParamValidationError

import probclass_core as pc
from probclass_core.demo.lake import lay_out
from probclass_core.operation.promotion import evaluate_paired

ROOT = Path(__file__).parents[2]
MODELS = ("air_full", "air_naive", "air_pool")
OPERATION = ("plan", "train", "promote", "judge", "score", "done")
TRAINING = ("plan", "summarize", "merge", "promote")


@pytest.fixture(scope="module")
def dags(airflow_database: None) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import BundleDagBag

    bag = BundleDagBag(ROOT / "dags", bundle_path=ROOT / "dags", bundle_name="dags-folder")
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_the_folder_has_these_dags(dags: dict[str, Any]) -> None:
    tasks = {dag_id: set(dag.task_dict) for dag_id, dag in dags.items()}
    assert tasks == {
        "air_quality_train": set(MODELS),
        "air_quality_score": {f"{m}.{verb}" for m in MODELS for verb in ("score", "evaluate")},
        "air_quality_champion": {f"{m}.{verb}" for m in MODELS for verb in TRAINING},
        "air_quality_rescore": {"rescore.plan", "rescore.score"},
        "air_quality_by_hand": {"train", "promote"},
        "air_quality_operate": {f"air.{verb}" for verb in OPERATION},
        "air_quality_unusual": {f"weather.{verb}" for verb in OPERATION if verb != "judge"},
        "air_quality_undo": {"rollback.rollback", "rollback.rescore"},
        "air_quality_sql": {"score"},
        "air_quality_window": {"train", "score"},
        "air_quality_upkeep": {"clean"},
        "air_quality_weekly_model": {"train"},
        "air_quality_daily_score": {"score"},
        "air_quality_weekly_quality": {"evaluate"},
        "air_quality_rows": {"arrived"},
        "air_quality_labels": {"arrived"},
    }


@pytest.mark.parametrize(
    "dag_id", ["air_quality_train", "air_quality_score", "air_quality_champion"]
)
def test_a_run_covers_a_month_of_the_data(dags: dict[str, Any], dag_id: str) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dags[dag_id]))
    runs = list(dag.iter_dagrun_infos_between(dag.start_date, dag.end_date))
    months = [
        (f"{run.data_interval.start:%Y-%m}", f"{run.data_interval.end:%Y-%m}") for run in runs
    ]
    assert len(months) == 48
    assert months[0] == ("2011-01", "2011-02")
    assert months[-1] == ("2014-12", "2015-01")


def test_a_month_is_trained_scored_and_evaluated(
    dags: dict[str, Any], run_dag: Callable[..., Any], lake: str, tmp_path: Path
) -> None:
    (tmp_path / "lake").symlink_to(lake)
    home = str(tmp_path)
    # A monthly DAG that is triggered by hand works on the month that has just ended.
    trained = run_dag(dags["air_quality_train"], date="2014-04-01", home=home)
    scored = run_dag(dags["air_quality_score"], date="2014-04-01", home=home)

    assert {task.state for task in (*trained.values(), *scored.values())} == {"success"}
    for name in MODELS:
        spec = pc.ModelSpec.from_file(ROOT / "dags" / "specs" / f"{name}.toml")
        year = [("month", ">=", "2013-03"), ("month", "<", "2014-03")]
        expected = pc.fit(lake, spec, where=year)
        store = pc.ModelStore(tmp_path / "models")
        assert store.resolve(f"{name}@2014-03").id == expected.id
        assert scored[f"{name}.score"].result["model"] == f"{name}@{expected.id}"
        rows = ds.dataset(tmp_path / "scored" / name, partitioning="hive").to_table()
        assert rows.num_rows == 31 * 24
        assert set(rows["model_id"].to_pylist()) == {expected.id}
        evaluated = scored[f"{name}.evaluate"]
        assert evaluated.events[f"{name}.quality"]["log_loss"] == pytest.approx(
            pc.evaluate(expected, lake, partition={"month": "2014-03"}).log_loss, rel=1e-12
        )


@pytest.mark.nightly
def test_only_a_better_model_replaces_the_champion_which_scores_the_months(
    dags: dict[str, Any], run_dag: Callable[..., Any], lake: str, tmp_path: Path
) -> None:
    (tmp_path / "lake").symlink_to(lake)
    home = str(tmp_path)
    store = pc.ModelStore(tmp_path / "models")
    first = run_dag(dags["air_quality_champion"], date="2014-04-01", home=home)
    second = run_dag(dags["air_quality_champion"], date="2014-05-01", home=home)
    for name in MODELS:
        spec = pc.ModelSpec.from_file(ROOT / "dags" / "specs" / f"{name}.toml")
        windows = [
            pc.fit(lake, spec, where=[("month", ">=", since), ("month", "<", until)])
            for since, until in (("2013-03", "2014-03"), ("2013-04", "2014-04"))
        ]
        assert first[f"{name}.promote"].result["model"] == f"{name}@{windows[0].id}"
        assert second[f"{name}.merge"].result["model"] == f"{name}@{windows[1].id}"
        april = evaluate_paired(*windows[::-1], lake, partition={"month": "2014-04"})
        better = (april.gains["log_loss"].z or 0.0) >= 1.0
        assert second[f"{name}.promote"].result["promoted"] is better
        assert store.resolve(f"{name}@champion").id == windows[better].id

    conf = {"home": home, "first": "2014-01", "last": "2014-03"}
    scored = run_dag(dags["air_quality_rescore"], **conf)
    assert {task.state for task in scored.values()} == {"success"}
    rows = ds.dataset(tmp_path / "scored" / "champion", partitioning="hive").to_table()
    assert rows.num_rows == (31 + 28 + 31) * 24
    assert set(rows["model_id"].to_pylist()) == {store.resolve("air_full@champion").id}


def test_a_window_of_ninety_days_reads_one_new_day_per_run(
    dags: dict[str, Any], run_dag: Callable[..., Any], tmp_path: Path
) -> None:
    days = lay_out(tmp_path / "days", "day")
    spec = pc.ModelSpec.from_file(ROOT / "dags" / "specs" / "air_full.toml")
    runs = [
        run_dag(dags["air_quality_window"], date=date, home=str(tmp_path))
        for date in ("2014-06-01", "2014-06-02")
    ]
    trained = [run["train"].result for run in runs]
    assert [result["cache"] for result in trained] == [
        {"units": 90, "reused": 0},
        {"units": 90, "reused": 89},
    ]
    # A daily DAG that is triggered by hand works on the day that has just ended.
    window = [("day", ">=", "2014-03-03"), ("day", "<", "2014-06-01")]
    assert trained[1]["model"] == f"air_window@{pc.fit(days, spec, where=window).id}"
    scored = [run["score"].result for run in runs]
    assert [(result["partition"]["day"], result["unchanged"]) for result in scored] == [
        ("2014-05-31", 0),
        ("2014-06-01", 0),
    ]


def test_the_form_accepts_only_months(dags: dict[str, Any]) -> None:
    params = dags["air_quality_by_hand"].params
    assert params.validate()["first"] == "2013-01"
    with pytest.raises(ParamValidationError, match="does not match"):
        params["first"] = "2013-13-01"
