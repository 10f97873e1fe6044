"""Airflow as in production: PostgreSQL, the CeleryExecutor, workers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from probclass_airflow.demo.local_airflow import DemoError, LocalAirflow

SECONDS_FOR_A_RUN = 120.0
SECONDS_WITHOUT_HEARTBEAT = 12
HEALTH = Path(__file__).parents[2] / "docker" / "health"


class CeleryAirflow(LocalAirflow):
    """A `LocalAirflow` with Celery workers, any of which can be killed.

    Airflow notices a missing worker within seconds, by default within minutes.

    Args:
        home: directory for the files of this Airflow.
        dags: DAG folder.
        database: SQLAlchemy URL of the database.
        broker: URL of a Redis server.
        environment: further environment variables of all processes.
    """

    def __init__(
        self, home: Path, dags: Path, database: str, broker: str, environment: dict[str, str]
    ) -> None:
        settings = {
            "AIRFLOW__CELERY__BROKER_URL": broker,
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": "1",
            "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__VISIBILITY_TIMEOUT": "10",
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__DAG_PROCESSOR__HEALTH_CHECK_THRESHOLD": str(SECONDS_WITHOUT_HEARTBEAT),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": str(SECONDS_WITHOUT_HEARTBEAT),
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": str(SECONDS_WITHOUT_HEARTBEAT),
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "12",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }
        super().__init__(home, dags, home / "no-plugins", {**settings, **environment})

    def start_others(self) -> None:
        """Start a DAG processor and a triggerer, and wait until they are healthy."""
        for part in ("dag-processor", "triggerer"):
            self._start(part, [part, *(["--skip-serve-logs"] if part == "triggerer" else [])])
            self._wait_until_healthy(part.replace("-", "_"))

    def start_worker(self, name: str) -> None:
        """Start a Celery worker with one process for tasks."""
        self._start(name, ["celery", "worker", "--celery-hostname", name, "--skip-serve-logs"])

    def health_problem(self, *part: str) -> str:
        """Output of the container's health check of a part, or empty if it is healthy."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        check = subprocess.run(
            [HEALTH, *part],
            env={**self._environment, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return check.stdout if check.returncode else ""

    def worker_of(self, pid: int) -> str:
        """Name of the worker that has started a process."""
        ancestors = {parent.pid for parent in psutil.Process(pid).parents()}
        (name,) = (name for name, worker in self._processes.items() if worker.pid in ancestors)
        return name

    def kill(self, name: str) -> None:
        """Send SIGKILL to a part and its child processes, as if its machine failed."""
        part = self._processes.pop(name)
        children = psutil.Process(part.pid).children(recursive=True)
        for process in (part, *children):
            process.kill()
        part.wait()
        psutil.wait_procs(children, timeout=10)

    def trigger(self, dag_id: str) -> str:
        """Start a run once the DAG processor has parsed the DAG; returns the id of the run."""
        deadline = time.monotonic() + SECONDS_FOR_A_RUN
        while not self._get("/api/v2/dags", dag_id_pattern=dag_id)["total_entries"]:
            self._check_alive()
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{dag_id} was not parsed in {SECONDS_FOR_A_RUN:.0f} s.\n"
                    + self._tail("dag-processor")
                )
            time.sleep(0.2)
        run = self._ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None})
        return str(run["dag_run_id"])

    def wait_for_run(self, dag_id: str, run_id: str) -> tuple[str, list[dict[str, Any]]]:
        """Wait until a run has ended; returns its state and its task instances."""
        deadline = time.monotonic() + SECONDS_FOR_A_RUN
        run = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        while (state := self._get(run)["state"]) not in ("success", "failed"):
            self._check_alive()
            if time.monotonic() > deadline:
                raise DemoError(
                    f"run {run_id} did not end in {SECONDS_FOR_A_RUN:.0f} s.\n"
                    + self._tail("scheduler")
                )
            time.sleep(0.2)
        return str(state), self._get(f"{run}/taskInstances")["task_instances"]
