"""demo: train, score and evaluate months of the bundled air-quality data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import probclass_core as pc
from probclass_core.cli.output import show, table
from probclass_core.demo.lake import lay_out

_MONTHS = [f"{month:02}" for month in range(1, 7)]
_TITLE = "Air quality in Beijing: each month of 2014, scored by a model of the twelve months before"
_METRICS = ("accuracy", "baseline_accuracy", "log_loss", "baseline_log_loss")


def demo(
    directory: Annotated[Path, "DIR: Directory for the lake, models and scored tables."] = Path(
        "probclass-demo"
    ),
) -> None:
    """Train, score and evaluate models on bundled data; needs no setup and no Airflow.

    Writes the hourly air quality of Beijing as a lake partitioned by month. For each of six months,
    trains a model on the twelve months before it, scores the month and evaluates the result.
    """
    lake = lay_out(directory / "lake")
    results = [_run_month(directory, lake, month) for month in _MONTHS]
    show(
        {"directory": str(directory), "months": results},
        table(results, _TITLE),
        _next_commands(directory, lake),
    )


def _run_month(directory: Path, lake: Path, month: str) -> dict[str, Any]:
    scored = f"2014-{month}"
    year = [("month", ">=", f"2013-{month}"), ("month", "<", scored)]
    model = pc.fit(lake, label="air", exclude="pm25", where=year)  # air is made from pm25
    store = pc.ModelStore(directory / "models")
    store.promote("air", store.save(model, "air"), alias=scored)
    partition = {"month": scored}
    options = pc.ScoringOptions(columns=["time", "air"])
    report = pc.score(model, lake, directory / "scored", partition=partition, options=options)
    evaluation = pc.evaluate(model, lake, partition=partition)
    return {
        "month": scored,
        "model_id": model.id,
        "rows": report.rows,
        "labeled": evaluation.rows,
        **{metric: getattr(evaluation, metric) for metric in _METRICS},
    }


def _next_commands(directory: Path, lake: Path) -> str:
    store, scored = f"--store {directory / 'models'}", directory / "scored"
    return (
        f"Scored tables are in {scored}. Next, try:\n"
        f"  probclass models {store}\n"
        f"  probclass inspect air@2014-06 {store}\n"
        f"  probclass evaluate air@2014-06 {lake} {store} --partition month=2014-07"
    )
