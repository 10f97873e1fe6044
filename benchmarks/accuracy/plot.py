"""A plot of log losses relative to the class prior's: one line per table, log axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.models import PRIOR, models_for
from benchmarks.accuracy.report import NEGLIGIBLE, OURS, names, ratios
from benchmarks.accuracy.scores import OPTIMUM, Result

# Okabe and Ito's colors, which color-blind readers can distinguish; the markers differ, too.
_COLORS = "D55E00 CC79A7 0072B2 56B4E9 009E73 E69F00 6B6B6B B8A600 000000".split()  # noqa: SIM905
_MARKERS = "DPos^v<>X"
_LINE_HEIGHT = 0.3
"""Height of a line, in inches."""


def draw(results: Sequence[Result], path: Path) -> None:
    """Write a PNG of the tables on which the class prior was measured."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = [result for result in results if result.scores(PRIOR)]
    if not drawn:
        return
    figure = Figure(figsize=(10.0, _LINE_HEIGHT * len(drawn) + 1.9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yticks(range(len(drawn)), [result.name for result in drawn], fontsize=9)
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.axvline(1.0, color="black", linewidth=1.0, label=PRIOR)
    shown = [name for name in names(drawn) if name in models_for("keel") and name != PRIOR]
    for name, color, marker in zip(shown, _COLORS, _MARKERS, strict=False):
        found = ratios(drawn, name, PRIOR)
        lines = [line for line, result in enumerate(drawn) if result.name in found]
        axes.plot(
            [min(found[drawn[line].name], 3.0) for line in lines],
            lines,
            linestyle="",
            marker=marker,
            color=f"#{color}",
            markersize=7 if name in OURS else 5,
            zorder=3 if name in OURS else 2,
            label=name,
        )
    for line, result in enumerate(drawn):
        best, prior = result.scores(OPTIMUM), result.scores(PRIOR)
        if best is not None and prior is not None:
            x = max(best.log_loss, NEGLIGIBLE) / prior.log_loss
            label = "optimum" if OPTIMUM not in axes.get_legend_handles_labels()[1] else None
            axes.plot([x, x], [line - 0.4, line + 0.4], color="black", linewidth=2.0, label=label)
    axes.set_xlabel("log loss relative to the class prior's (3 and more are drawn at 3)")
    axes.grid(axis="both", which="major", color="#E5E5E5")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
