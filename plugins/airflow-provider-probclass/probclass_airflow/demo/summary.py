"""The summary of the demo: a table of months, a ranking, a plot, and the paths of the output."""

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
    """The result of one model in one month, from the asset events of the DAG."""

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
    """Join the evaluations with the scores; sorted by month, then model."""
    scored: dict[tuple[str, str], int] = {}
    evaluated: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        extra = event["extra"]
        key = (extra["partition"]["month"], extra["model"])
        if event["source_task_id"].endswith(".evaluate"):
            evaluated[key] = extra
        else:
            scored[key] = extra["rows"]
    joined = []
    for (month, reference), extra in sorted(evaluated.items()):
        model, _, model_id = reference.partition("@")
        joined.append(
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
    return joined


def _loss(value: float | None) -> float:
    """The loss; JSON cannot express an infinite one, which is null."""
    return math.inf if value is None else value


def show(console: Console, joined: list[Result], output: Path) -> None:
    """Print the tables, draw the plot, and print the paths of the output."""
    console.print(months_table(joined), ranking_table(joined))
    plot = _draw(joined, output)
    paths = Table.grid(padding=(0, 2))
    for title, path in (
        ("Scored tables", output / "scored"),
        ("Model store", output / "models"),
        ("Posterior over time", plot),
    ):
        paths.add_row(title, f"[cyan]{display_path(path)}[/]")
    console.print(paths, soft_wrap=True)


def display_path(path: Path) -> str:
    """The path relative to the working directory if it is below it, escaped for rich."""
    return escape(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def months_table(joined: list[Result]) -> Table:
    """A row for each month and model."""
    table = Table(
        title="Air quality in Beijing: each month scored by the twelve months before it",
        **PLAIN,
    )
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
    previous = None
    for result in joined:
        table.add_row(
            result.month if result.month != previous else "",
            result.model,
            f"{result.rows:,}",
            f"{result.labeled:,}",
            f"{result.accuracy:.1%}",
            f"{result.baseline_accuracy:.1%}",
            f"{result.log_loss:.3f}",
            f"{result.baseline_log_loss:.3f}",
            result.model_id[:8],
        )
        previous = result.month
    return table


def ranking_table(joined: list[Result]) -> Table:
    """The models and the majority class, sorted by mean log loss."""
    by_model = {
        name: [result for result in joined if result.model == name]
        for name in sorted({result.model for result in joined})
    }
    rows = [
        (fmean(r.log_loss for r in months), fmean(r.accuracy for r in months), name)
        for name, months in by_model.items()
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


def _draw(joined: list[Result], output: Path) -> Path:
    months = sorted({result.month for result in joined})
    table = ds.dataset(output / "scored" / FULL, partitioning="hive").to_table(
        filter=ds.field("month").isin(months)
    )
    plot = output / "posterior.png"
    posterior_over_time(table, "time", label="air").savefig(plot, dpi=150)
    return plot
