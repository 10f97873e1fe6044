"""A local Airflow served below a path, with a viewer, a store and a finished run."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from hostile_store import fill
from playwright.sync_api import Browser, BrowserContext

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BASE = "/team/airflow"
"""Path prefix of Airflow's address."""
USER, PASSWORD = "anna", "a password for the tests"
SECONDS_TO_START = 180.0
CHROMIUM: dict[str, Any] = {
    "executable_path": "/usr/bin/chromium",
    "args": [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    ],
}


@dataclass(frozen=True)
class Site:
    """A running Airflow.

    Attributes:
        url: address of Airflow, without a slash at its end.
        token: token of a viewer.
        token_without_role: token of a user without any role.
        store: folder of the model store.
        key: key of the store in addresses.
        run_id: id of the finished run of the DAG ``air``.
    """

    url: str
    token: str
    token_without_role: str
    store: Path
    key: str
    run_id: str

    def get(self, path: str, *, token: str | None = None, **headers: str) -> httpx.Response:
        """The response, without following redirects."""
        bearer = self.token if token is None else token
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        with httpx.Client(trust_env=False, timeout=60.0) as client:
            return client.get(f"{self.url}{path}", headers=headers)


@contextmanager
def running(home: Path) -> Iterator[Site]:
    """Start Airflow in an empty folder, run its DAG once, and stop Airflow at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}{BASE}"
    (home / "passwords.json").write_text(json.dumps({USER: PASSWORD}))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(64),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__PROBCLASS__STORES": "models, nothing",  # relative to its working directory
        "NO_PROXY": "*",
        "no_proxy": "*",
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "plugins"))),
    }
    airflow = [sys.executable, "-m", "airflow"]
    options: dict[str, Any] = {"env": environment, "cwd": home}
    subprocess.run([*airflow, "db", "migrate"], check=True, capture_output=True, **options)
    log = home / "api-server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*airflow, "api-server"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
    try:
        fill(home)
        ended = subprocess.run(
            [sys.executable, str(HERE / "run_once.py")],
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        _wait(url, server, log)
        yield Site(url=url, store=home / "models", **json.loads(ended.stdout.splitlines()[-1]))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def logged_in(site: Site, browser: Browser, **options: Any) -> BrowserContext:
    """A browser context in which the viewer has opened the page and logged in."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, **options)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{site.url}/probclass/")
    page.fill("input[name=username]", USER)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"{site.url}/probclass/")
    page.close()
    return context


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            if httpx.get(f"{url}/api/v2/version", trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.25)
    raise AssertionError(log.read_text(errors="replace")[-3000:])
