"""The timeline of a scheduled model: versions, log loss, accuracy, and warnings by month."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from benchmarks.years.results import Month

MODEL, PRIOR, WARNING = "#0072B2", "#6B6B6B", "#D55E00"
BANDS = ("#EAF2F8", "#D4E6F1")


def draw(months: Sequence[Month], title: str, path: Path) -> None:
    """Write a PNG of the months of one model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import ConciseDateFormatter, MonthLocator
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    losses, accuracies, marks = figure.subplots(3, sharex=True, height_ratios=(3, 3, 1.6))
    days = [date.fromisoformat(f"{each.month}-01") for each in months]
    versions = list(dict.fromkeys(each.version for each in months))
    for axes in (losses, accuracies, marks):
        for day, each in zip(days, months, strict=True):
            color = BANDS[versions.index(each.version) % 2]
            hatch = {"hatch": "////", "edgecolor": "#B0B0B0"} if each.is_prior else {}
            axes.axvspan(day, _next(day), facecolor=color, linewidth=0, zorder=0, **hatch)
    middles = [day.replace(day=15) for day in days]
    losses.plot(middles, [each.window_prior for each in months], color=PRIOR, label="class prior")
    losses.plot(
        middles, [each.log_loss for each in months], color=MODEL, marker="o", label="served"
    )
    losses.set_ylabel("log loss (nats)")
    losses.set_title(title, loc="left")
    accuracies.plot(middles, [each.majority for each in months], color=PRIOR, label="majority")
    accuracies.plot(
        middles, [each.accuracy for each in months], color=MODEL, marker="o", label="served"
    )
    accuracies.set_ylabel("accuracy")
    rows = {
        "due": [each.due for each in months],
        "flagged with labels": [bool(each.flagged) for each in months],
        "warned without labels": [bool(each.warned) for each in months],
        "promoted": [each.event == "promoted" for each in months],
        "refused": [each.event == "refused" for each in months],
        "fallback to the prior": [each.event == "fallback" for each in months],
    }
    for height, hits in enumerate(rows.values()):
        marked = [day for day, hit in zip(middles, hits, strict=True) if hit]
        color = WARNING if height < 3 else MODEL
        marks.plot(
            marked, [height] * len(marked), linestyle="none", marker="s", markersize=5, color=color
        )
    marks.set_yticks(range(len(rows)), list(rows))
    marks.set_ylim(len(rows) - 0.5, -0.5)
    locator = MonthLocator(bymonth=(1, 4, 7, 10))  # type: ignore[no-untyped-call]
    marks.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    marks.xaxis.set_major_formatter(formatter)
    marks.set_xlim(days[0], _next(days[-1]))
    for axes in (losses, accuracies):
        axes.margins(y=0.2)
        axes.legend(loc="upper left", fontsize=8, ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _next(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)
