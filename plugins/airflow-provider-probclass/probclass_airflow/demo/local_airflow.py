"""A local Airflow: SQLite, LocalExecutor, no login, a free port, logs in files.

Scheduler, DAG processor and API server are child processes; runs are started and followed through
the REST API.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import psutil

SECONDS_TO_START = 120.0
SECONDS_FOR_A_RUN = 600.0
SECONDS_TO_STOP = 15.0

_SCHEDULER = """
import airflow.dag_processing.dagbag, airflow.sdk.execution_time.task_runner, pyarrow.dataset
from airflow.__main__ import main
from probclass_core import *
main()
"""
"""The scheduler forks the processes of the tasks, which so need not import all this again."""


class DemoError(Exception):
    """The demo cannot continue; the message has the reason and the log to read."""


class LocalAirflow(AbstractContextManager["LocalAirflow"]):
    """A context manager that stops all processes at its end.

    Args:
        home: directory for the files of this Airflow; a start replaces those of an earlier one.
        dags: DAG folder.
        plugins: plugins folder.
        environment: further environment variables of all processes.
    """

    def __init__(
        self, home: Path, dags: Path, plugins: Path, environment: Mapping[str, str]
    ) -> None:
        self.home = home
        self.logs = home / "logs"
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": str(min(os.cpu_count() or 1, 4)),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}?timeout=60",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.logs),
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # the machine may be busy
        }
        # Leave out settings of another Airflow, and proxies, which cannot reach 127.0.0.1.
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")
        }
        self._environment = {
            **inherited,
            "NO_PROXY": "*",
            "no_proxy": "*",
            "AIRFLOW_HOME": str(home),
            **settings,
            **environment,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._client = httpx.Client(base_url=self.url, trust_env=False, timeout=30.0)

    def start(self) -> None:
        """Create a new database, start the API server, and parse the DAGs.

        Raises:
            DemoError: if a process did not start, or a file of the DAG folder cannot be imported;
                the message ends with the end of its log.
        """
        for leftover in ("airflow.db", "airflow.db-shm", "airflow.db-wal", "airflow.cfg"):
            (self.home / leftover).unlink(missing_ok=True)
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.command("db", "migrate")
        self._start("api-server", ["api-server"])
        self.command("dag-processor", "--num-runs", "1")
        self._wait_until_healthy("metadatabase")
        token = self._client.get("/auth/token").raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"
        for broken in self._get("/api/v2/importErrors")["import_errors"]:
            trace = broken["stack_trace"].strip()
            raise DemoError(f"{broken['filename']} cannot be imported:\n{trace}")

    def command(self, *command: str) -> None:
        """Run a command of Airflow, such as ``("db", "migrate")``; its log has the first word.

        Raises:
            DemoError: if it fails; the message ends with the end of its log.
        """
        name = command[0]
        self._start(name, command)
        exit_code = self._processes[name].wait()
        del self._processes[name]
        if exit_code:
            raise DemoError(f"airflow {' '.join(command)} failed.\n{self._tail(name)}")

    def start_scheduler(self) -> None:
        """Start the scheduler, which also runs the executor.

        Raises:
            DemoError: if it did not start; the message ends with the end of its log.
        """
        self._start("scheduler", ["scheduler", "--skip-serve-logs"], ["-c", _SCHEDULER])
        self._wait_until_healthy("scheduler")

    def trigger(self, dag_id: str, **body: Any) -> str:
        """Unpause a DAG and start a run of it; returns the id of the run.

        Args:
            dag_id: the DAG.
            body: fields of the request, such as logical_date (by default none) and dag_run_id.

        Raises:
            DemoError: if Airflow does not create the run.
        """
        self._ask("PATCH", f"/api/v2/dags/{dag_id}", json={"is_paused": False})
        fields = {"logical_date": None, **body}
        run = self._ask("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=fields)
        return str(run["dag_run_id"])

    def wait_for_run(self, dag_id: str, run_id: str) -> tuple[str, list[dict[str, Any]]]:
        """Wait until a run has ended; returns its state and its task instances.

        Raises:
            DemoError: if a process ended, or the run takes more than ten minutes.
        """
        run = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"
        deadline = time.monotonic() + SECONDS_FOR_A_RUN
        while (state := self._get(run)["state"]) not in ("success", "failed"):
            self._check_alive()
            if time.monotonic() > deadline:
                raise DemoError(
                    f"run {run_id} of {dag_id} did not end in {SECONDS_FOR_A_RUN:.0f} s.\n"
                    + self._tail("scheduler")
                )
            time.sleep(0.5)
        return str(state), list(self._get(f"{run}/taskInstances")["task_instances"])

    def run(
        self, dag_id: str, run_id: str, start: date, end: date
    ) -> tuple[str, list[dict[str, Any]]]:
        """Run a DAG for a data interval; returns as `wait_for_run`.

        Raises:
            DemoError: as `trigger` and `wait_for_run`.
        """
        first, last = (f"{day}T00:00:00Z" for day in (start, end))
        interval = {"data_interval_start": first, "data_interval_end": last}
        self.trigger(dag_id, dag_run_id=run_id, logical_date=first, **interval)
        return self.wait_for_run(dag_id, run_id)

    def log_of(self, task: Mapping[str, Any]) -> str:
        """The end of the log of a task instance, after a line that names it."""
        path = f"/api/v2/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances"
        path += f"/{task['task_id']}/logs/{max(task['try_number'], 1)}"
        lines = _log_lines(self._get(path, full_content="true")["content"])[-12:]
        title = f"task {task['task_id']} of {task['dag_id']}, run {task['dag_run_id']}"
        return "\n".join([f"The end of the log of {title}:", *lines])

    def page(self, address: str) -> str:
        """A page or a stylesheet of Airflow's UI."""
        return self._client.get(address).raise_for_status().text

    def cpu_seconds(self) -> float:
        """CPU time of all processes until now, ended tasks included."""
        return sum(sum(one.cpu_times()[:4]) for one in self._family() if one.is_running())

    def stay(self) -> None:
        """Keep running until Ctrl-C.

        Raises:
            DemoError: if one of the processes ended.
        """
        while True:
            self._check_alive()
            time.sleep(1.0)

    def stop(self) -> None:
        """Stop all processes: the scheduler first, while it can still reach the others."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        family = self._family()
        for parent in reversed(self._processes.values()):
            parent.terminate()
            try:
                parent.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                parent.kill()
                parent.wait()
        for process in family:
            if process.is_running():  # and is not a new process with the same id
                process.kill()
        self._processes.clear()
        self._client.close()
        signal.signal(signal.SIGINT, before)

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _family(self) -> list[psutil.Process]:
        """The processes of Airflow that run, and their children."""
        pids = [process.pid for process in self._processes.values()]
        parents = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        return [one for parent in parents for one in (parent, *parent.children(recursive=True))]

    def _start(
        self, name: str, command: Sequence[str], program: Sequence[str] = ("-m", "airflow")
    ) -> None:
        with (self.logs / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, *program, *command],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches only the demo, which then stops them in order.
                start_new_session=True,
            )

    def _wait_until_healthy(self, part: str) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            self._check_alive()
            try:
                health = self._client.get("/api/v2/monitor/health").raise_for_status().json()
            except httpx.HTTPError:
                health = {}
            if health.get(part, {}).get("status") == "healthy":
                return
            time.sleep(0.25)
        tails = "\n".join(self._tail(name) for name in self._processes)
        raise DemoError(
            f"Airflow's {part} was not healthy within {SECONDS_TO_START:.0f} s.\n{tails}"
        )

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise DemoError(
                    f"Airflow's {name} ended with exit code {process.returncode}.\n"
                    + self._tail(name)
                )

    def _tail(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"The end of {path}:", *lines])

    def _get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query)

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        for pause in (0.5, 1.0, 2.0):  # SQLite may be busy for a moment
            try:
                return self._client.request(method, path, **request).raise_for_status().json()
            except httpx.HTTPError as error:
                problem = error
                time.sleep(pause)
        raise DemoError(f"Airflow does not respond: {problem}\n{self._tail('api-server')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _log_lines(content: Sequence[Any]) -> list[str]:
    lines = []
    for entry in content:
        event = entry["event"] if isinstance(entry, dict) else str(entry)
        if not event.startswith("::"):
            lines.append(event)
        if isinstance(entry, dict):
            lines += [f"{e['exc_type']}: {e['exc_value']}" for e in entry.get("error_detail") or ()]
    return lines
