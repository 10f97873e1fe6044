"""A model operated by one task group: gate, judgment, fallback to the prior, late labels."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, Asset
from lakes import write_rows

import probclass_core as pc
from probclass_airflow import operate_model
from probclass_airflow.operate import faults
from probclass_core.errors import DataError, SpecError
from probclass_core.operation.runs import Judgment, judge_served, plan_run
from probclass_core.store.results import unscored


def write_week(lake: Path, week: int, *, inverted: bool = False, labeled: bool = True) -> None:
    """A week in which x tells the class apart; inverted, it tells the opposite."""
    rng = np.random.default_rng(week)
    label = rng.permutation(np.arange(400) % 4 == 0)  # a quarter is true
    x = rng.normal(2.0 * label, 1.0)
    late = pa.array(label != inverted) if labeled else pa.nulls(400, pa.bool_())
    rows = pa.table({"x": x, "late": late})
    write_rows(lake / f"week={week}", rows)


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
                sink=str(tmp_path / "scored"),
                store=str(tmp_path / "models"),
                partition={"week": str(week)},
                train_on=2,
                **{
                    "source": str(lake),
                    "label_column": "late",
                    "default_args": {"retries": 0},
                    **more,
                },
            )
        return {task_id.removeprefix("late."): ran for task_id, ran in run_dag(dag).items()}

    return run


def test_a_model_that_does_harm_is_replaced_by_its_prior_before_the_next_week_is_scored(
    operate: Callable[..., Any], lake: Path, tmp_path: Path
) -> None:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    store = pc.ModelStore(tmp_path / "models")
    first = operate(15)
    assert {task.state for task in first.values()} == {"success"}
    with create_session() as session:
        xcoms = session.scalars(select(XComModel.key).where(XComModel.dag_id.endswith("_15"))).all()
    assert len(xcoms) <= 12, xcoms
    files = [path for path in (tmp_path / "models").rglob("*") if path.is_file()]
    assert len(files) <= 9, files
    assert first["plan"].result["labeled"] == {"week": "14"}
    assert first["train"].result["rows"] == 800
    champion = store.resolve("late@champion")
    assert first["promote"].result["model"] == champion.ref
    assert first["judge"].result["served"] is None  # no run has scored week 14
    assert first["score"].result["model"] == champion.ref

    second = operate(16, alerts=[Asset("faults")])  # the labels of week 15 have come, inverted
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
    assert second["done"].state == "failed", "a fallback is not green"
    reported = dict(second["alert"].events["faults"]["faults"])
    assert reported["worse"].startswith("week=15: worse than the class prior, log loss ")
    assert "refused" in reported


def test_before_a_first_version_is_approved_the_report_says_what_is_awaited() -> None:
    prior, proposed = f"air@{64 * 'a'}", f"air@{64 * 'b'}"
    judged = {"sentence": "week=14: no scoring is recorded", "model": prior, "fell_back": True}
    promoted = {"action": "proposed", "model": proposed}
    (fault,) = faults({"plan": {}, "promote": promoted, "judge": judged, "score": {}})
    awaited = "air@aaaaaaaaaaaa is in force until air@bbbbbbbbbbbb is approved."
    assert fault == ("worse", f"week=14: no scoring is recorded. {awaited}")


def test_with_a_failed_training_the_week_is_scored_by_the_champion(
    operate: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import update

    from probclass_airflow.ui.runs import newest_runs

    champion = operate(15)["score"].result["model"]
    broken = operate(17, exclude=["no such column"])
    states = {task_id: task.state for task_id, task in broken.items()}
    assert states["train"] == states["done"] == "failed"
    assert states["promote"] == "upstream_failed"
    assert states["judge"] == states["score"] == "success"
    assert broken["score"].result["model"] == champion
    assert broken["score"].result["names"] == {"scored": ["week=16", "week=17"]}  # 16 was missed
    dag_id = f"{request.node.name}_17"
    with create_session() as session:
        (run,) = newest_runs(session, dag_id)
        assert newest_runs(session, "no such DAG") == []
        session.execute(update(DagRun).where(DagRun.dag_id == dag_id).values(state="running"))
        (unfinished,) = newest_runs(session, dag_id)
        session.rollback()
    assert unfinished.state == "running"
    assert run.state == "failed"
    assert run.failed == ["late.train", "late.done"]


def test_before_a_model_exists_a_run_with_too_few_weeks_fails_at_once_and_says_why(
    operate: Callable[..., Any],
) -> None:
    first = operate(12, default_args={"retries": 2})
    assert {first[task].state for task in ("train", "promote", "judge", "score")} == {"skipped"}
    assert first["done"].state == "failed"
    assert operate(14)["score"].state == "success"


def test_without_a_label_the_gate_compares_densities_and_an_unusual_week_is_not_green(
    operate: Callable[..., Any], lake: Path, tmp_path: Path
) -> None:
    density: dict[str, Any] = {"label_column": None, "exclude": ["late"]}
    first = operate(15, **density)
    assert {task.state for task in first.values()} == {"success"}
    assert set(first) == {"plan", "train", "promote", "score", "done"}
    assert first["promote"].result["reason"] == "there is no champion yet"
    scored = pq.read_table(tmp_path / "scored" / "week=15")
    assert np.mean(scored["rarity"].to_numpy() <= 0.1) == pytest.approx(0.1, abs=0.05)
    path = lake / "week=16" / "0.parquet"
    rows = pq.read_table(path)
    fahrenheit = pa.compute.add(32.0, pa.compute.multiply(rows["x"], 1.8))
    pq.write_table(rows.set_column(0, "x", fahrenheit), path)
    second = operate(16, **density, alerts=[Asset("faults")])
    assert second["done"].state == "failed"
    said = [text for fault, text in second["alert"].events["faults"]["faults"]]
    assert any("density is below the 1 % quantile of training" in one for one in said)
    third = operate(17, **density)  # judged on the week of the fault, which neither has seen
    assert "log_density" in third["promote"].result["reason"]


def test_a_backfill_after_the_schedule_changes_nothing(
    operate: Callable[..., Any], lake: Path, tmp_path: Path
) -> None:
    first = operate(18)
    past = operate(15)
    assert "late@champion was judged up to week=17" in past["plan"].result["problem"]
    states = {past[task].state for task in ("train", "promote", "judge", "score")}
    assert (states, past["done"].state) == ({"skipped"}, "failed")
    store = pc.ModelStore(tmp_path / "models")
    assert store.resolve("late@champion").ref == first["score"].result["model"]
    assert not (tmp_path / "scored" / "week=15").exists()
    # A cleared task of the past has its old windows.
    older = store.save(store.load("late@champion").prior_only(), "late")
    refused = pc.promote_if_better(store, older, lake, where="week >= 14 and week <= 14")
    assert refused.action == "refused"
    assert "before week=17, up to which the champion was judged" in str(refused.reason)
    sink = tmp_path / "scored"
    assert judge_served(store, "late", lake, sink, {"week": 15}).promotion is None
    assert operate(18)["done"].state == "success"


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
        "train_partitions": 3,
        "judge": [["week", ">=", 14], ["week", "<=", 15]],
        "missing": None,
    }


def test_a_run_trains_on_the_partitions_that_there_are_up_to_the_largest_number(lake: Path) -> None:
    for week in (11, 12, 14):
        shutil.move(lake / f"week={week}", lake.parent)  # not there yet, or lost
    trained = {
        week: (plan.train_partitions, plan.train, plan.judge)
        for week in (16, 17, 18)
        for plan in [plan_run(lake, {"week": str(week)}, train=2)]
    }
    assert trained == {
        16: (1, [("week", "==", 13)], [("week", "==", 15)]),
        17: (2, [("week", ">=", 13), ("week", "<=", 15)], [("week", "==", 16)]),
        18: (2, [("week", ">=", 15), ("week", "<=", 16)], [("week", "==", 17)]),
    }


def test_a_new_table_is_operated_from_its_second_labeled_week_on(
    operate: Callable[..., Any], tmp_path: Path
) -> None:
    early = operate(12)
    assert "1 labeled partition before week=12" in early["plan"].result["problem"]
    assert early["done"].state == "failed"
    first = operate(13)
    assert {task.state for task in first.values()} == {"success"}
    assert first["plan"].result["train_partitions"] == 1
    assert first["train"].result["rows"] == 400
    assert operate(15)["plan"].result["train_partitions"] == 2
    assert pc.ModelStore(tmp_path / "models").resolve("late@champion")


@pytest.mark.parametrize(
    ("partitions", "scored", "gap"),
    [
        (["2013-09", "2013-10", "2013-11"], "2014-12", 13),
        (["201309", "201310", "201311"], "201412", 13),
        (["2014-01-03", "2014-01-06", "2014-01-07"], "2014-01-17", None),  # some days are off
        (["2014-01-03", "2014-01-06", "2014-01-07", "2014-01-08"], "2014-01-20", 12),
        (["2013-W50", "2013-W51", "2013-W52"], "2014-W12", 12),
        (["2014-01-01T07", "2014-01-01T08", "2014-01-01T09"], "2014-01-02T09", 24),
        (["b", "c", "d"], "x", None),
    ],
)
def test_partitions_far_away_are_not_trained_on(
    tmp_path: Path, partitions: list[str], scored: str, gap: int | None
) -> None:
    for name in partitions:
        write_rows(tmp_path / f"at={name}", pa.table({"x": [1.0]}))
    if gap is None:
        assert plan_run(tmp_path, {"at": scored}, train=1).labeled == {"at": partitions[-1]}
        return
    with pytest.raises(DataError, match=rf"is {gap} partitions before at={scored}"):
        plan_run(tmp_path, {"at": scored}, train=1)
    assert plan_run(tmp_path, {"at": scored}, train=1, max_gap=gap - 1).train


@pytest.fixture
def by_region(tmp_path: Path) -> Path:
    """A table by region and week; a region differs from the other in how often rows are late."""
    for week in range(11, 19):
        write_week(tmp_path / "regions" / "region=eu", week)
        path = write_rows(tmp_path / "regions" / "region=us" / f"week={week}")
        rows = pq.read_table(tmp_path / "regions" / "region=eu" / f"week={week}" / "0.parquet")
        late = pa.compute.or_(rows["late"], pa.compute.greater(rows["x"], 1.0))
        pq.write_table(rows.set_column(1, "late", late), path / "0.parquet")
    return tmp_path / "regions"


def test_of_a_table_by_region_and_week_a_run_takes_all_regions_of_its_week(
    by_region: Path, operate: Callable[..., Any], tmp_path: Path
) -> None:
    def run(week: int, **more: Any) -> dict[str, Any]:
        return dict(operate(week, source=str(by_region), **more))

    first = run(15)
    assert first["done"].state == "success"
    assert first["plan"].result["train"] == [["week", ">=", 12], ["week", "<=", 13]]
    assert first["train"].result["rows"] == 4 * 400
    assert first["promote"].result["rows"] == 2 * 400
    store = pc.ModelStore(tmp_path / "models")
    spec = store.load("late@champion").spec
    assert spec.groups == ("week",), "weights are fitted across weeks, not regions"
    assert "region" in spec.features
    assert first["score"].result["names"] == {"scored": ["region=eu/week=15", "region=us/week=15"]}

    shutil.move(by_region / "region=us" / "week=16", tmp_path / "later")
    second = run(16)
    assert second["plan"].result["incomplete"] == ["week=16 has no region=us, and week=15 has"]
    assert second["score"].result["names"] == {"scored": ["region=eu/week=16"]}
    assert second["done"].state == "failed"
    assert second["judge"].result["served"] == first["score"].result["model"]
    assert second["judge"].result["rows"] == 2 * 400
    assert run(16, fail_on=())["done"].state == "success"

    shutil.move(tmp_path / "later", by_region / "region=us" / "week=16")
    third = run(17)
    assert third["score"].result["names"] == {
        "scored": ["region=eu/week=17", "region=us/week=16", "region=us/week=17"]
    }
    assert third["done"].state == "success"
    past = run(15)
    assert "late@champion was judged up to week=16" in past["plan"].result["problem"]

    path = by_region / "region=us" / "week=17" / "0.parquet"
    pq.write_table(pa.concat_tables([pq.read_table(path)] * 2), path)
    for region in ("eu", "us"):
        shutil.move(by_region / f"region={region}" / "week=18", tmp_path / region)
    last = run(18)
    changed = "region=us/week=17 had 400 rows when it was scored, and has 800 now"
    assert last["plan"].result["changed"] == [changed]
    assert last["score"].state == last["done"].state == "failed"
    assert "has no rows of week=18 to score" in last["score"].result["errors"][0]
    for region in ("eu", "us"):
        shutil.move(tmp_path / region, by_region / f"region={region}" / "week=18")
        write_week(by_region / f"region={region}", 19)
    assert len(run(19)["score"].result["names"]["scored"]) == 4
    assert unscored(store.scorings("late")) == []


@pytest.mark.parametrize("partition", [{"region": "eu", "week": "14"}, {"x": "1"}])
def test_of_several_partition_columns_one_is_named_as_the_time(
    partition: dict[str, str], by_region: Path
) -> None:
    with pytest.raises(
        SpecError, match=r"name the one that is the time, such as \{'\w+': …\}: a run"
    ):
        plan_run(by_region, partition, train=2)
    if len(partition) > 1:
        with DAG("regions", schedule=None), pytest.raises(ValueError, match="that is the time"):
            operate_model(
                "late",
                source="/lake",
                sink="/scored",
                store="/models",
                partition=partition,
                label_column="late",
            )


@pytest.mark.parametrize(
    "partition", [{"day": "05"}, {"month": 1}, {"year": "2014", "month": "01", "day": "05"}]
)
def test_a_part_of_a_date_is_not_the_time(partition: dict[str, Any], tmp_path: Path) -> None:
    rows = pa.table({"x": [1.0], "late": [True]})
    for day in range(1, 6):
        write_rows(tmp_path / "lake/year=2014/month=01" / f"day={day:02d}", rows)
    with pytest.raises(SpecError, match="whole date in one column, such as day=2014"):
        plan_run(tmp_path / "lake", partition, train=2)
    for day in range(1, 6):
        write_rows(tmp_path / "whole/month=2014-01" / f"day=2014-01-{day:02d}", rows)
    plan = plan_run(tmp_path / "whole", {"day": "2014-01-05"}, train=2)
    assert plan.labeled == {"day": "2014-01-04"}


def test_a_label_that_the_table_lacks_is_no_label_that_is_late(by_region: Path) -> None:
    with pytest.raises(SpecError, match=r"no column 'lat'; the table has .* mean 'late'\?"):
        plan_run(by_region, {"week": "14"}, label="lat", train=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partition": "week=14"}, r"one partition column, got 'week=14'; name the one"),
        ({"partition": None}, r"one partition column, got None; name the one"),
        ({"options": ["time"]}, r"options are by name, such as .*, got \['time'\]"),
        ({"options": {"column": ["time"]}}, r"options has no 'column'; it has columns, posterior"),
        ({"options": {"decision": "ml"}}, r"no 'decision'; .* decision is an argument"),
        ({"train_on": "12"}, "train_on is a number of partitions from 1 on, got '12'"),
        ({"label_delay": 0}, "label_delay is a number of partitions from 1 on, got 0"),
        ({"catch_up": -1}, "catch_up is a number of partitions from 0 on, got -1"),
        ({"fallback": "prio"}, "fallback is 'prior', 'rollback' or None, got 'prio'"),
        ({"fail_on": ["worce"]}, r"fail_on is a list of 'labels', .*, got \['worce'\]"),
        ({"fail_on": "worse"}, r"fail_on is a list of 'labels', .*, got 'worse'"),
    ],
)
def test_a_wrong_argument_is_an_error_when_the_file_is_parsed(
    wrong: dict[str, Any], message: str
) -> None:
    right = {"source": "/lake", "sink": "/scored", "store": "/models", "label_column": "late"}
    given: dict[str, Any] = {**right, "partition": {"week": "14"}, **wrong}
    with DAG("wrong", schedule=None), pytest.raises(ValueError, match=message):
        operate_model("late", **given)


@pytest.mark.parametrize("field", dataclasses.fields(pc.ScoringOptions))
def test_every_option_of_scoring_is_an_option(field: dataclasses.Field[Any]) -> None:
    given = {"sink": "/scored", "store": "/models", "partition": {"week": "14"}}
    option = {"decision": "map"} if field.name == "decision" else {"options": {field.name: None}}
    with DAG("options", schedule=None) as dag:
        operate_model("late", source="/lake", label_column="late", **given, **option)
    assert field.name in dag.get_task("late.score").options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"label_column": "late"}, "auto"),
        ({"label_column": "late", "half_life": 8}, 8),
        ({"label_column": "late", "half_life": None}, None),
        ({"label_column": "late", "spec": "/specs/late.toml"}, None),
        ({"label_column": None}, None),
    ],
)
def test_a_half_life_is_chosen_for_derived_models_with_a_label(
    given: dict[str, Any], expected: Any
) -> None:
    with DAG("late", schedule=None) as dag:
        operate_model(
            "late",
            source="/lake",
            sink="/scored",
            store="/models",
            partition={"week": "18"},
            **given,
        )
    assert dag.get_task("late.train").half_life == expected


def test_every_argument_is_in_the_table_of_its_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "operate.md"
    lines = page.read_text(encoding="utf-8").split("| argument |")[1].split("\n\n")[0]
    first = " ".join(line.split("|")[1] for line in lines.splitlines()[2:])
    assert {*re.findall(r"`(\w+)`", first)} == {*signature(operate_model).parameters}


@pytest.mark.parametrize(
    ("partition", "fields", "message"),
    [
        ({"week": "12"}, {}, "1 labeled partition before week=12, and a run needs 2 or more"),
        ({"week": "17"}, {"judge": 0}, "judge must be a number of at least 1, got 0"),
        ({"day": "17"}, {}, "counted along one partition column"),
    ],
)
def test_a_run_that_cannot_be_planned_says_why(
    lake: Path, partition: dict[str, str], fields: dict[str, Any], message: str
) -> None:
    with pytest.raises((SpecError, DataError), match=message):
        plan_run(lake, partition, **fields)
