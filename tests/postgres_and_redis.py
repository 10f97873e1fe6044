"""Temporary PostgreSQL and Redis servers: empty, on a socket and a free port, then removed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SECONDS_TO_START = 30.0
POSTGRESQL = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
"""Folders in which Debian installs PostgreSQL servers; they are not on the path."""


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server with the empty database `airflow`; yields its SQLAlchemy URL."""
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    home = Path(tempfile.mkdtemp(prefix="probclass-postgres-"))  # short enough for a socket
    try:
        if user:
            shutil.chown(home, user)
        subprocess.run(
            [_program("initdb"), "--pgdata", home / "data", "--auth=trust", "--username=airflow"],
            user=user,
            cwd=home,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        server = [_program("postgres"), "-D", home / "data", "-k", home, "-c", "listen_addresses="]
        createdb = [_program("createdb"), "--host", home, "--username", "airflow", "airflow"]
        with _running(server, user, home, ready=lambda: _succeeds(createdb)):
            yield f"postgresql://airflow@/airflow?host={home}"
    finally:
        shutil.rmtree(home)


@contextmanager
def redis() -> Iterator[str]:
    """A Redis server in memory; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    server = [_program("redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", ""]
    ping = [_program("redis-cli"), "-p", port, "--no-auth-warning", "-e", "ping"]
    with (
        tempfile.TemporaryDirectory(prefix="probclass-redis-") as home,
        _running(server, None, Path(home), ready=lambda: _succeeds(ping)),
    ):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def _running(
    command: Sequence[str | Path], user: str | None, home: Path, ready: Callable[[], bool]
) -> Iterator[None]:
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(command, user=user, cwd=home, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        while not ready():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not start; see {log.name}")
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        try:
            server.wait(SECONDS_TO_START)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _succeeds(command: Sequence[str | Path]) -> bool:
    return not subprocess.run(command, capture_output=True, check=False).returncode


def _program(name: str) -> str:
    path = os.pathsep.join([os.environ["PATH"], *map(str, POSTGRESQL)])
    if (program := shutil.which(name, path=path)) is None:
        raise FileNotFoundError(
            f"{name} is not installed; install PostgreSQL and Redis, on Debian: "
            "apt-get install postgresql redis-server"
        )
    return program
