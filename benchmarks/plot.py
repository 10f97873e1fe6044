"""Ratios to the floor as a picture: one line per contestant, one panel per case, one log axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import OURS
from benchmarks.contest import Result, Spread
from benchmarks.report import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which the colour-blind tell apart; the markers differ as well.
_STYLE = {
    "ours": ("#D55E00", "D"),
    "peer": ("#0072B2", "o"),
    "floor": ("#6B6B6B", "s"),
}
_LINE = 0.27
"""Height of a contestant's line, in inches."""


def draw(results: Sequence[Result], path: Path) -> None:
    """A PNG of all results that have ratios."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [len(result.entries) + 1.6 for result in results]
    figure = Figure(figsize=(10.0, _LINE * sum(heights) + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(results), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, result in zip(panels[:, 0], results, strict=True):
        _panel(axes, result)
    panels[-1, 0].set_xlabel("ratio to the floor of the case (median of rounds, least to most)")
    figure.savefig(path, dpi=130)


def _panel(axes: Axes, result: Result) -> None:
    case = result.case
    names = list(result.entries)
    axes.set_title(f"{case.title}, {result.rows:,} rows", loc="left", fontsize=10)
    axes.set_xscale("log")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.axvline(1.0, color=_STYLE["floor"][0], linewidth=1.0)
    for bar in case.bars:
        line = names.index(bar.contestant)
        reach = result.to_floor(bar.against)
        if reach is not None:
            place = bar.limit * reach.median
            axes.plot([place, place], [line - 0.45, line + 0.45], color="black", linewidth=2.0)
    for line, name in enumerate(names):
        ratio = result.to_floor(name)
        if ratio is None:
            axes.text(1.0, line, f"  {result.entries[name].rejected}", va="center", fontsize=8)
            continue
        colour, marker = _STYLE[_kind(result, name)]
        reaches = [[ratio.median - ratio.least], [ratio.largest - ratio.median]]
        axes.errorbar(
            ratio.median, line, xerr=reaches, color=colour, marker=marker, markersize=6, capsize=3
        )
        median = amount(Spread.of(result.entries[name].figures).median, case.unit)
        axes.annotate(
            f"{ratio.median:.3g} ×  ({median})",
            (ratio.largest, line),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.grid(axis="x", which="major", color="#DDDDDD")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _kind(result: Result, name: str) -> str:
    if result.entries[name].contestant.is_floor:
        return "floor"
    return "ours" if name.startswith(OURS) else "peer"
