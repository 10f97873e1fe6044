"""Airflow as in production: PostgreSQL, the CeleryExecutor, workers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from probclass_airflow.demo.local_airflow import LocalAirflow

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
