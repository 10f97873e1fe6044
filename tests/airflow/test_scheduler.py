"""The example DAGs with Airflow's scheduler: assets, partitions, backfills, paused DAGs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow.dataset as ds
import pytest
from rest_client import Client, wait_for

import probclass_core as pc
from probclass_airflow.demo.local_airflow import LocalAirflow
from probclass_core.demo.lake import lay_out

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]
WEEK = [f"2014-01-{day:02d}" for day in range(6, 13)]
BACKFILLED = [
    date(2014, 6, 1) + timedelta(days=day)
    for day in range(int(os.getenv("PROBCLASS_BACKFILL", "5")))
]
"""Days of the backfill: `make backfill` takes ninety."""


OPERATED = '''
"""A model that is served."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from air_quality_settings import COMMON, DAILY, DAY, DAYS, LAKE, SCORED, STORE
from airflow.sdk import (
    DAG,
    Asset,
    DeadlineAlert,
    DeadlineReference,
    PartitionedAssetTimetable,
    PartitionedAtRuntime,
    SyncCallback,
    task,
)

from probclass_airflow import (
    ProbClassApproveOperator,
    ProbClassEvaluateOperator,
    ProbClassPromoteOperator,
    ProbClassScoreOperator,
)

LANDED = "{{ params.home }}/landed"

with DAG("serve", schedule=[Asset("landed")], max_active_runs=1, **COMMON):
    ProbClassScoreOperator(
        task_id="score",
        source=LANDED,
        sink=f"{SCORED}/landed",
        store=STORE,
        model="served@champion",
        options={"columns": ["time"]},
        deleted="remove",
    )

with DAG("keyed", schedule=PartitionedAtRuntime(), **COMMON):
    ProbClassScoreOperator(
        task_id="score",
        source=DAYS,
        sink=f"{SCORED}/keyed",
        store=STORE,
        model="served@champion",
        partitions=[
            ("day", ">=", "{{ dag_run.conf['first'] }}"),
            ("day", "<=", "{{ dag_run.conf['last'] }}"),
        ],
        outlets=[Asset("keyed")],
    )

with DAG("by_day", schedule=PartitionedAssetTimetable(assets=Asset("keyed")), **COMMON):
    ProbClassEvaluateOperator(
        task_id="evaluate",
        source=DAYS,
        store=STORE,
        model="served@champion",
        partition={"day": "{{ partition_key }}"},
    )

with DAG("asked", schedule=None, **COMMON):
    gate = ProbClassPromoteOperator(
        task_id="gate",
        source=LAKE,
        store=STORE,
        model="served@new",
        partition={"month": "2014-02"},
        allow_training_rows=True,
        propose=True,
    )
    ProbClassApproveOperator(
        task_id="approve",
        proposal=gate.output,
        store=STORE,
        response_timeout=timedelta(hours=1),
        outlets=[Asset("approved")],
    )


def say(context: dict[str, Any], text: str) -> None:
    Path(os.environ["PROBCLASS_HOME"], "said").write_text(f"{context['dag_run']['dag_id']}: {text}")


late = DeadlineAlert(
    reference=DeadlineReference.DAGRUN_QUEUED_AT,
    interval=timedelta(seconds=1),
    callback=SyncCallback(say, {"text": "the labels are late"}),
)

with DAG("late", schedule=None, deadline=late, **COMMON):

    @task.sensor(poke_interval=2, timeout=3600)
    def arrived() -> bool:
        return Path(os.environ["PROBCLASS_HOME"], "said").exists()

    arrived()

with DAG("backfilled", **DAILY):
    ProbClassScoreOperator(
        task_id="score",
        source=DAYS,
        sink=f"{SCORED}/backfilled",
        store=STORE,
        model="served@champion",
        partition={"day": DAY},
        options={"columns": ["time"]},
        outlets=[Asset("backfilled")],
    )

