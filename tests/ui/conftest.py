"""A local Airflow with the pages of models and one finished run, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright
from sites import CHROMIUM, Site, logged_in, running

expect.set_options(timeout=60_000)  # for a busy machine


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Airflow's API server below a path, with a viewer, a store and a finished run."""
    with running(tmp_path_factory.mktemp("airflow")) as site:
        yield site


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(**CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def login(site: Site, browser: Browser) -> BrowserContext:
    """A browser context in which the viewer has logged in."""
    return logged_in(site, browser)
