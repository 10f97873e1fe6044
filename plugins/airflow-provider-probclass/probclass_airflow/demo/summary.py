"""What the months came to: a table, a ranking, a picture, and where everything lies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.dataset as ds
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from probclass_core.plots import posterior_over_time

FULL = "air_full"
PLAIN: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
"""Tables that fit a terminal of 80 columns."""


@dataclass(frozen=True)
class Result:
    """One model, one month, as the DAG's asset events tell it."""

    month: str
    model: str
    model_id: str
    rows: int
    labeled: int
    accuracy: float
    log_loss: float
    baseline_accuracy: float
    baseline_log_loss: float


def results(events: Iterable[dict[str, Any]]) -> list[Result]:
    """Join each evaluation to its scoring; by month, then model."""
    scored: dict[tuple[str, str], int] = {}
    measured: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        extra = event["extra"]
        key = (extra["partition"]["month"], extra["model"])
        if event["source_task_id"].endswith(".evaluate"):
            measured[key] = extra
        else:
            scored[key] = extra["rows"]
    found = []
    for (month, reference), extra in sorted(measured.items()):
        model, _, model_id = reference.partition("@")
        found.append(
            Result(
                month=month,
                model=model,
                model_id=model_id,
                rows=scored[month, reference],
                labeled=extra["rows"],
                accuracy=extra["accuracy"],
                log_loss=_loss(extra["log_loss"]),
                baseline_accuracy=extra["baseline_accuracy"],
                baseline_log_loss=_loss(extra["baseline_log_loss"]),
            )
        )
    return found


def _loss(value: float | None) -> float:
    """An infinite loss comes as null, since JSON has no number for it."""
    return math.inf if value is None else value


def show(console: Console, found: list[Result], output: Path) -> None:
    """Print the table and the ranking, draw the picture, and say where everything lies."""
    console.print(months_table(found), ranking_table(found))
    picture = _draw(found, output)
    places = Table.grid(padding=(0, 2))
    for what, where in (
        ("Scored tables", output / "scored"),
        ("Model store", output / "models"),
        ("Posterior over time", picture),
    ):
        places.add_row(what, f"[cyan]{shown(where)}[/]")
    console.print(places, soft_wrap=True)


def shown(path: Path) -> str:
    """The path as the user would type it here, ready for rich."""
    return escape(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def months_table(found: list[Result]) -> Table:
    """One row per month and model."""
    table = Table(title="Beijing's air, each month scored by the twelve before it", **PLAIN)
    table.add_column("month", no_wrap=True)
    table.add_column("model", no_wrap=True)
    for name in (
        "rows",
        "known\nclass",
        "accuracy",
        "majority\naccuracy",
        "log\nloss",
        "majority\nlog loss",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("model id", no_wrap=True)
    before = None
    for result in found:
        table.add_row(
            result.month if result.month != before else "",
            result.model,
            f"{result.rows:,}",
            f"{result.labeled:,}",
            f"{result.accuracy:.1%}",
            f"{result.baseline_accuracy:.1%}",
            f"{result.log_loss:.3f}",
            f"{result.baseline_log_loss:.3f}",
            result.model_id[:8],
        )
        before = result.month
    return table


def ranking_table(found: list[Result]) -> Table:
    """The models and the majority class by mean log loss."""
    by_model = {
        name: [result for result in found if result.model == name]
        for name in sorted({result.model for result in found})
    }
    rows = [
        (fmean(r.log_loss for r in of_one), fmean(r.accuracy for r in of_one), name)
        for name, of_one in by_model.items()
    ]
    baseline = next(iter(by_model.values()))
    rows.append(
        (
            fmean(r.baseline_log_loss for r in baseline),
            fmean(r.baseline_accuracy for r in baseline),
            "majority class",
        )
    )
    table = Table(title=f"Mean over {len(baseline)} months, best first", **PLAIN)
    table.add_column("model")
    table.add_column("log loss (nats)", justify="right")
    table.add_column("accuracy", justify="right")
    for log_loss, accuracy, name in sorted(rows):
        table.add_row(name, f"{log_loss:.3f}", f"{accuracy:.1%}")
    return table


def _draw(found: list[Result], output: Path) -> Path:
    months = sorted({result.month for result in found})
    table = ds.dataset(output / "scored" / FULL, partitioning="hive").to_table(
        filter=ds.field("month").isin(months)
    )
    picture = output / "posterior.png"
    posterior_over_time(table, "time", label="air").savefig(picture, dpi=150)
    return picture
