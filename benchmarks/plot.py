"""A plot of ratios to the baseline: one panel per case, one line per implementation, log axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import OURS, Target
from benchmarks.report import amount
from benchmarks.runner import Result, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colors, which color-blind readers can distinguish; the markers differ, too.
_STYLE = {
    "ours": ("#D55E00", "D"),
    "other": ("#0072B2", "o"),
    "baseline": ("#6B6B6B", "s"),
}
_LINE_HEIGHT = 0.27
"""Height of a line, in inches."""


def draw(results: Sequence[Result], path: Path) -> None:
    """Write a PNG of all results."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [len(result.entries) + 1.6 for result in results]
    figure = Figure(figsize=(10.0, _LINE_HEIGHT * sum(heights) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(results), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, result in zip(panels[:, 0], results, strict=True):
        _panel(axes, result)
    panels[-1, 0].set_xlabel(
        "ratio to the first baseline of the case: median and range of the rounds\n"
        "gray squares: baselines; blue circles: other libraries; orange diamonds: probclass; "
        "black tick: target"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, result: Result) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    names = list(result.entries)
    rows = f", {result.rows:,} rows" if result.rows else ""
    axes.set_title(f"{result.case.title}{rows}", loc="left", fontsize=10, fontweight="bold")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.axvline(1.0, color=_STYLE["baseline"][0], linewidth=1.0)
    for line, name in enumerate(names):
        _line(axes, result, line, name)
    for target in result.case.targets:
        _target(axes, result, names.index(target.implementation), target)
    axes.grid(axis="x", which="major", color="#DDDDDD")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _line(axes: Axes, result: Result, line: int, name: str) -> None:
    """One implementation: its ratio on the axis, its figures on the right."""
    entry, ratio = result.entries[name], result.ratio_to_baseline(name)
    if ratio is None:
        text = f"rejected: {entry.rejected}"
    else:
        median = amount(Spread.of(entry.figures).median, result.case.unit)
        text = f"{ratio.median:.2f} ×   {median:>8}"
        color, marker = _STYLE[_kind(result, name)]
        error = [[ratio.median - ratio.minimum], [ratio.maximum - ratio.median]]
        axes.errorbar(ratio.median, line, xerr=error, color=color, marker=marker, capsize=3)
    axes.annotate(
        text,
        (1.0, line),
        xycoords=("axes fraction", "data"),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def _target(axes: Axes, result: Result, line: int, target: Target) -> None:
    """The limit as a tick on the line of the implementation, which should be left of it."""
    rival = result.rival(target)
    against = None if rival is None else result.ratio_to_baseline(rival)
    if against is not None:
        limit = target.limit * against.median
        axes.plot([limit, limit], [line - 0.4, line + 0.4], color="black", linewidth=2.0)


def _kind(result: Result, name: str) -> str:
    if result.entries[name].implementation.is_baseline:
        return "baseline"
    return "ours" if name.startswith(OURS) else "other"
