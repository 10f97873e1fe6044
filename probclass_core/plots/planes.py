"""Two columns of a model: contours of its classes, and the ball that holds the neighbors.

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
from probclass_core.plots.blocks import block_of
from probclass_core.plots.marginals import Lobe, Marginal, lobe, rows_by_class
from probclass_core.plots.style import (
    GREY,
    INK,
    MOST_POINTS,
    ClassStyle,
    axis_label,
    blank_figure,
    by_lot,
    class_style,
    legend_beside,
    listed,
    plain_axes,
    short,
)
from probclass_core.spec import Block

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GRID = 201
_MARGIN = 0.04
_SPARSE = 1_000
"""Rows up to which markers are large enough to tell their shapes."""


def class_contours(
    model: Model,
    x: str,
    y: str,
    *,
    data: Any = None,
    point: Sequence[float] | None = None,
    level: float = 0.01,
) -> Figure:
    """Where each class lives in the plane of two columns: a contour of its density, and its mean.

    A contour joins the points whose density p(x, y | class) is `level` of that class's own peak;
    the model's other columns are marginalized. Where an estimator's parameters hold no mean, the
    black marker stands at the peak.

    Args:
        model: any whose columns `x` and `y` are numbers.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        data: a table or frame of rows to show (see `arrays.as_table`), colored by the model's
            label column where they have it; of more than 5,000 rows as many drawn by lot.
        point: a test point (x, y) to mark.
        level: fraction of the peak density, between 0 and 1.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: the model has no such column, it holds categories or bins, or `level` or `point`
            is out of range.
        DataError: a column of the data is missing, not numeric or infinite.
        NotSupportedError: matplotlib is not installed, or a density has no bounds: it falls to
            `level` nowhere.
    """
    figure = blank_figure(7.5, 5.0)
    if not 0.0 < level < 1.0:
        raise SpecError(f"level must lie between 0 and 1, got {level!r}.")
    _check_pair(x, y)
    at = None if point is None else _checked_point(point)
    marginal = Marginal(model, [x, y])
    axes = figure.subplots()
    shown: list[FloatArray] = []
    note = ""
    if data is not None:
        (across, up), codes = rows_by_class(model, data, [x, y])
        shown.append(np.stack([across, up]))
        note = _draw_rows(axes, model, across, up, codes)
    means = marginal.means()
    for place, name in enumerate(model.class_names):
        found = lobe(marginal, place, level, _GRID)
        if means is not None:
            center = means[place]
        else:
            center = np.full(2, np.nan) if found is None else found.at
        shown += _draw_class(axes, class_style(place), short(name), found, center, level)
    if at is not None:
        shown.append(at[:, None])
        _draw_point(axes, at)
    black = "peaks" if means is None else "class means"
    plain_axes(
        axes, f"Contours at {100.0 * level:.3g} % of each class's peak density; black: {black}"
    )
    _finish_plane(figure, axes, model, x, y, note)
    _frame(axes, np.concatenate(shown or [np.zeros((2, 1))], axis=1))
    return figure


def neighbor_ball(model: Model, x: str, y: str, point: Sequence[float]) -> Figure:
    """The ball around a point that holds its K nearest training points, and who they are.

    The ball is that of the block's own norm: a circle for Euclidean distance, a square for
    Chebyshev's, a lozenge for Manhattan's. It is closed, so it may hold more than K points that are
    equally far. A filled marker lies within, and ×2 beside it says that two rows stand there. Where
    the block has more columns than `x` and `y`, these are marginalized.

    Args:
        model: one with a `knn_density` block that holds both columns.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        point: (x, y), the center of the ball.

    Returns:
        A matplotlib figure; the legend counts the neighbors of each class.

    Raises:
        SpecError: no such column, no such block, or `point` is no pair of numbers.
        NotSupportedError: matplotlib is not installed, or the block's metric has no ball of a known
            shape.
    """
    figure = blank_figure(7.5, 5.0)
    _check_pair(x, y)
    at = _checked_point(point)
    block, likelihood = _neighbors_block(model, x, y)
    norm = likelihood.norm
    if norm is None:
        raise NotSupportedError(
            f"the ball of metric {likelihood.metric!r} has no known shape; "
            "use 'euclidean', 'manhattan', 'chebyshev' or 'minkowski'."
        )
    values = {name: pa.nulls(1, pa.float64()) for name in block.columns}
    values |= {x: pa.array([at[0]]), y: pa.array([at[1]])}
    inside, radius = likelihood.ball(pa.record_batch(values))
    across, up = (likelihood.points[:, block.columns.index(name)] for name in (x, y))
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
    plain_axes(axes, f"K = {likelihood.k:g} nearest by {_metric_name(norm)}: radius {radius:.4g}")
    _finish_plane(figure, axes, model, x, y, note)
    axes.set_aspect("equal", adjustable="datalim")  # or a circle would be none
    return figure


def _neighbors_block(model: Model, x: str, y: str) -> tuple[Block, KnnDensityLikelihood]:
    first, second = block_of(model, x), block_of(model, y)
    likelihood = model.likelihoods[str(first.name)]
    if first.name == second.name and isinstance(likelihood, KnnDensityLikelihood):
        return first, likelihood
    held = [f"{block.name} of {', '.join(block.columns)}" for block in model.spec.blocks]
    raise SpecError(
        f"no knn_density block holds both {x!r} and {y!r}; the model's blocks are {one_of(held)}."
    )


def _draw_rows(
    axes: Axes, model: Model, across: FloatArray, up: FloatArray, codes: IntArray
) -> str:
    kept = by_lot(np.arange(len(codes)))
    size, alpha = (4.0, 0.6) if len(kept) <= _SPARSE else (2.5, 0.4)
    for place in range(len(model.class_names)):
        look = class_style(place)
        rows = kept[codes[kept] == place]
        cloud: dict[str, Any] = {"color": look.color, "markersize": size, "alpha": alpha}
        axes.plot(across[rows], up[rows], look.marker, markeredgewidth=0.0, **cloud)
    rows = kept[codes[kept] == MISSING]
    if len(rows):
        axes.plot(across[rows], up[rows], ".", color=GREY, ms=3, label="no known class")
    return f"{len(kept):,} of {len(codes):,} rows drawn" if len(kept) < len(codes) else ""


def _draw_class(
    axes: Axes, look: ClassStyle, name: str, found: Lobe | None, center: FloatArray, level: float
) -> list[FloatArray]:
    """Contour and mean of one class; the points ``(2, n)`` of what was drawn of them."""
    shown = []
    if found is not None and min(found.log_density.shape) > 1:
        down = math.log(level)
        contour = axes.contour(
            *found.axes,
            # A density of 0 lies at a finite depth, or the contour would stop at its edge.
            np.maximum(found.log_density.T - found.peak, 3.0 * down),
            levels=[down],
            colors=[look.color],
            linestyles=[look.dashes],
            linewidths=1.6,
        )
        shown += [np.asarray(path.vertices).T for path in contour.get_paths()]
    if np.isfinite(center).all():
        shown.append(center[:, None])
        axes.plot(*center, look.marker, color="black", markersize=9, mec="white", zorder=4)
    # One entry of the legend per class: its line with its marker.
    axes.plot([], [], color=look.color, ls=look.dashes, marker=look.marker, label=name)
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
    """Filled within the ball, hollow outside; those within are never left out."""
    outside = by_lot(np.flatnonzero(drawn & ~within))
    for place, name in enumerate(model.class_names):
        look = class_style(place)
        far = outside[likelihood.classes[outside] == place]
        near = np.flatnonzero(within & (likelihood.classes == place))
        label = f"{short(name)}, {inside[place]:g} of {inside.sum():g}"
        axes.plot(
            *(each[far] for each in points),
            look.marker,
            mfc="none",
            mec=look.color,
            ms=5,
            mew=0.8,
            label="_outside",
        )
        axes.plot(
            *(each[near] for each in points),
            look.marker,
            color=look.color,
            ms=7,
            mec="black",
            mew=0.8,
            label=label,
        )
    axes.plot([], [], "o", mfc="none", mec=GREY, ms=5, mew=0.8, label="outside the ball")
    hidden = int(drawn.sum()) - int(within.sum()) - len(outside)
    return f"{MOST_POINTS:,} of {len(outside) + hidden:,} points outside drawn" if hidden else ""


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
        label=f"x = {listed(at.tolist())}",
    )


def _finish_plane(figure: Figure, axes: Axes, model: Model, x: str, y: str, note: str) -> None:
    axes.set_xlabel(axis_label(x))
    axes.set_ylabel(axis_label(y))
    if note:
        axes.plot([], [], " ", label=note)
    legend_beside(figure, axes, short(axis_label(model.spec.label)))


def _frame(axes: Axes, shown: FloatArray) -> None:
    """Limits around what is shown, rather than around the grids it was found on."""
    low, high = shown.min(axis=1), shown.max(axis=1)
    margin = np.where(high > low, _MARGIN * (high - low), np.maximum(0.5, 0.005 * np.abs(low)))
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _unit_sphere(norm: float, corners: int = 720) -> FloatArray:
    """Points at distance 1 from the origin of the plane, ``(2, n)``, the last one the first."""
    angle = np.linspace(0.0, 2.0 * np.pi, corners + 1)
    direction = np.stack([np.cos(angle), np.sin(angle)])
    sphere: FloatArray = direction / np.linalg.norm(direction, ord=norm, axis=0)
    return sphere


def _metric_name(norm: float) -> str:
    names = {1.0: "Manhattan distance", 2.0: "Euclidean distance", math.inf: "Chebyshev distance"}
    return names.get(norm, f"Minkowski distance, p = {norm:g}")


def _check_pair(x: str, y: str) -> None:
    if x == y:
        raise SpecError(f"x and y are both {x!r}; name two columns, or use class_densities.")


def _checked_point(point: Sequence[float]) -> FloatArray:
    try:
        at = np.asarray(point, dtype=np.float64)
    except (TypeError, ValueError):
        at = np.empty(0)
    if at.shape != (2,) or not np.isfinite(at).all():
        raise SpecError(f"point must be two finite numbers, such as (6.75, 4.25), got {point!r}.")
    return at
