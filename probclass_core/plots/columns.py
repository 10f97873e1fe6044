"""One column of a model, class by class: densities of numbers, probabilities of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.errors import SpecError
from probclass_core.model.model import Model
from probclass_core.plots.marginals import (
    Marginal,
    block_of,
    category_probabilities,
    rows_by_class,
)
from probclass_core.plots.regions import find_region
from probclass_core.plots.style import (
    GREY,
    axis_label,
    blank_figure,
    class_style,
    legend_beside,
    plain_axes,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 801
_LEVEL = 1e-3
"""Curves are drawn down to this fraction of their peak; below it they are close to the axis."""
_UNBOUNDED = 300.0
"""Log densities above this, as at a value that K points share, count as infinite; in nats."""
_MIN_BARS, _MAX_BARS = 10, 60


def class_densities(
    model: Model, column: str, *, data: Any = None, prior_weighted: bool = False
) -> Figure:
    """Plot p(x | class) of one numeric column: one curve per class, over histograms of data.

    The model's other columns are marginalized. A class with a single value (a point mass) is a
    vertical line, and an infinite density (neighbors that coincide) is a gap.

    Args:
        model: fitted model.
        column: numeric column.
        data: table or frame to show as histograms on the scale of the curves, one per class, or a
            single one if it has no label column; see `arrays.as_table`.
        prior_weighted: plot p(x | class) P(class) instead, whose sum over the classes is p(x).

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if the model has no such column, or it has categories or bins.
        DataError: if the data's column is missing, not numeric or infinite.
        NotSupportedError: if matplotlib is not installed, or a density does not decrease anywhere.
    """
    figure = blank_figure(7.5, 4.2)
    marginal = Marginal(model, [column])
    axes = figure.subplots()
    if data is not None:
        (values,), codes = rows_by_class(model, data, [column])
        _draw_histograms(axes, model, values, codes, prior_weighted)
    scale = np.exp(model.log_prior) if prior_weighted else np.ones(len(model.classes))
    means = marginal.means()
    for position, name in enumerate(model.class_names):
        style = class_style(position)
        line: dict[str, Any] = {"color": style.color, "ls": style.dashes, "label": short(name)}
        region = find_region(marginal, position, _LEVEL, _GRID)
        if region is not None and len(region.axes[0]) > 1:
            density = np.exp(region.log_density) * scale[position]
            density[region.log_density > _UNBOUNDED] = np.nan
            marker = style.marker if marginal.whole[0] else ""
            axes.plot(region.axes[0], density, marker=marker, markersize=4, **line)
        elif means is not None:
            axes.axvline(means[position, 0], **line)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(axis_label(column))
    quantity = "probability" if marginal.whole[0] else "density"
    formula = "p(x | class) P(class)" if prior_weighted else "p(x | class)"
    axes.set_ylabel(f"{quantity}, {formula}")
    histograms = "" if data is None else "; filled: the data"
    plain_axes(axes, f"Lines: the model{histograms}")
    legend_beside(figure, axes, short(axis_label(model.spec.label)))
    return figure


def category_masses(model: Model, column: str, *, most: int = 12) -> Figure:
    """Plot P(value | class) of each category of a column, one bar per class.

    Categories are also the bins of a discretized number, the terms of a text, and presence or
    absence: everything with a probability in the block's parameters.

    If there are many categories, the most informative ones are plotted: those that contribute most
    to the mutual information of column and class, Σ_c P(c) P(v | c) log(P(v | c) / P(v)), in
    decreasing order. The title says how many are left out.

    Args:
        model: fitted model.
        column: column of categories.
        most: maximum number of categories to plot.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if the model has no such column, it has a density, or `most` is less than 1.
        NotSupportedError: if matplotlib is not installed.
    """
    categories = category_probabilities(model, column)
    if categories is None:
        block = block_of(model, column)
        raise SpecError(
            f"column {column!r} has a density in block {block.name!r}, not categories; "
            "use class_densities (probclass plot densities)."
        )
    if most < 1:
        raise SpecError(f"most must be at least 1, got {most!r}.")
    names, probability = categories
    order = np.arange(len(names))
    title = f"P({axis_label(column)} | class)"
    if len(names) > most:
        information = _information(probability, np.exp(model.log_prior))
        order = np.argsort(-information, kind="stable")[:most]
        title += f"\n{most} most informative of {len(names)} values, {len(names) - most} left out"
    classes = len(model.class_names)
    figure = blank_figure(7.5, 1.2 + len(order) * (0.12 + np.clip(0.11 * classes, 0.2, 1.1)))
    axes = figure.subplots()
    height = 0.8 / classes
    for position, name in enumerate(model.class_names):
        style = class_style(position)
        axes.barh(
            np.arange(len(order)) - 0.4 + (position + 0.5) * height,
            probability[order, position],
            height,
            color=style.color,
            hatch=style.hatch,
            edgecolor="white",
            linewidth=0.5,
            label=short(name),
        )
    axes.set_yticks(range(len(order)), [short(names[index]) for index in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("probability")
    axes.set_ylabel(axis_label(column))
    axes.tick_params(axis="y", length=0)
    plain_axes(axes, title)
    legend_beside(figure, axes, short(axis_label(model.spec.label)))
    return figure


def _information(probability: FloatArray, prior: FloatArray) -> FloatArray:
    """The contribution of each category to the mutual information with the class, in nats."""
    joint = probability * prior
    marginal = joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0.0, joint * np.log(probability / marginal), 0.0)
    information: FloatArray = terms.sum(axis=1)
    return information


def _draw_histograms(
    axes: Axes, model: Model, values: FloatArray, codes: IntArray, prior_weighted: bool
) -> None:
    edges = _bar_edges(values)
    labeled = codes != MISSING
    if not labeled.any():
        heights = np.histogram(values, edges, density=True)[0]
        axes.stairs(heights, edges, fill=True, color=GREY, alpha=0.4, label="all rows")
        return
    for position in range(len(model.class_names)):
        class_values = values[codes == position]
        if not len(class_values):
            continue
        total = labeled.sum() if prior_weighted else len(class_values)
        heights = np.histogram(class_values, edges)[0] / (total * np.diff(edges))
        axes.stairs(heights, edges, fill=True, color=class_style(position).color, alpha=0.25)


def _bar_edges(values: FloatArray) -> FloatArray:
    """Edges of about √n bars; for whole numbers, every bar covers equally many of them."""
    low, high = values.min(), values.max()
    if low == high:
        margin = max(0.5, 0.005 * abs(low))
        return np.array([low - margin, low + margin])
    bars = int(np.clip(np.sqrt(len(values)), _MIN_BARS, _MAX_BARS))
    if max(-low, high) < 2.0**52 and np.all(values == np.round(values)):
        step = max(1.0, np.ceil((high - low + 1.0) / bars))
        return np.arange(low - 0.5, high + step, step)
    return np.linspace(low, high, bars + 1)
