"""Plots of evaluations: reliability, confusion, and differences of cross-validated models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, suggest
from probclass_core.pipeline.cross_validation import CrossValidations
from probclass_core.plots.style import (
    GREY,
    INK,
    LINES,
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
_LETTER_WIDTH, _TITLE_WIDTH = 0.085, 3.2
"""Widths in inches of a letter of a label and of the title of a matrix."""
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


def confusion(evaluation: Evaluation) -> Figure:
    """Plot a confusion matrix: counts, and their shares of the rows of the true class.

    Rows are true classes, columns are predicted classes; darker cells have a larger share of their
    row. A class without rows has no shares.

    Args:
        evaluation: evaluation to plot; see `Evaluation.confusion`.

    Returns:
        A matplotlib figure, whose size grows with the number of classes.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    names = evaluation.confusion["class"].to_pylist()
    columns = evaluation.confusion.drop_columns(["class"]).columns
    counts = np.stack([column.to_numpy() for column in columns], axis=1)
    support = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(support, 1)
    labels = [short(name) for name in names]
    with_rows = [f"{label} ({rows:,})" for label, rows in zip(labels, support[:, 0], strict=True)]
    cell = max(0.95 if len(names) <= 6 else 0.62, 0.1 * len(f"{counts.max():,}") + 0.15)
    across = max(cell * len(names), _TITLE_WIDTH)
    longest = _LETTER_WIDTH * max(map(len, labels))
    crowded = longest > across / len(names)
    figure = blank_figure(
        across + 0.6 + _LETTER_WIDTH * max(map(len, with_rows)),
        0.8 * cell * len(names) + 0.9 + (0.75 * longest if crowded else 0.0),
    )
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    _write_cells(axes, counts, shares, 10.0 if len(names) <= 6 else 8.0)
    rotation: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names)), labels, **(rotation if crowded else {}))
    axes.set_yticks(range(len(names)), with_rows)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class (rows)")
    axes.set_title("Rows, and their share of the true class", loc="left", fontsize=10)
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(names) - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
    return figure


def differences(validations: CrossValidations) -> Figure:
    """Plot how much larger the log loss of each model is than that of the best one.

    A marker is the mean difference over the folds, and its line reaches two standard errors to
    either side; if it crosses 0, the difference may be chance. Circles are the folds.

    Args:
        validations: result of `probclass_core.cross_validate` with several specs.

    Returns:
        A matplotlib figure.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    best, *others = validations.table.to_pylist()
    losses = {
        name: one.table["log_loss"].to_numpy() for name, one in validations.validations.items()
    }
    figure = blank_figure(8.0, 1.3 + 0.32 * max(len(others), 1))
    axes = figure.subplots()
    for place, row in enumerate(others):
        mean, error = row["log_loss_difference"], row["log_loss_difference_error"]
        if mean is None or not np.isfinite(mean):
            text = "undefined" if mean is None else f"{mean:+.0f}".replace("inf", "∞")
            axes.annotate(text, (0.0, place), (5, 0), textcoords="offset points", va="center")
            continue
        each = losses[row["model"]] - losses[best["model"]]
        axes.plot(each, np.full(len(each), place), "o", mfc="none", mec=GREY, ms=4)
        axes.plot(mean, place, "D", color=LINES[0], ms=6)
        if error is not None:
            axes.plot(mean + np.array([-2.0, 2.0]) * error, [place, place], "-", color=LINES[0])
    axes.axvline(0.0, color=INK, lw=0.8)
    axes.set_yticks(range(len(others)), [short(row["model"]) for row in others])
    axes.set_ylim(max(len(others), 1) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference of the log loss (nats): the model is worse to the right of 0")
    plain_axes(
        axes,
        f"Log loss above that of '{short(best['model'])}', {best['log_loss']:.4f}: mean of "
        f"{len(losses[best['model']])} folds ± 2 standard errors",
    )
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


def _write_cells(axes: Axes, counts: FloatArray, shares: FloatArray, size: float) -> None:
    for (row, column), count in np.ndenumerate(counts):
        share = shares[row, column]
        rounded = f"{share:.0%}" if share >= 0.005 else "<1%"
        text = f"{count:,}\n{rounded}" if count else "0"
        color = "white" if share > 0.65 else INK if count else GREY
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=size,
            color=color,
            linespacing=1.1,
        )