'''


@pytest.fixture(scope="module")
def home(lake: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the lake, the models and the scored tables."""
    home = tmp_path_factory.mktemp("scheduled")
    (home / "lake").symlink_to(lake)
    lay_out(home / "days", "day")
    shutil.copytree(ROOT / "dags", home / "dags")
    (home / "dags" / "operated.py").write_text(OPERATED)
    return home


@pytest.fixture(scope="module")
def airflow(home: Path) -> Iterator[LocalAirflow]:
    with LocalAirflow(
        home=home / "airflow",
        dags=home / "dags",
        plugins=ROOT / "plugins",
        environment={"PROBCLASS_HOME": str(home)},
    ) as airflow:
        airflow.start()
        # SQLite has one writer: a backfill that is created beside the scheduler may find it locked.
        dates = ["--from-date", str(BACKFILLED[0]), "--to-date", str(BACKFILLED[-1])]
        airflow.command("backfill", "create", "--dag-id", "backfilled", *dates)
        airflow.start_scheduler()
        yield airflow


@pytest.fixture(scope="module")
def client(airflow: LocalAirflow) -> Iterator[Client]:
    with httpx.Client(base_url=airflow.url, trust_env=False, timeout=120.0) as http:
        yield Client(http)


@pytest.fixture(scope="module")
def rescored(client: Client) -> str:
    """Id of the run that a promotion by hand has triggered."""
    client.unpause("air_quality_by_hand", "air_quality_rescore")
    client.trigger("air_quality_by_hand", conf={"first": "2012-07"})

    def done() -> str | None:
        return next(
            (
                run["dag_run_id"]
                for run in client.runs("air_quality_rescore")
                if run["state"] == "success"
            ),
            None,
        )

    return str(wait_for(done))


def test_a_promotion_triggers_a_run_over_twelve_partitions_without_a_logical_date(
    client: Client, rescored: str, home: Path
) -> None:
    (run,) = client.runs("air_quality_rescore")
    assert (run["run_type"], run["logical_date"]) == ("asset_triggered", None)
    (by_hand,) = client.runs("air_quality_by_hand")
    assert by_hand["conf"]["first"] == "2012-07"
    champion = pc.ModelStore(home / "models").resolve("air_full@champion")
    spec = pc.ModelSpec.from_file(ROOT / "dags" / "specs" / "air_full.toml")
    months = [("month", ">=", "2012-07"), ("month", "<=", "2013-12")]
    assert champion.id == pc.fit(home / "lake", spec, where=months).id
    scored = ds.dataset(home / "scored" / "champion", partitioning="hive").to_table()
    assert scored.num_rows == 365 * 24
    assert set(scored["model_id"].to_pylist()) == {champion.id}


def test_a_weekly_model_scores_the_seven_days_of_its_week(client: Client, home: Path) -> None:
    client.unpause("air_quality_weekly_quality", "air_quality_daily_score")
    client.unpause("air_quality_weekly_model")
    client.trigger("air_quality_weekly_model", partition_key=WEEK[0])

    def done() -> list[dict[str, Any]] | None:
        runs = client.runs("air_quality_daily_score")
        return runs if [run["state"] for run in runs] == ["success"] * 7 else None

    runs = wait_for(done)
    assert sorted(run["partition_key"] for run in runs) == WEEK
    scored = ds.dataset(home / "scored" / "air_weekly", partitioning="hive").to_table()
    assert scored.num_rows == 7 * 24
    weekly = pc.ModelStore(home / "models").resolve(f"air_weekly@{WEEK[0]}")
    assert set(scored["model_id"].to_pylist()) == {weekly.id}
    half_year = [("day", ">=", "2013-07-08"), ("day", "<", "2014-01-06")]
    spec = pc.ModelSpec.from_file(ROOT / "dags" / "specs" / "air_full.toml")
    assert weekly.id == pc.fit(home / "days", spec, where=half_year).id
    # The events of the seven days roll up to one run of the week.
    (week,) = wait_for(
        lambda: [
            run for run in client.runs("air_quality_weekly_quality") if run["state"] == "success"
        ]
    )
    assert week["partition_key"] == WEEK[0]
    result = client.result("air_quality_weekly_quality", week["dag_run_id"], "evaluate", -1)
    assert (result["model"], result["rows"]) == (weekly.ref, 7 * 24 - result["null_labels"])


def test_each_partition_that_a_run_scores_starts_a_run_of_its_own(
    client: Client, home: Path, served: pc.ModelStore
) -> None:
    client.unpause("by_day", "keyed")
    client.trigger("keyed", conf={"first": WEEK[0], "last": WEEK[2]})

    def done() -> list[dict[str, Any]] | None:
        runs = client.runs("by_day")
        return runs if [run["state"] for run in runs] == ["success"] * 3 else None

    runs = {run["partition_key"]: run["dag_run_id"] for run in wait_for(done)}
    assert sorted(runs) == WEEK[:3]
    result = client.result("by_day", runs[WEEK[1]], "evaluate", -1)
    assert result["partition"] == {"day": WEEK[1]}


@pytest.fixture(scope="module")
def served(home: Path) -> pc.ModelStore:
    """A store with a champion."""
    store = pc.ModelStore(home / "models")
    spec = pc.ModelSpec.from_file(ROOT / "dags" / "specs" / "air_full.toml")
    where = [("month", ">=", "2013-01"), ("month", "<=", "2013-12")]
    store.promote(
        "served", store.save(pc.fit(home / "lake", spec, where=where), "served"), "champion"
    )
    return store


def recorded(store: pc.ModelStore, table: str) -> list[str]:
    """The days of a scored table of which the store has a scoring, one for each."""
    return [
        str(one["partition"]["day"])
        for record in store.scorings("served")
        if record.sink.endswith(f"/{table}")
        for one in record.partitions
    ]


def test_a_backfill_scores_every_partition_once(
    airflow: LocalAirflow, client: Client, home: Path, served: pc.ModelStore
) -> None:
    before, began = airflow.cpu_seconds(), time.monotonic()
    client.unpause("backfilled")
    runs = len(BACKFILLED)
    wait_for(lambda: [run["state"] for run in client.runs("backfilled")] == ["success"] * runs)
    seconds, cpu = time.monotonic() - began, airflow.cpu_seconds() - before
    sink = home / "scored" / "backfilled"
    scored = pc.commits(sink)
    days = [str(day) for day in BACKFILLED]
    assert [str(one["partition"]["day"]) for one in scored] == days
    assert len({one["provenance"]["airflow"]["run_id"] for one in scored}) == runs
    assert {one["rows"] for one in scored} == {24}
    assert sorted(recorded(served, "backfilled")) == days
    events = client.events("backfilled")
    assert len(events) == runs
    assert max(len(json.dumps(event["extra"])) for event in events) < 1024
    xcoms = client.ask("GET", "backfilled/dagRuns/~/taskInstances/~/xcomEntries")["total_entries"]
    assert xcoms == 3 * runs  # the summary, the model, and the link
    began_alone = time.process_time()
    alone = pc.score(
        served.load("served@champion"),
        home / "days",
        home / "alone",
        where=f"day >= {days[0]} and day <= {days[-1]}",
        options={"columns": ["time"]},
        workers=1,
    )
    alone_cpu = time.process_time() - began_alone
    assert alone.rows == 24 * runs
    sys.stdout.write(
        f"{runs} runs: {seconds / runs:.2f} s and {cpu / runs:.2f} s of CPU each in Airflow, "
        f"{alone_cpu / runs:.3f} s of CPU each by one call of the library\n"
    )


def land(home: Path, days: list[str]) -> None:
    """Copy days to the table that `serve` reads, each in one step."""
    for day in days:
        (source,) = (home / "days" / f"day={day}").glob("*.parquet")
        folder = home / "landed" / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / "_new")
        (folder / "_new").rename(folder / "part-0.parquet")


def files_of(table: Path) -> dict[str, bytes]:
    """The files of each partition."""
    files = sorted(table.glob("day=*/*.parquet"))
    return {file.parent.name.removeprefix("day="): file.read_bytes() for file in files}


def settled(client: Client, home: Path, days: list[str]) -> dict[str, bytes]:
    """Wait until exactly these days are scored, and no run is left."""

    def done() -> dict[str, bytes] | None:
        states = {run["state"] for run in client.runs("serve")}
        assert states <= {"queued", "running", "success"}, states
        files = files_of(home / "scored" / "landed")
        return files if states == {"success"} and sorted(files) == days else None

    return dict(wait_for(done))


def test_scoring_makes_up_for_events_that_a_paused_dag_missed_or_that_coalesce(
    client: Client, home: Path, served: pc.ModelStore
) -> None:
    days = [f"2014-01-{day:02d}" for day in range(2, 7)]
    for day in days[:3]:  # a paused DAG gets no event
        land(home, [day])
        client.event("landed")
    client.unpause("serve")
    for day in days[3:]:  # two at once make one run or two
        land(home, [day])
        client.event("landed")
    first = settled(client, home, days)

    def ended() -> list[dict[str, Any]] | None:
        runs = client.runs("serve")  # the second may have begun only now
        return runs if all(run["state"] == "success" for run in runs) else None

    runs = wait_for(ended)
    assert 1 <= len(runs) <= 2
    results = [client.result("serve", run["dag_run_id"], "score", -1) for run in runs]
    assert sum(result["scored"] for result in results) == 5
    assert len(recorded(served, "landed")) == 5
    # A partition that is deleted upstream; the others are left as they are.
    shutil.rmtree(home / "landed" / f"day={days[0]}")
    client.event("landed")
    assert settled(client, home, days[1:]) == {day: first[day] for day in days[1:]}
    champion = served.resolve("served@champion")
    scored = ds.dataset(home / "scored" / "landed", partitioning="hive").to_table()
    assert set(scored["model_id"].to_pylist()) == {champion.id}


def test_a_run_that_misses_its_deadline_says_so_and_waits_on(client: Client, home: Path) -> None:
    client.unpause("late")
    run_id = client.trigger("late")
    wait_for(lambda: (home / "said").exists())
    assert (home / "said").read_text() == "late: the labels are late"
    wait_for(lambda: client.tasks("late", run_id)[0]["state"] == "success")


def test_a_promotion_waits_for_a_person_among_the_required_actions(
    client: Client, home: Path, served: pc.ModelStore
) -> None:
    champion = served.resolve("served@champion")
    judged = "month = 2014-02"  # better on its own rows than any other model
    version = served.save(
        pc.fit(home / "lake", label="air", exclude=["pm25"], where=judged), "served"
    )
    served.promote("served", version, "new")
    client.unpause("asked")
    run_id = client.trigger("asked")

    def state() -> str:
        tasks = {task["task_id"]: task["state"] for task in client.tasks("asked", run_id)}
        assert {*tasks.values()}.isdisjoint({"failed", "skipped"})
        return str(tasks["approve"])

    wait_for(lambda: state() == "awaiting_input")
    path = f"asked/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    question = client.ask("GET", path)
    assert question["subject"] == f"Promote served@{version.id[:12]} to champion?"
    assert "| paired gain |" in question["body"]
    assert served.resolve("served@champion") == champion
    time.sleep(3)  # no person answers before the scheduler has heard that the task waits
    client.ask("PATCH", path, json={"chosen_options": ["Promote"]})
    wait_for(lambda: state() == "success")
    assert served.resolve("served@champion") == version
    entry = served.history("served", "champion")[-1]
    assert (entry.by, str(entry.reason)[:9]) == ("Anonymous", "approved:")
    assert [event["extra"]["model"] for event in client.events("asked")] == [version.ref]
    served.rollback("served")  # for the tests of the champion


def test_no_airflow_process_logs_a_warning_about_our_code(
    airflow: LocalAirflow, rescored: str
) -> None:
    # The form in which Airflow logs a Python warning, as text or as JSON.
    warning = re.compile(r'category["=: ]+\w*Warning.*?filename["=: ]+([^" ]+)')
    logs = {path: path.read_text(errors="replace") for path in airflow.logs.rglob("*.log")}
    assert {"scheduler", "dag-processor", "attempt=1"} <= {path.stem for path in logs}
    files = [match[1] for text in logs.values() for match in warning.finditer(text)]
    assert [filename for filename in files if "site-packages" not in filename] == []
