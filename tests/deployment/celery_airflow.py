"""Airflow as in production: PostgreSQL, the CeleryExecutor, workers that are processes apart."""

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
HEALTH = Path(__file__).parents[2] / "docker" / "health"


class CeleryAirflow(LocalAirflow):
    """Beside what `LocalAirflow` starts: workers, any of which can be killed.

    A worker that is gone is noticed within seconds here and not within minutes.

    Args:
        home: directory of its own.
        dags: DAG folder.
        database: SQLAlchemy URL.
        broker: URL of a Redis server.
        environment: further variables for all its processes.
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
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "12",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
        }
        super().__init__(home, dags, home / "no-plugins", {**settings, **environment})

    def start_worker(self, name: str) -> None:
        """Start a Celery worker of one process for tasks."""
        self._start(name, ["celery", "worker", "--celery-hostname", name, "--skip-serve-logs"])

    def complaint(self, *part: str) -> str:
        """What a container's health check has against a part; nothing if it is well."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        checked = subprocess.run(
            [HEALTH, *part],
            env={**self._environment, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return checked.stdout if checked.returncode else ""

    def worker_of(self, pid: int) -> str:
        """The worker that a task's process belongs to."""
        ancestors = {parent.pid for parent in psutil.Process(pid).parents()}
        (name,) = (name for name, worker in self._processes.items() if worker.pid in ancestors)
        return name

    def kill(self, name: str) -> None:
        """SIGKILL to a worker and all that it started, as when its machine goes away."""
        worker = self._processes.pop(name)
        started = psutil.Process(worker.pid).children(recursive=True)
        for process in (worker, *started):
            process.kill()
        worker.wait()
        psutil.wait_procs(started, timeout=10)

    def trigger(self, dag_id: str) -> str:
        """Start a run of a DAG, as soon as the DAG processor has read it; the run's id."""
        deadline = time.monotonic() + SECONDS_FOR_A_RUN
        while not self._get("/api/v2/dags", dag_id_pattern=dag_id)["total_entries"]:
            self._check_alive()
            if time.monotonic() > deadline:
                raise DemoError(f"{dag_id} was not read.\n{self._tail('dag-processor')}")
            time.sleep(0.2)
        run = self._ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None})
        return str(run["dag_run_id"])

    def ended(self, dag_id: str, run_id: str) -> tuple[str, list[dict[str, Any]]]:
        """The state of a run once it has ended, and its task instances."""
        deadline = time.monotonic() + SECONDS_FOR_A_RUN
        run = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        while (state := self._get(run)["state"]) not in ("success", "failed"):
            self._check_alive()
            if time.monotonic() > deadline:
                raise DemoError(f"run {run_id} does not end.\n{self._tail('scheduler')}")
            time.sleep(0.2)
        return str(state), self._get(f"{run}/taskInstances")["task_instances"]
