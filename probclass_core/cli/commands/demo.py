"""A first look: months of Beijing's air, trained, scored and measured in seconds."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.options import Json
from probclass_core.cli.output import put, put_json, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from probclass_core import ModelSpec

_MONTHS = [f"{month:02}" for month in range(1, 7)]
_MEASURES = {
    "accuracy": "accuracy",
    "baseline_accuracy": "prior alone",
    "log_loss": "log loss",
    "baseline_log_loss": "prior's",
}
"""Keys of a month's result, and the columns they stand in."""


def demo(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where lake, models and scored tables go.")
    ] = Path("probclass-demo"),
    as_json: Json = False,
) -> None:
    """Take a first look on real data: no Airflow, nothing to set up.

    Lays the bundled air-quality data of Beijing out as a monthly lake; trains two models on the
    twelve months before each of six months, scores that month, and measures how well it went.
    """
    from probclass_core.demo.lake import lay_out

    lake = lay_out(directory / "lake")
    results = [
        _month(directory, lake, month, name, spec)
        for month in _MONTHS
        for name, spec in _specs().items()
    ]
    if as_json:
        put_json({"directory": str(directory), "months": results})
        return
    put(_summary(results), _ways_on(directory, lake))


def _specs() -> dict[str, ModelSpec]:
    from probclass_core import Block, ModelSpec

    weather = ["dew_point", "temperature", "pressure", "log_wind_speed"]
    categories = Block("categorical", ["wind_direction", "hour"])
    return {
        "air_full": ModelSpec("air", [Block("gaussian_full", weather), categories]),
        "air_naive": ModelSpec("air", [Block("gaussian_diagonal", weather), categories]),
    }


def _month(directory: Path, lake: Path, month: str, name: str, spec: ModelSpec) -> dict[str, Any]:
    import probclass_core as pc

    scored = f"2014-{month}"
    model = pc.fit(lake, spec, where=[("month", ">=", f"2013-{month}"), ("month", "<", scored)])
    store = pc.ModelStore(directory / "models")
    store.promote(name, store.save(model, name), alias=scored)
    at = {"month": scored}
    sink = directory / "scored" / name
    report = pc.score(model, lake, sink, partition=at, columns=["time", "air"])
    found = pc.evaluate(model, lake, partition=at)
    return {
        "month": scored,
        "name": name,
        "model_id": model.id,
        "rows": report.rows,
        "labeled": found.rows,
        "accuracy": found.accuracy,
        "baseline_accuracy": found.baseline_accuracy,
        "log_loss": found.log_loss,
        "baseline_log_loss": found.baseline_log_loss,
    }


def _summary(results: list[dict[str, Any]]) -> RenderableType:
    means = [
        {
            "month": "mean",
            "name": name,
            **{key: _mean(results, name, key) for key in _MEASURES},
        }
        for name in _specs()
    ]
    rows = [*results, *means]
    return table(
        {
            "month": [row["month"] for row in rows],
            "model": [row["name"] for row in rows],
            "rows": [row.get("rows") for row in rows],
            **{column: [row[key] for row in rows] for key, column in _MEASURES.items()},
            "model id": [row.get("model_id", "")[:8] for row in rows],
        },
        "Beijing's air, each month of 2014 scored by the twelve before it",
    )


def _mean(results: list[dict[str, Any]], name: str, key: str) -> float:
    return fmean(result[key] for result in results if result["name"] == name)


def _ways_on(directory: Path, lake: Path) -> str:
    store, scored = f"--store {directory / 'models'}", directory / "scored"
    return (
        f"Scored tables are in {scored}. Look around:\n"
        f"  probclass models {store}\n"
        f"  probclass inspect air_full@2014-06 {store}\n"
        f"  probclass evaluate air_full@2014-06 {lake} {store} --partition month=2014-07\n"
        f"  probclass plot posterior-over-time {scored / 'air_full'} --time time --label air"
        " --out air.png"
    )
