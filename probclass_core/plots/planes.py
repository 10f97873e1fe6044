"""Two columns of a model: contours of its classes, and the ball of the nearest neighbors.

After Zaki and Meira, *Data Mining and Machine Learning*, Fig. 18.1 to 18.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.errors import NotSupportedError, SpecError, one_of
from probclass_core.estimation.families.knn.density import KnnDensityLikelihood
from probclass_core.model.model import Model
from probclass_core.plots.blocks import blocks_of
from probclass_core.plots.marginals import Marginal, rows_by_class
from probclass_core.plots.regions import Region, find_region
from probclass_core.plots.style import (
    GREY,
    INK,
    MAX_POINTS,
    ClassStyle,
    axis_label,
    blank_figure,
    class_style,
    coordinates,
    legend_beside,
    plain_axes,
    sample,
    short,
)
from probclass_core.spec.model_spec import Block

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 201
_MARGIN = 0.04
_SPARSE = 1_000
"""Up to this many rows, markers are large enough to recognize their shapes."""


def class_contours(
    model: Model,
    x: str,
    y: str,
    *,
    data: Any = None,
    point: Sequence[float] | None = None,
    level: float = 0.01,
) -> Figure:
    """Plot the classes in the plane of two columns: a contour of each density, and its mean.

    A contour connects the points whose density p(x, y | class) is `level` of that class's own peak;
    the model's other columns are marginalized. If an estimator's parameters contain no mean, the
    black marker is at the peak.

    Args:
        model: fitted model.
        x: numeric column of the horizontal axis.
        y: numeric column of the vertical axis.
        data: table or frame of rows to show, colored by the model's label column if they have it;
            at most 5,000, sampled at random. See `arrays.as_table`.
        point: test point (x, y) to mark.
        level: fraction of the peak density, between 0 and 1.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if the model has no such column, it has categories or bins, or `level` or `point`
            is out of range.
        DataError: if a column of the data is missing, not numeric or infinite.
        NotSupportedError: if matplotlib is not installed, or a density does not fall to `level`
            anywhere.
    """
    figure = blank_figure(7.5, 5.0)
    if not 0.0 < level < 1.0:
        raise SpecError(f"level must be between 0 and 1, got {level!r}.")
    _check_pair(x, y)
    checked_point = None if point is None else _checked_point(point)
    marginal = Marginal(model, [x, y])
    axes = figure.subplots()
    shown: list[FloatArray] = []
    note = ""
    if data is not None:
        (across, up), codes = rows_by_class(model, data, [x, y])
        shown.append(np.stack([across, up]))
        note = _draw_rows(axes, model, across, up, codes)
    means = marginal.means()
    for position, name in enumerate(model.class_names):
        region = find_region(marginal, position, level, _GRID)
        if means is not None:
            center = means[position]
        else:
            center = np.full(2, np.nan) if region is None else region.peak_position
        shown += _draw_class(axes, class_style(position), short(name), region, center, level)
    if checked_point is not None:
        shown.append(checked_point[:, None])
        _draw_point(axes, checked_point)
    black = "peaks" if means is None else "class means"
    plain_axes(
        axes, f"Contours at {100.0 * level:.3g} % of each class's peak density; black: {black}"
    )
    _finish_plane(figure, axes, model, x, y, note)
    _frame(axes, np.concatenate(shown or [np.zeros((2, 1))], axis=1))
    return figure


def neighbor_ball(model: Model, x: str, y: str, point: Sequence[float]) -> Figure:
    """Plot the smallest ball around a point that contains its K nearest training points.

    The ball has the shape of the block's metric: a circle for Euclidean distance, a square for
    Chebyshev's, a diamond for Manhattan's. It is closed, so ties can give it more than K points.
    Points in the ball have filled markers; ×2 marks two equal rows. Other columns of the block are
    marginalized.

    Args:
        model: model with a `knn_density` block of both columns.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        point: center of the ball, (x, y).

    Returns:
        A matplotlib figure; the legend counts the neighbors of each class.

    Raises:
        SpecError: if there is no such column or block, or `point` is not a pair of numbers.
        NotSupportedError: if matplotlib is not installed, or the shape of the metric's ball is
            unknown.
    """
    figure = blank_figure(7.5, 5.0)
    _check_pair(x, y)
    at = _checked_point(point)
    block, likelihood = _neighbors_block(model, x, y)
    norm = likelihood.search.norm
    if norm is None:
        raise NotSupportedError(
            f"the ball of metric {likelihood.search.metric!r} has no known shape; "
            "use 'euclidean', 'manhattan', 'chebyshev' or 'minkowski'."
        )
    if likelihood.scale is not None:
        raise NotSupportedError(
            "the ball of standardized columns is an ellipse in their own units; plot a model "
            "without standardize."
        )
    values = {name: pa.nulls(1, pa.float64()) for name in block.columns}
    values |= {x: pa.array([at[0]]), y: pa.array([at[1]])}
    inside, radius = likelihood.ball(pa.record_batch(values))
    across, up = (likelihood.points[:, likelihood.features.index(name)] for name in (x, y))
    drawn = ~(np.isnan(across) | np.isnan(up))
    distance = np.linalg.norm(np.stack([across - at[0], up - at[1]], axis=1), ord=norm, axis=1)
    within = drawn & (distance <= radius * (1.0 + 1e-12))
    axes = figure.subplots()
    note = _draw_neighbors(axes, model, likelihood, (across, up), inside, within, drawn)
    for row in np.flatnonzero(within & (likelihood.counts > 1.0)):
        axes.annotate(
            f"×{likelihood.counts[row]:g}",
            (across[row], up[row]),
            xytext=(7, 3),
            textcoords="offset points",
            fontsize=8,
        )
    outline = at[:, None] + radius * _unit_sphere(norm)
    axes.plot(*outline, color=INK, linewidth=1.2, label="_ball")
    _draw_point(axes, at)
    plain_axes(
        axes, f"K = {likelihood.search.k:g} nearest by {_metric_name(norm)}: radius {radius:.4g}"
    )
    _finish_plane(figure, axes, model, x, y, note)
    axes.set_aspect("equal", adjustable="datalim")  # so that a circle looks like one
    return figure


def _neighbors_block(model: Model, x: str, y: str) -> tuple[Block, KnnDensityLikelihood]:
    common = [block for block in blocks_of(model, x) if block in blocks_of(model, y)]
    for block in common:
        likelihood = model.likelihoods[str(block.name)]
        if isinstance(likelihood, KnnDensityLikelihood):
            if {x, y} <= set(likelihood.features):
                return block, likelihood
            empty = x if x not in likelihood.features else y
            raise SpecError(
                f"column {empty!r} had no value in training, and the block leaves it out."
            )
    blocks = [f"{block.name} of {', '.join(block.columns)}" for block in model.spec.blocks]
    raise SpecError(
        f"no knn_density block has both {x!r} and {y!r}; the model's blocks are {one_of(blocks)}."
    )


def _draw_rows(
    axes: Axes, model: Model, across: FloatArray, up: FloatArray, codes: IntArray
) -> str:
    """Plot rows as points; returns a note for the legend if they are a sample."""
    sampled = sample(np.arange(len(codes)))
    size, alpha = (4.0, 0.6) if len(sampled) <= _SPARSE else (2.5, 0.4)
    for position in range(len(model.class_names)):
        style = class_style(position)
        rows = sampled[codes[sampled] == position]
        cloud: dict[str, Any] = {"color": style.color, "markersize": size, "alpha": alpha}
        axes.plot(across[rows], up[rows], style.marker, markeredgewidth=0.0, **cloud)
    rows = sampled[codes[sampled] == MISSING]
    if len(rows):
        axes.plot(across[rows], up[rows], ".", color=GREY, ms=3, label="unknown class")
    return f"{len(sampled):,} of {len(codes):,} rows drawn" if len(sampled) < len(codes) else ""


def _draw_class(
    axes: Axes,
    style: ClassStyle,
    name: str,
    region: Region | None,
    center: FloatArray,
    level: float,
) -> list[FloatArray]:
    """Plot contour and mean of one class; returns their points, ``(2, n)`` each."""
    shown = []
    if region is not None and min(region.log_density.shape) > 1:
        log_level = math.log(level)
        contour = axes.contour(
            *region.axes,
            # −∞ becomes a finite value, otherwise the contour would stop where the density is 0.
            np.maximum(region.log_density.T - region.peak, 3.0 * log_level),
            levels=[log_level],
            colors=[style.color],
            linestyles=[style.dashes],
            linewidths=1.6,
        )
        shown += [np.asarray(path.vertices).T for path in contour.get_paths()]
    if np.isfinite(center).all():
        shown.append(center[:, None])
        axes.plot(*center, style.marker, color="black", markersize=9, mec="white", zorder=4)
    # One legend entry per class: its line with its marker.
    axes.plot([], [], color=style.color, ls=style.dashes, marker=style.marker, label=name)
    return shown


def _draw_neighbors(
    axes: Axes,
    model: Model,
    likelihood: KnnDensityLikelihood,
    points: tuple[FloatArray, FloatArray],
    inside: FloatArray,
    within: np.ndarray,
    drawn: np.ndarray,
) -> str:
    """Plot training points, filled in the ball and hollow outside; only the latter are sampled."""
    outside = sample(np.flatnonzero(drawn & ~within))
    for position, name in enumerate(model.class_names):
        style = class_style(position)
        far = outside[likelihood.classes[outside] == position]
        near = np.flatnonzero(within & (likelihood.classes == position))
        label = f"{short(name)}, {inside[position]:g} of {inside.sum():g}"
        axes.plot(
            *(values[far] for values in points),
            style.marker,
            mfc="none",
            mec=style.color,
            ms=5,
            mew=0.8,
            label="_outside",
        )
        axes.plot(
            *(values[near] for values in points),
            style.marker,
            color=style.color,
            ms=7,
            mec="black",
            mew=0.8,
            label=label,
        )
    axes.plot([], [], "o", mfc="none", mec=GREY, ms=5, mew=0.8, label="outside the ball")
    hidden = int(drawn.sum()) - int(within.sum()) - len(outside)
    return f"{MAX_POINTS:,} of {len(outside) + hidden:,} points outside drawn" if hidden else ""


def _draw_point(axes: Axes, at: FloatArray) -> None:
    axes.plot(
        *at,
        "s",
        color="white",
        mec="black",
        ms=8,
        mew=1.5,
        zorder=5,
        ls="",
        label=f"x = {coordinates(at.tolist())}",
    )


def _finish_plane(figure: Figure, axes: Axes, model: Model, x: str, y: str, note: str) -> None:
    axes.set_xlabel(axis_label(x))
    axes.set_ylabel(axis_label(y))
    if note:
        axes.plot([], [], " ", label=note)
    legend_beside(figure, axes, short(axis_label(model.spec.label)))


def _frame(axes: Axes, shown: FloatArray) -> None:
    """Set limits around the plotted points, rather than around the grids of the search."""
    low, high = shown.min(axis=1), shown.max(axis=1)
    margin = np.where(high > low, _MARGIN * (high - low), np.maximum(0.5, 0.005 * np.abs(low)))
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _unit_sphere(norm: float, corners: int = 720) -> FloatArray:
    """Points at distance 1 from the origin, ``(2, n)``; the last equals the first."""
    angle = np.linspace(0.0, 2.0 * np.pi, corners + 1)
    direction = np.stack([np.cos(angle), np.sin(angle)])
    sphere: FloatArray = direction / np.linalg.norm(direction, ord=norm, axis=0)
    return sphere


def _metric_name(norm: float) -> str:
    names = {1.0: "Manhattan distance", 2.0: "Euclidean distance", math.inf: "Chebyshev distance"}
    return names.get(norm, f"Minkowski distance, p = {norm:g}")


def _check_pair(x: str, y: str) -> None:
    if x == y:
        raise SpecError(f"x and y are both {x!r}; name two columns, or use effect.")


def _checked_point(point: Sequence[float]) -> FloatArray:
    try:
        at = np.asarray(point, dtype=np.float64)
    except (TypeError, ValueError):
        at = np.empty(0)
    if at.shape != (2,) or not np.isfinite(at).all():
        raise SpecError(f"point must be two finite numbers, such as (6.75, 4.25), got {point!r}.")
    return at
