"""Ratios to the floor as a picture: one line per contestant, one panel per case, one log axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import OURS, Bar
from benchmarks.contest import Result, Spread
from benchmarks.report import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colors, which the color-blind tell apart; the markers differ as well.
_STYLE = {
    "ours": ("#D55E00", "D"),
    "peer": ("#0072B2", "o"),
    "floor": ("#6B6B6B", "s"),
}
_LINE = 0.27
"""Height of a contestant's line, in inches."""


def draw(results: Sequence[Result], path: Path) -> None:
    """A PNG of all results."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [len(result.entries) + 1.6 for result in results]
    figure = Figure(figsize=(10.0, _LINE * sum(heights) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(results), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, result in zip(panels[:, 0], results, strict=True):
        _panel(axes, result)
    panels[-1, 0].set_xlabel(
        "times the first floor of the case: median of the rounds, least to most\n"
        "gray squares: floors; blue circles: peers; orange diamonds: probclass; black tick: the bar"
    )
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
    axes.axvline(1.0, color=_STYLE["floor"][0], linewidth=1.0)
    for line, name in enumerate(names):
        _line(axes, result, line, name)
    for bar in result.case.bars:
        _bar(axes, result, names.index(bar.contestant), bar)
    axes.grid(axis="x", which="major", color="#DDDDDD")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _line(axes: Axes, result: Result, line: int, name: str) -> None:
    """One contestant: its ratio where it lies, the figures at the right."""
    entry, ratio = result.entries[name], result.to_floor(name)
    if ratio is None:
        text = f"rejected: {entry.rejected}"
    else:
        median = amount(Spread.of(entry.figures).median, result.case.unit)
        text = f"{ratio.median:.2f} ×   {median:>8}"
        color, marker = _STYLE[_kind(result, name)]
        reach = [[ratio.median - ratio.least], [ratio.largest - ratio.median]]
        axes.errorbar(ratio.median, line, xerr=reach, color=color, marker=marker, capsize=3)
    axes.annotate(
        text,
        (1.0, line),
        xycoords=("axes fraction", "data"),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )


def _bar(axes: Axes, result: Result, line: int, bar: Bar) -> None:
    """The limit as a tick on the line of the contestant that must stay left of it."""
    against = result.to_floor(bar.against)
    if against is not None:
        limit = bar.limit * against.median
        axes.plot([limit, limit], [line - 0.4, line + 0.4], color="black", linewidth=2.0)


def _kind(result: Result, name: str) -> str:
    if result.entries[name].contestant.is_floor:
        return "floor"
    return "ours" if name.startswith(OURS) else "peer"
