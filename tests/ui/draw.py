"""Take the screenshots of docs/ui.md in a local Airflow with Chromium.

python tests/ui/draw.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright
from sites import BASE, CHROMIUM, ROOT, logged_in, running

import probclass_core as pc
from probclass_core.demo.lake import lay_out

MISSING = """Array.from(document.images).some(image =>
    image.checkVisibility() && !image.naturalWidth
    && image.getBoundingClientRect().top < innerHeight
    && image.getBoundingClientRect().bottom > 0)"""
IMAGES = ROOT / "docs" / "images"
SPEC = pc.ModelSpec(
    label="air",
    blocks=[
        pc.Block("gaussian_full", ["dew_point", "temperature", "pressure", "log_wind_speed"]),
        pc.Block("categorical", ["wind_direction", "hour"]),
    ],
)


def fill_year(home: Path) -> pc.ModelVersion:
    """Save a year of monthly versions, each evaluated on its next month; return the last one."""
    store, lake = pc.ModelStore(home / "models"), lay_out(home / "lake")
    months = [f"{year}-{month:02}" for year in (2013, 2014) for month in range(1, 13)]
    for before, month in zip(months, months[12:], strict=False):
        year = [("month", ">=", before), ("month", "<", month)]
        model = pc.fit(lake, SPEC, where=year)
        version = store.save(model, "air_full", provenance={"source": "lake"})
        store.promote("air_full", version, month)
        evaluation = pc.evaluate(model, lake, partition={"month": month})
        store.record_evaluation(
            version, evaluation, on={"source": "lake", "partition": {"month": month}}
        )
    store.promote("air_full", version, "champion")
    return version


def take(page: Page, name: str) -> None:
    """Save a screenshot once every visible image is loaded."""
    page.frame_locator("iframe").locator("h1").wait_for()
    while page.frames[-1].evaluate(MISSING):
        page.wait_for_timeout(200)
    page.wait_for_timeout(1000)
    target = IMAGES / f"ui_{name}.png"
    page.screenshot(path=target)
    sys.stdout.write(f"{target.relative_to(ROOT)}  {target.stat().st_size / 1000:.0f} kB\n")


def main() -> None:
    """Take the lists, a card in light and in dark colors, its drift, and a report."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        with running(home) as site:
            for damaged in ("hostile", "damaged"):
                (site.store / damaged).rename(home / damaged)
            version = fill_year(home)
            browser = playwright.chromium.launch(**CHROMIUM)
            framed = f"{site.url}/plugin/probclass{BASE}/probclass"
            card = f"{framed}/stores/{site.key}/air_full/{version.id}"
            run = {"dag_id": "air", "run_id": site.run_id, "task_id": "evaluate", "map_index": -1}
            page = logged_in(site, browser).new_page()
            for name, address in (
                ("models", f"{framed}/"),
                ("versions", f"{framed}/stores/{site.key}/air_full"),
                ("card", card),
                ("run", f"{framed}/run?{urlencode(run)}"),
            ):
                page.goto(address)
                take(page, name)
            page = logged_in(site, browser, color_scheme="dark").new_page()
            page.goto(card)
            frame = page.frame_locator("iframe")
            for name, selector in (("parameters", ".block h2"), ("drift", "#drift")):
                frame.locator(selector).first.evaluate("element => element.scrollIntoView()")
                take(page, name)
            browser.close()


if __name__ == "__main__":
    main()
