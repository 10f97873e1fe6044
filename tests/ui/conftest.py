"""A real Airflow with a page of models, one finished run, and a browser to look at them with."""

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
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from shelf_of_trials import fill
from sites import BASE, Site

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
USER, PASSWORD = "anna", "a password for the tests"
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SECONDS_TO_START = 120.0


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Airflow's API server below a path, with a viewer, a store and a finished run."""
    home = tmp_path_factory.mktemp("airflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}{BASE}"
    store = home / "models"
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
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
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__PROBCLASS__STORES": f"{store}, {home / 'nothing'}",
        "NO_PROXY": "*",
        "no_proxy": "*",
        "PROBCLASS_HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, capture_output=True)
    log = (home / "api-server.log").open("wb")
    server = subprocess.Popen(
        [*airflow, "api-server"],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        fill(home)
        ran = subprocess.run(
            [sys.executable, str(HERE / "run_once.py")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        told = json.loads(ran.stdout.splitlines()[-1])
        _wait(url, server, home / "api-server.log")
        yield Site(url=url, store=store, **told)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def login(site: Site, browser: Browser) -> BrowserContext:
    """A browser in which the viewer has logged in by hand."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.goto(f"{site.url}/probclass/")
    page.fill("input[name=username]", USER)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url(f"{site.url}/probclass/")  # where it was wanted to go
    page.close()
    return context
