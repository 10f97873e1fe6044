"""Operate two models month by month in a local Airflow, and say which warnings were due and given.

python -m benchmarks.years [--first 2011-03] [--months 46] [--out DIR] [--library] [--record]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from itertools import pairwise
from pathlib import Path

from benchmarks import figures
from benchmarks.years import library
from benchmarks.years.picture import draw
from benchmarks.years.results import Month, measure, month_range, summarize, table
from probclass_airflow.demo.local_airflow import DemoError, LocalAirflow
from probclass_core.demo.lake import lay_out

ROOT = Path(__file__).parents[2]
MODELS = ("air", "unguarded")


def operate(out: Path, months: Sequence[str]) -> None:
    """Run the months in a local Airflow, one after the other."""
    began = time.monotonic()
    with LocalAirflow(
        home=out / "airflow",
        dags=ROOT / "dags",
        plugins=ROOT / "plugins",
        environment={"PROBCLASS_HOME": str(out)},
    ) as airflow:
        airflow.start()
        airflow.start_scheduler()
        named = month_range(months[0], len(months) + 1)
        for done, (month, following) in enumerate(pairwise(named), start=1):
            first, last = (date.fromisoformat(f"{each}-01") for each in (month, following))
            state, tasks = airflow.run("air_quality_operate", month, first, last)
            failed = {one["task_id"]: one for one in tasks if one["state"] == "failed"}
            if failed.keys() - {"air.done"}:
                logs = map(airflow.log_of, failed.values())
                raise DemoError("\n".join([f"The run of {month} failed.", *logs]))
            seconds = f"{time.monotonic() - began:.0f} s"
            print(f"{done} of {len(months)} months, {month} {state}, {seconds}", flush=True)


def write(results: Mapping[str, list[Month]], out: Path, images: Path) -> None:
    """Write the months as JSON, and the pictures."""
    plain = {name: [asdict(each) for each in months] for name, months in results.items()}
    (out / "years.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    draw(results["air"], "air: weighted, judged, with a fallback", images / "years.png")
    draw(
        results["unguarded"],
        "unguarded: neither weighted, nor a floor, nor a fallback",
        images / "years-unguarded.png",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the months, and print a summary; return 1 if Airflow failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.years", description=main.__doc__)
    parser.add_argument("--first", default="2011-03", help="first month to score")
    parser.add_argument("--months", type=int, default=46, help="number of months")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "cache" / "years")
    parser.add_argument("--library", action="store_true", help="call the library without Airflow")
    parser.add_argument("--record", action="store_true", help="store the figures and the pictures")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    for name in ("lake", "models", "scored", "airflow"):  # a model that was judged goes no way back
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    months = month_range(options.first, options.months)
    lay_out(out / "lake")
    began = time.monotonic()
    try:
        if options.library:
            library.operate(out, months)
        else:
            operate(out, months)
    except DemoError as error:
        print(error, file=sys.stderr)
        return 1
    seconds = time.monotonic() - began
    library.operate_unguarded(out, months)
    results = {name: measure(out, name, months) for name in MODELS}
    write(results, out, ROOT / "docs" / "images" if options.record else out)
    summary = {"models": {name: summarize(months) for name, months in results.items()}}
    if options.record:
        figures.record("years", summary)
    print(table(summary))
    print(f"{len(months)} months in {seconds:.0f} s; written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
