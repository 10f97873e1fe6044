"""Take the screenshots of docs/airflow.md in a local Airflow with Chromium.

python tests/ui/draw.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as pq
from playwright.sync_api import Page, sync_playwright
from sites import BASE, CHROMIUM, ROOT, logged_in, running

import probclass_core as pc
from probclass_core.demo.lake import lay_out
from probclass_core.store.records import ModelVersion

MISSING = """Array.from(document.images).some(image =>
    image.checkVisibility() && !image.naturalWidth
    && image.getBoundingClientRect().top < innerHeight
    && image.getBoundingClientRect().bottom > 0)"""
IMAGES = ROOT / "docs" / "images"
SPEC = pc.ModelSpec(
    label="air",
    blocks={
        "gaussian_full": ["dew_point", "temperature", "pressure", "log_wind_speed"],
        "categorical": ["wind_direction", "hour"],
    },
)


def fill_years(home: Path) -> ModelVersion:
    """Operate a model for two years by month, with labels a month late; return the last champion.

    Two partitions have faults that the watch warns of.
    """
    os.chdir(home)  # the pages show paths as they were given
    store, lake = pc.ModelStore("models"), lay_out("lake")
    months = [f"{year}-{month:02}" for year in (2012, 2013, 2014) for month in range(1, 13)]
    for at in range(12, len(months)):
        run = {"dag_id": "air", "run_id": f"scheduled__{months[at]}-01", "task_id": "operate"}
        provenance = {"airflow": run}
        trained, judged, month = months[at - 12 : at - 1], months[at - 1], months[at]
        year = [("month", ">=", trained[0]), ("month", "<=", trained[-1])]
        model = pc.with_density_quantiles(pc.fit(lake, SPEC, where=year), lake, where=year)
        version = store.save(model, "air_full", provenance=provenance)
        rows = {"partition": {"month": judged}, "by": "air.operate", "provenance": provenance}
        pc.promote_if_better(store, version, lake, "champion", **rows)
        if month == "2014-06":
            reason = "worse than the class prior once labels came"
            store.rollback("air_full", by="air.operate", reason=reason, provenance=provenance)
        champion = store.resolve("air_full@champion")
        model = store.load(champion.ref)
        _break(lake, month)
        report = pc.score(model, lake, "scored_full", partition={"month": month})
        store.record_scoring(champion, report, provenance=provenance)
        evaluation = pc.evaluate(model, lake, partition={"month": month})
        on = {"source": "lake", "partition": {"month": month}}
        store.record_evaluation(champion, evaluation, on=on, provenance=provenance)
    return champion


def _break(lake: Path, month: str) -> None:
    """Lose a third of one column in one month, and change the unit of another in another month."""
    for path in (lake / f"month={month}").glob("*.parquet"):
        table = pq.ParquetFile(path).read()
        if month == "2013-09":
            is_lost = pa.array([at % 3 == 0 for at in range(table.num_rows)])
            values = compute.if_else(is_lost, None, table["pressure"])
            column = "pressure"
        elif month == "2014-09":
            values = compute.add(compute.multiply(table["temperature"], 1.8), 32.0)
            column = "temperature"
        else:
            return
        at = table.column_names.index(column)
        values = values.cast(table.schema.field(column).type)
        pq.write_table(table.set_column(at, table.schema.field(column), values), path)


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
    """Take the pages of a model in light colors, and a report in dark ones."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder)
        with running(home) as site:
            for damaged in ("hostile", "damaged"):
                (site.store / damaged).rename(home / damaged)
            version = fill_years(home)
            browser = playwright.chromium.launch(**CHROMIUM)
            framed = f"{site.url}/plugin/probclass{BASE}/probclass"
            model = f"{framed}/stores/{site.key}/air_full"
            run = {"dag_id": "air", "run_id": site.run_id, "task_id": "evaluate", "map_index": -1}
            light = logged_in(site, browser).new_page()
            dark = logged_in(site, browser, color_scheme="dark").new_page()
            for page, name, address in (
                (light, "models", f"{framed}/"),
                (light, "timeline", model),
                (light, "partitions", f"{model}/-/partitions?sort=-warnings"),
                (light, "promotions", f"{model}/-/promotions"),
                (light, "card", f"{model}/{version.id}"),
                (dark, "run", f"{framed}/run?{urlencode(run)}"),
            ):
                page.set_viewport_size(
                    {"width": 1280, "height": 940 if name == "timeline" else 760}
                )
                page.goto(address)
                take(page, name)
            browser.close()


if __name__ == "__main__":
    main()
