"""The table of faults in docs/operate.md, in a real Airflow: what an engineer sees, and does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import write_rows
from rest_client import Client, wait_for

import probclass_core as pc
from probclass_airflow.demo.local_airflow import LocalAirflow
from probclass_core.display import described_rows

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]
DAYS = [f"2014-01-{day:02d}" for day in range(11, 17)]

FAULTY = '''
"""A model of weeks, triggered for a week of a lake, and one of days that two schedules operate."""

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable

from probclass_airflow import operate_model

HOME = Path(os.environ["PROBCLASS_HOME"])
TASKS = {"retries": 1, "retry_delay": timedelta(seconds=1)}


def kill_once(context):
    killed = HOME / "kill" / context["ti"].task_id
    if killed.exists():
        killed.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


LAKE = f"{HOME}/{{{{ dag_run.conf['lake'] }}}}"

with DAG("weekly", schedule=None, max_active_runs=1):
    operate_model(
        "late",
        source=f"{LAKE}/rows",
        sink=f"{LAKE}/scored",
        store=f"{LAKE}/models",
        partition={"week": "{{ dag_run.conf['week'] }}"},
        label_column="late",
        train_on=2,
        max_gap=2,
        default_args={**TASKS, "on_execute_callback": kill_once},
    )

for name in ("first", "second"):
    with DAG(
        name,
        schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
        start_date=datetime(2014, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
    ):
        operate_model(
            "daily",
            source=f"{HOME}/daily/rows",
            sink=f"{HOME}/daily/scored",
            store=f"{HOME}/daily/models",
            partition={"day": "{{ data_interval_start.strftime('%Y-%m-%d') }}"},
            label_column="late",
            train_on=2,
            default_args=TASKS,
        )
'''


def write(folder: Path, *, inverted: bool = False, labeled: bool = True) -> Path:
    """A partition in which x tells the class apart; inverted, it tells the opposite."""
    rng = np.random.default_rng(sum(map(ord, folder.name)))
    label = rng.permutation(np.arange(400) % 4 == 0)  # a quarter is true
    late = pa.array(label != inverted) if labeled else pa.nulls(400, pa.bool_())
    rows = pa.table({"x": rng.normal(2.0 * label, 1.0), "late": late})
    return write_rows(folder, rows) / "0.parquet"


class Lake:
    """Weeks of rows, and the model that is operated on them."""

    def __init__(self, home: Path, airflow: LocalAirflow, client: Client) -> None:
        self.name = home.name
        self.rows = home / "rows"
        self.scored = home / "scored"
        self.store = pc.ModelStore(home / "models")
        self._airflow = airflow
        self._client = client
        for week in range(11, 20):
            self.write(week)

    def write(self, week: int, **rows: bool) -> Path:
        return write(self.rows / f"week={week}", **rows)

    def run(self, week: int) -> dict[str, str]:
        """Run the DAG for a week; the state of each task, and the logs of done and what failed."""
        conf = {"lake": self.name, "week": str(week)}
        run_id = self._airflow.trigger("weekly", dag_run_id=f"{self.name}_{week}", conf=conf)
        return self._seen(run_id)

    def clear(self, week: int, task: str) -> dict[str, str]:
        """Clear a task of a run, wait until it has run again, and tell as `run`."""
        run_id = f"{self.name}_{week}"
        self._client.clear("weekly", run_id, f"late.{task}")
        return self._seen(run_id)

    def result(self, week: int, task: str) -> Any:
        return self._client.result("weekly", f"{self.name}_{week}", f"late.{task}", -1)

    def _seen(self, run_id: str) -> dict[str, str]:
        state, tasks = self._airflow.wait_for_run("weekly", run_id)
        by_name = {one["task_id"].removeprefix("late."): one for one in tasks}
        seen = {name: one["state"] for name, one in by_name.items()}
        failed = [name for name, one in by_name.items() if one["state"] == "failed"]
        said = "\n".join(self._airflow.log_of(by_name[name]) for name in {*failed, "done"})
        tries = ", ".join(f"{name} {one['try_number']}" for name, one in by_name.items())
        return {**seen, "run": state, "said": said, "tries": tries}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("faults")
    (home / "dags").mkdir()
    (home / "dags" / "faulty.py").write_text(FAULTY)
    for region in ("eu", "us"):
        for day in DAYS:
            write(home / "daily" / "rows" / f"region={region}" / f"day={day}")
    return home


@pytest.fixture(scope="module")
def airflow(home: Path) -> Iterator[LocalAirflow]:
    stores = ",".join(f"{home}/{name}/models" for name in ("files", "labels", "harm", "daily"))
    environment = {"PROBCLASS_HOME": str(home), "AIRFLOW__PROBCLASS__STORES": stores}
    with LocalAirflow(home / "airflow", home / "dags", ROOT / "plugins", environment) as airflow:
        airflow.start()
        for dag_id in ("first", "second"):  # before the scheduler: SQLite has one writer
            dates = ("--from-date", DAYS[-2], "--to-date", DAYS[-1])
            order = ("--max-active-runs", "1")
            airflow.command("backfill", "create", "--dag-id", dag_id, *dates, *order)
        airflow.start_scheduler()
        yield airflow


@pytest.fixture(scope="module")
def client(airflow: LocalAirflow) -> Iterator[Client]:
    with httpx.Client(base_url=airflow.url, trust_env=False, timeout=120.0) as http:
        yield Client(http)


def test_files_that_are_damaged_renamed_rewritten_deleted_or_late(
    home: Path, airflow: LocalAirflow, client: Client
) -> None:
    lake = Lake(home / "files", airflow, client)
    assert lake.run(14)["run"] == "success"

    lake.write(15).write_bytes(b"PAR1 and then nothing that can be read")
    damaged = lake.run(15)
    assert (damaged["score"], damaged["done"], damaged["promote"]) == (
        "failed",
        "failed",
        "success",
    )
    assert "Not scored: " in damaged["said"]
    assert "week=15" in damaged["said"]
    assert "has partitions that were not scored" in airflow.page("/probclass/")

    path = lake.write(15)
    pq.write_table(pq.read_table(path).rename_columns({"x": "X"}), path)
    rewritten = lake.write(14)
    pq.write_table(pa.concat_tables([pq.read_table(rewritten)] * 2), rewritten)
    renamed = lake.run(16)
    assert (renamed["score"], renamed["run"]) == ("failed", "failed")
    assert "no file has column 'x'" in renamed["said"]
    assert "week=14 had 400 rows when it was scored, and has 800 now" in renamed["said"]
    assert lake.result(16, "score")["names"]["scored"] == ["week=16"], "the others are scored"

    lake.write(15)
    shutil.rmtree(lake.rows / "week=16")
    shutil.move(lake.rows / "week=17", home / "later")
    late = lake.run(17)
    assert (late["score"], late["run"]) == ("failed", "failed")
    assert "has no rows of week=17 to score" in late["said"]
    assert "week=16 was scored and is gone from the source" in late["said"]

    assert lake.clear(14, "score")["score"] == "success"
    shutil.move(home / "later", lake.rows / "week=17")
    last = lake.run(18)
    assert lake.result(18, "score")["names"] == {"scored": ["week=17", "week=18"]}
    assert lake.result(18, "plan")["changed"] == ["week=16 was scored and is gone from the source"]
    assert (last["score"], last["done"]) == ("success", "failed")
    report = pc.score(lake.store.load("late@champion"), lake.rows, lake.scored, deleted="remove")
    assert [one.partition for one in report.removed] == [{"week": 16}]


def test_labels_that_are_missing_once_or_for_long(
    home: Path, airflow: LocalAirflow, client: Client
) -> None:
    lake = Lake(home / "labels", airflow, client)
    assert lake.run(15)["run"] == "success"
    champion = lake.store.resolve("late@champion")
    lake.write(15, labeled=False)
    once = lake.run(16)
    assert {once[name] for name in ("train", "promote", "judge", "score")} == {"success"}
    assert once["done"] == "failed"
    assert "Labels are missing: week=15 has 0 in 400 rows" in once["said"]

    for week in (16, 17, 18):
        lake.write(week, labeled=False)
    month = lake.run(19)
    assert {month[name] for name in ("train", "promote", "judge")} == {"skipped"}
    assert (month["score"], month["done"]) == ("success", "failed")
    assert "Nothing was trained: " in month["said"]
    assert lake.result(19, "score")["names"]["scored"] == ["week=17", "week=18", "week=19"]
    assert lake.store.resolve("late@champion") == champion

    for week in (15, 16, 17, 18):
        lake.write(week)
    assert lake.run(20)["score"] == "failed"
    assert lake.result(20, "plan")["labeled"] == {"week": "19"}
    judged = lake.result(20, "judge")
    assert [one["partition"] for one in judged["late"]] == [{"week": w} for w in (15, 16, 17, 18)]


def test_a_model_that_does_harm_a_killed_worker_and_a_task_that_is_cleared_after_a_rollback(
    home: Path, airflow: LocalAirflow, client: Client
) -> None:
    lake = Lake(home / "harm", airflow, client)
    lake.write(15, inverted=True)
    (home / "kill").mkdir()
    (home / "kill" / "late.score").touch()
    killed = lake.run(15)
    assert killed["run"] == "success"
    assert "score 2" in killed["tries"], "the attempt that was killed failed"
    assert [one["rows"] for one in pc.commits(lake.scored)] == [400]
    assert len(lake.store.scorings("late")) == 1
    champion = lake.store.resolve("late@champion")

    harm = lake.run(16)
    assert harm["done"] == "failed"
    assert "week=15: worse than the class prior, log loss " in harm["said"]
    prior = lake.store.resolve("late@champion")
    entry = lake.store.history("late", "champion")[-1]
    assert "worse than the class prior: log loss" in str(entry.reason)
    assert lake.store.load("late@champion").is_prior_only
    assert lake.result(16, "score")["model"] == prior.ref
    assert "predicts its class prior for every row" in airflow.page("/probclass/")

    lake.store.rollback("late", reason="the labels of week 15 were wrong")
    cleared = lake.clear(16, "judge")
    assert cleared["judge"] == "failed"
    assert "rolled back" in cleared["said"]
    assert lake.store.resolve("late@champion") == champion


def test_two_backfills_beside_a_schedule_that_is_switched_on_years_later(
    home: Path, airflow: LocalAirflow, client: Client
) -> None:
    client.unpause("first", "second")

    def ended() -> list[dict[str, Any]] | None:
        runs = [run for dag_id in ("first", "second") for run in client.runs(dag_id)]
        states = {run["state"] for run in runs}
        return runs if len(runs) == 6 and states <= {"success", "failed"} else None

    seen = {(run["dag_id"], run["run_type"]): run for run in wait_for(ended)}
    for dag_id in ("first", "second"):
        late = seen[dag_id, "scheduled"]
        tasks = {
            one["task_id"].removeprefix("daily."): one
            for one in client.tasks(dag_id, late["dag_run_id"])
        }
        states = {name: one["state"] for name, one in tasks.items()}
        assert {states[name] for name in ("train", "promote", "judge")} == {"skipped"}
        assert late["state"] == "failed"
        assert states["score"] in ("failed", "skipped"), "skipped if there was no champion yet"
        assert "partitions before day=" in airflow.log_of(tasks["done"])
        assert seen[dag_id, "backfill"]["state"] == "success"
    store = pc.ModelStore(home / "daily" / "models")
    judged = [described_rows(entry.provenance) for entry in store.history("daily", "champion")]
    assert judged == sorted(judged), "no alias goes back in time"
    scored = [(one["partition"], one["rows"]) for one in pc.commits(home / "daily" / "scored")]
    assert scored == [
        ({"region": region, "day": day}, 400) for region in ("eu", "us") for day in DAYS[-2:]
    ]
