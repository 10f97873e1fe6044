"""The plot of an evaluation: its reliability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, suggest
from probclass_core.plots.style import (
    GREY,
    INK,
    blank_figure,
    class_style,
    legend_beside,
    plain_axes,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FEW_ROWS = 30
_Z = 1.959964
"""95 % of a standard normal distribution are within ± this."""


def reliability(evaluation: Evaluation, *, classes: str | Sequence[str] = ()) -> Figure:
    """Plot a reliability diagram: observed frequencies against predicted probabilities.

    Each point is a bin of rows: their mean predicted probability, and the share of rows in which
    the prediction came true. Thin lines are the 95 % intervals of these shares (Wilson's); hollow
    markers have fewer than 30 rows. The strip below counts the rows of each bin, on a log scale.

    Args:
        evaluation: evaluation to plot; see `Evaluation.reliability`.
        classes: class or classes whose own probabilities are plotted besides the probability of the
            predicted class.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if a class was not evaluated.
        NotSupportedError: if matplotlib is not installed.
    """
    figure = blank_figure(7.0, 5.6)
    from matplotlib.ticker import LogLocator

    classes = [classes] if isinstance(classes, str) else classes
    known = evaluation.per_class["class"].to_pylist()
    for name in classes:
        if name not in known:
            raise SpecError(f"no class {name!r} was evaluated; there are {suggest(name, known)}")
    curve, strip = figure.subplots(2, 1, sharex=True, height_ratios=[3.5, 1])
    curve.plot([0.0, 1.0], [0.0, 1.0], color=GREY, lw=1.0, label="perfect calibration")
    table = evaluation.reliability
    few = _draw_bins(curve, strip, table, None, (INK, "o", "-"), "predicted class")
    for name in classes:
        style = class_style(known.index(name))
        line = style.color, style.marker, style.dashes
        few |= _draw_bins(curve, strip, table, name, line, f"class {short(name)}")
    if few:
        curve.plot([], [], "o", mfc="white", mec=GREY, ms=5, label=f"fewer than {_FEW_ROWS} rows")
    curve.plot([], [], "|", color=GREY, ms=12, label="95 % interval")
    curve.set_ylim(-0.03, 1.05)
    curve.set_ylabel("observed frequency")
    plain_axes(curve, f"{evaluation.rows:,} rows, expected calibration error {evaluation.ece:.3f}")
    strip.set_xlim(-0.02, 1.02)
    strip.set_xlabel("predicted probability")
    strip.set_ylabel("rows of the bin")
    strip.set_yscale("log")
    strip.yaxis.set_major_locator(LogLocator(numticks=6))
    strip.set_ylim(bottom=0.5)
    strip.yaxis.set_major_formatter("{x:,.0f}")
    strip.minorticks_off()
    strip.spines[["top", "right"]].set_visible(False)
    legend_beside(figure, curve)
    return figure


def _draw_bins(
    curve: Axes,
    strip: Axes,
    table: pa.Table,
    name: str | None,
    style: tuple[str, str, object],
    label: str,
) -> bool:
    """Plot the curve and the bars of one class; returns whether a bin has few rows."""
    color, marker, dashes = style
    of_class = pc.is_null(table["class"]) if name is None else pc.equal(table["class"], name)
    bins = table.filter(of_class).sort_by("lower")
    lower, upper, rows, probability, frequency = (
        bins[key].to_numpy() for key in ("lower", "upper", "rows", "probability", "frequency")
    )
    low, high = _wilson(frequency, rows)
    curve.vlines(probability, low, high, color=color, lw=0.8, label="_interval")
    line: dict[str, Any] = {"color": color, "marker": marker, "markersize": 5}
    curve.plot(probability, frequency, ls=dashes, lw=1.2, label=label, **line)
    few = rows < _FEW_ROWS
    curve.plot(probability[few], frequency[few], ls="", mfc="white", label="_few", **line)
    filled = name is None
    for edges, count in zip(np.stack([lower, upper], axis=1), rows, strict=True):
        shade: dict[str, Any] = {"fill": filled, "color": color, "alpha": 0.35 if filled else 1.0}
        strip.stairs([count], edges, baseline=0.5, **shade)
    return bool(few.any())


def _wilson(frequency: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a share (1927): within [0, 1], and valid for few rows."""
    shrink = 1.0 + _Z**2 / rows
    middle = (frequency + _Z**2 / (2.0 * rows)) / shrink
    half = _Z / shrink * np.sqrt(frequency * (1.0 - frequency) / rows + (_Z / (2.0 * rows)) ** 2)
    return middle - half, middle + half
