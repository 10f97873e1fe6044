"""One column of a model, class by class: the density of a number, probabilities of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.errors import SpecError
from probclass_core.model.model import Model
from probclass_core.plots.blocks import block_of
from probclass_core.plots.cells import cell_masses
from probclass_core.plots.marginals import Marginal, lobe, rows_by_class
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
_DOWN_TO = 1e-3
"""Curves are drawn down to this fraction of their peak; below it they lie on the axis."""
_UNBOUNDED = 300.0
"""Nats beyond which a density stands for an infinite one, as at a value that K points share."""
_FEWEST_BARS, _MOST_BARS = 10, 60


def class_densities(
    model: Model, column: str, *, data: Any = None, prior_weighted: bool = False
) -> Figure:
    """p(x | class) of one numeric column, a curve per class, over histograms of data if given.

    The model's other columns are marginalized. A class whose values are all one (a point mass) is
    a vertical line, and a density without bound (neighbors that coincide) is a gap.

    Args:
        model: any whose `column` is a number.
        column: which.
        data: a table or frame (see `arrays.as_table`); one histogram per class, on the scale of the
            curves, or a single one where it has no label column.
        prior_weighted: draw p(x | class) P(class) instead, whose sum over classes is p(x).

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: the model has no such column, or it has categories or bins.
        DataError: the data's column is missing, not numeric or infinite.
        NotSupportedError: matplotlib is not installed, or a density has no bounds: it falls off
            nowhere.
    """
    figure = blank_figure(7.5, 4.2)
    marginal = Marginal(model, [column])
    axes = figure.subplots()
    if data is not None:
        (values,), codes = rows_by_class(model, data, [column])
        _draw_histograms(axes, model, values, codes, prior_weighted)
    scale = np.exp(model.log_prior) if prior_weighted else np.ones(len(model.classes))
    means = marginal.means()
    for place, name in enumerate(model.class_names):
        look = class_style(place)
        line: dict[str, Any] = {"color": look.color, "ls": look.dashes, "label": short(name)}
        found = lobe(marginal, place, _DOWN_TO, _GRID)
        if found is not None and len(found.axes[0]) > 1:
            density = np.exp(found.log_density) * scale[place]
            density[found.log_density > _UNBOUNDED] = np.nan
            marker = look.marker if marginal.whole[0] else ""
            axes.plot(found.axes[0], density, marker=marker, markersize=4, **line)
        elif means is not None:
            axes.axvline(means[place, 0], **line)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel(axis_label(column))
    what = "probability" if marginal.whole[0] else "density"
    weighted = "p(x | class) P(class)" if prior_weighted else "p(x | class)"
    axes.set_ylabel(f"{what}, {weighted}")
    drawn = "" if data is None else "; filled: the data"
    plain_axes(axes, f"Lines: the model{drawn}")
    legend_beside(figure, axes, short(axis_label(model.spec.label)))
    return figure


def category_masses(model: Model, column: str, *, most: int = 12) -> Figure:
    """P(value | class) of each category of a column, one bar per class.

    Categories, the bins of a discretized number, the terms of a text and presence or absence will
    all do: whatever has a probability in the block's parameters.

    Of a long domain the most telling categories are drawn, those that add most to the mutual
    information of the column and the class: Σ_c P(c) P(v | c) log(P(v | c) / P(v)); the most
    telling one stands first. The title says how many are left out.

    Args:
        model: any whose `column` has cells with probabilities.
        column: which.
        most: categories to draw at most.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: the model has no such column, it has a density, or `most` is less than 1.
        NotSupportedError: matplotlib is not installed.
    """
    cells = cell_masses(model, column)
    if cells is None:
        block = block_of(model, column)
        raise SpecError(
            f"column {column!r} has a density in block {block.name!r}, not categories; "
            "use class_densities (probclass plot densities)."
        )
    if most < 1:
        raise SpecError(f"most must be at least 1, got {most!r}.")
    domain, masses = cells
    order = np.arange(len(domain))
    title = f"P({axis_label(column)} | class)"
    if len(domain) > most:
        order = np.argsort(-_information(masses, np.exp(model.log_prior)), kind="stable")[:most]
        title += f"\n{most} most telling of {len(domain)} values, {len(domain) - most} left out"
    classes = len(model.class_names)
    figure = blank_figure(7.5, 1.2 + len(order) * (0.12 + np.clip(0.11 * classes, 0.2, 1.1)))
    axes = figure.subplots()
    height = 0.8 / classes
    for place, name in enumerate(model.class_names):
        look = class_style(place)
        axes.barh(
            np.arange(len(order)) - 0.4 + (place + 0.5) * height,
            masses[order, place],
            height,
            color=look.color,
            hatch=look.hatch,
            edgecolor="white",
            linewidth=0.5,
            label=short(name),
        )
    axes.set_yticks(range(len(order)), [short(domain[place]) for place in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlabel("probability")
    axes.set_ylabel(axis_label(column))
    axes.tick_params(axis="y", length=0)
    plain_axes(axes, title)
    legend_beside(figure, axes, short(axis_label(model.spec.label)))
    return figure


def _information(masses: FloatArray, prior: FloatArray) -> FloatArray:
    """What each category adds to the mutual information with the class, in nats: ``(m,)``."""
    joint = masses * prior
    marginal = joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0.0, joint * np.log(masses / marginal), 0.0)
    information: FloatArray = terms.sum(axis=1)
    return information


def _draw_histograms(
    axes: Axes, model: Model, values: FloatArray, codes: IntArray, prior_weighted: bool
) -> None:
    edges = _edges(values)
    labeled = codes != MISSING
    if not labeled.any():
        heights = np.histogram(values, edges, density=True)[0]
        axes.stairs(heights, edges, fill=True, color=GREY, alpha=0.4, label="all rows")
        return
    for place in range(len(model.class_names)):
        of_class = values[codes == place]
        if not len(of_class):
            continue
        whole = labeled.sum() if prior_weighted else len(of_class)
        heights = np.histogram(of_class, edges)[0] / (whole * np.diff(edges))
        axes.stairs(heights, edges, fill=True, color=class_style(place).color, alpha=0.25)


def _edges(values: FloatArray) -> FloatArray:
    """Bars about as many as the root of the rows; of whole numbers each covers as many of them."""
    low, high = values.min(), values.max()
    if low == high:
        margin = max(0.5, 0.005 * abs(low))
        return np.array([low - margin, low + margin])
    bars = int(np.clip(np.sqrt(len(values)), _FEWEST_BARS, _MOST_BARS))
    if max(-low, high) < 2.0**52 and np.all(values == np.round(values)):
        step = max(1.0, np.ceil((high - low + 1.0) / bars))
        return np.arange(low - 0.5, high + step, step)
    return np.linspace(low, high, bars + 1)
