"""A killed worker costs a retry and no rows, and a killed part makes its container unhealthy."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from celery_airflow import SECONDS_WITHOUT_HEARTBEAT, CeleryAirflow
from postgres_and_redis import postgres, redis

import probclass_core as pc
from probclass_core.demo.lake import lay_out

pytestmark = pytest.mark.services

HERE = Path(__file__).parent
SPEC = HERE.parents[1] / "dags" / "specs" / "air_full.toml"
MONTHS = ("2014-01", "2014-02", "2014-03", "2014-04")
SECONDS_TO_SCORE = 90.0
PARTS = ("scheduler", "dag-processor", "triggerer")


def waiting_process(file: Path) -> int:
    """Id of the process that has written it to the file."""
    deadline = time.monotonic() + SECONDS_TO_SCORE
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "no scoring has begun"
        time.sleep(0.1)
    return int(file.read_text())


def health_problems(airflow: CeleryAirflow, parts: list[list[str]]) -> list[str]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda part: airflow.health_problem(*part), parts))


def rows(scored: Path) -> pa.Table:
    return ds.dataset(scored, partitioning="hive").to_table().sort_by("time")


def test_a_run_succeeds_although_a_worker_is_killed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lake = lay_out(home / "lake")
    shutil.copy(SPEC, home / "spec.toml")
    with (
        postgres() as database,
        redis() as broker,
        CeleryAirflow(
            tmp_path / "airflow",
            HERE / "dags",
            database,
            broker,
            environment={"PROBCLASS_HOME": str(home)},
        ) as airflow,
    ):
        airflow.start()
        airflow.start_scheduler()
        airflow.start_others()
        for name in ("worker-a", "worker-b"):
            airflow.start_worker(name)
        run_id = airflow.trigger("air_cycle")
        pid = waiting_process(home / "waiting")
        worker = airflow.worker_of(pid)
        parts = [["api-server"], *([part] for part in PARTS), ["worker", worker]]
        assert health_problems(airflow, parts) == [""] * len(parts)
        airflow.kill(worker)
        assert not psutil.pid_exists(pid)
        state, tasks = airflow.wait_for_run("air_cycle", run_id)
        for part in PARTS:
            airflow.kill(part)
        time.sleep(SECONDS_WITHOUT_HEARTBEAT)
        *ended, no_worker = health_problems(airflow, parts[1:])
        assert all("No alive jobs found" in problem for problem in ended)
        assert "No nodes replied" in no_worker
    assert state == "success"
    assert sorted(task["try_number"] for task in tasks) == [1, 1, 1, 1, 2]

    where = [("month", ">=", "2013-01"), ("month", "<", "2014-01")]
    model = pc.fit(lake, pc.ModelSpec.from_file(SPEC), where=where)
    for month in MONTHS:
        pc.score(
            model,
            lake,
            tmp_path / "alone",
            partition={"month": month},
            options=pc.ScoringOptions(columns=["time", "air"]),
        )
    assert pc.ModelStore(home / "models").resolve("air@champion").id == model.id
    assert rows(home / "scored").equals(rows(tmp_path / "alone"))
