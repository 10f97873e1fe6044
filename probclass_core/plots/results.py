"""Results as plots: reliability, and what columns contribute on average and in one row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.explanation import Explanation
from probclass_core.analysis.importance import Importance
from probclass_core.arguments import checked_number
from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError
from probclass_core.plots.style import (
    GREY,
    INK,
    LINES,
    blank_figure,
    few_names,
    legend_beside,
    plain_axes,
    short,
)
from probclass_core.spec.model_spec import category_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FOR, _AGAINST = LINES[0], LINES[1]
_LABEL_LENGTH = 44
_FEW_ROWS = 30
_Z = 1.959964
"""95 % of a standard normal distribution are within ± this."""


def importance(importance: Importance, *, most: int = 15) -> Figure:
    """Plot how much each column contributes to predictions, the most important ones first.

    Args:
        importance: result of `probclass_core.importance`.
        most: largest number of columns to name; the others are summed.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if `most` is less than 1.
        NotSupportedError: if matplotlib is not installed.
    """
    checked_number("most", most, 1)
    lines = importance.table.to_pylist()
    names = [few_names(line["item"].split(", ")) for line in lines[:most]]
    sizes = [line["size"] for line in lines[:most]]
    if others := lines[most:]:
        names.append(f"{len(others)} others, summed" if len(others) > 1 else others[0]["item"])
        sizes.append(sum(line["size"] for line in others))
    largest = max((size for size in sizes if math.isfinite(size)), default=0.0) or 1.0
    figure, axes = _blank_bars(1.1 + 0.3 * max(len(names), 1), names)
    # An infinite bar ends where the axis does.
    bars = axes.barh(range(len(names)), np.minimum(sizes, 1.3 * largest), 0.66, color=LINES[0])
    notes = [f"{size:.3f}" if math.isfinite(size) else "∞" for size in sizes]
    axes.bar_label(bars, notes, padding=5, fontsize=9)
    axes.set_xlim(0.0, 1.45 * largest)
    axes.set_xlabel("mean absolute weight of evidence (nats)")
    plain_axes(axes, f"How far each column moves the log odds in {importance.rows:,} rows")
    return figure


def _blank_bars(height: float, names: Sequence[str]) -> tuple[Figure, Axes]:
    """An empty figure for horizontal bars, the first at the top."""
    figure = blank_figure(8.0, height)
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), [short(name, _LABEL_LENGTH) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    return figure, axes


def waterfall(explanation: Explanation, row: int | None = None) -> Figure:
    """Plot how the log odds of one row come about, from the prior to the posterior.

    Each bar begins where the one before it ends: blue bars are for the prediction, red ones are
    against it.

    Args:
        explanation: result of `probclass_core.explain`.
        row: number of the row; None for the first of the explanation.

    Returns:
        A matplotlib figure.

    Raises:
        DataError: if the explanation does not have the row, or is of a model of one class.
        NotSupportedError: if matplotlib is not installed.
    """
    if "log_odds" not in explanation.rows.column_names:
        raise DataError(
            "the explanation has no log odds to plot, for its model has one class; see surprise."
        )
    numbers = explanation.rows["row"].to_pylist()
    if not numbers or (row is not None and row not in numbers):
        shown = "no row" if row is None else f"no row {row}"
        raise DataError(f"the explanation has {shown}; it has {len(numbers):,} rows.")
    row = numbers[0] if row is None else row
    summary = explanation.rows.slice(numbers.index(row), 1).to_pylist()[0]
    entries = explanation.table.filter(pc.field("row") == row).to_pylist()
    starts = [0.0, *(entry["total"] for entry in entries)]
    ends = [*(entry["total"] for entry in entries), summary["log_odds"]]
    finite = [abs(end) for end in ends if end is not None and math.isfinite(end)]
    reach = 1.4 * max(finite, default=0.0) or 1.0
    names = [*map(_entry_text, entries), "posterior"]
    weights = [*(entry["weight"] for entry in entries), summary["log_odds"]]
    figure, axes = _blank_bars(1.4 + 0.32 * len(names), names)
    for place, (start, end, weight) in enumerate(zip(starts, ends, weights, strict=True)):
        is_last = place == len(entries)
        left, right = (_position(value, reach) for value in (0.0 if is_last else start, end))
        color = INK if is_last else _FOR if right >= left else _AGAINST
        axes.barh(place, right - left, 0.66, left=left, color=color)
        note = "–" if weight is None else f"{weight:+.2f}"
        beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points"}
        axes.annotate(note, (max(left, right), place), va="center", fontsize=9, **beside)
        if not is_last:
            axes.plot([right, right], [place - 0.33, place + 1.33], color=GREY, lw=0.8)
    axes.axvline(0.0, color=INK, lw=0.8)
    edges = [0.0, *(_position(value, reach) for value in ends)]
    width = max(edges) - min(edges) or 1.0
    axes.set_xlim(min(edges) - 0.05 * width, max(edges) + 0.15 * width)
    prediction, against = (short(category_text(summary[one])) for one in ("prediction", "against"))
    axes.set_xlabel(f"log odds of {prediction} against {against} (nats)")
    plain_axes(
        axes,
        f"Row {row}: {prediction} ({summary['probability']:.1%}) rather than {against} "
        f"({summary['probability_against']:.1%})\nblue: for {prediction}, red: against it",
    )
    return figure


def _position(value: float | None, reach: float) -> float:
    """Where a total is drawn: an infinite one at the edge, one of two impossible classes at 0."""
    return 0.0 if value is None else float(np.clip(value, -reach, reach))


def _entry_text(entry: Mapping[str, Any]) -> str:
    """An entry of a ledger on one line: the column and its value."""
    kind, item, value = entry["entry"], entry["item"], entry["value"]
    if kind == "rest":
        return str(value)
    if kind == "columns":
        return f"{few_names(item.split(', '))} together"
    if kind == "feature":
        return f"{item} = {'missing' if value is None else value}"
    return str(item or kind)


def reliability(evaluation: Evaluation) -> Figure:
    """Plot a reliability diagram: observed frequencies against predicted probabilities.

    Each point is a bin of rows: their mean predicted probability, and the share of rows in which
    the prediction came true. Thin lines are the 95 % intervals of these shares (Wilson's); hollow
    markers have fewer than 30 rows. The strip below counts the rows of each bin, on a log scale.

    Args:
        evaluation: evaluation to plot; see `Evaluation.reliability`.

    Returns:
        A matplotlib figure.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    figure = blank_figure(7.0, 5.6)
    from matplotlib.ticker import LogLocator

    curve, strip = figure.subplots(2, 1, sharex=True, height_ratios=[3.5, 1])
    curve.plot([0.0, 1.0], [0.0, 1.0], color=GREY, lw=1.0, label="perfect calibration")
    if _draw_bins(curve, strip, evaluation.reliability):
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


def _draw_bins(curve: Axes, strip: Axes, table: pa.Table) -> bool:
    """Plot the bins of the predicted class; returns whether one has few rows."""
    bins = table.filter(pc.is_null(table["class"])).sort_by("lower")
    lower, upper, rows, probability, frequency = (
        bins[key].to_numpy() for key in ("lower", "upper", "rows", "probability", "frequency")
    )
    low, high = _wilson(frequency, rows)
    curve.vlines(probability, low, high, color=INK, lw=0.8, label="_interval")
    line: dict[str, Any] = {"color": INK, "marker": "o", "markersize": 5}
    curve.plot(probability, frequency, lw=1.2, label="predicted class", **line)
    few = rows < _FEW_ROWS
    curve.plot(probability[few], frequency[few], ls="", mfc="white", label="_few", **line)
    for edges, count in zip(np.stack([lower, upper], axis=1), rows, strict=True):
        strip.stairs([count], edges, baseline=0.5, fill=True, color=INK, alpha=0.35)
    return bool(few.any())


def _wilson(frequency: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a share (1927): within [0, 1], and valid for few rows."""
    shrink = 1.0 + _Z**2 / rows
    middle = (frequency + _Z**2 / (2.0 * rows)) / shrink
    half = _Z / shrink * np.sqrt(frequency * (1.0 - frequency) / rows + (_Z / (2.0 * rows)) ** 2)
    return middle - half, middle + half
