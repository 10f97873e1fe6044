"""Two columns of a model: contours of its classes.

After Zaki and Meira, *Data Mining and Machine Learning*, Fig. 18.1 and 18.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.reading import block_marginal, blocks_of, read_column
from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.errors import SpecError
from probclass_core.estimation.marginals import Curve, Levels, rows_with
from probclass_core.model.model import Model
from probclass_core.plots.columns import BinCurve, class_points, rows_by_class
from probclass_core.plots.style import (
    GREY,
    axis_label,
    blank_figure,
    class_style,
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
    the model's other columns are marginalized. Means that the estimators do not know are not drawn.

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
        NotSupportedError: if matplotlib is not installed, or neither the mean of a density nor the
            range of the training rows is known.
    """
    figure = blank_figure(7.5, 5.0)
    if not 0.0 < level < 1.0:
        raise SpecError(f"level must be between 0 and 1, got {level!r}.")
    if x == y:
        raise SpecError(f"x and y are both {x!r}; name two columns, or use effect.")
    checked_point = None if point is None else _checked_point(point)
    curves = [curve_of(model, column) for column in (x, y)]
    joint = joint_density(model, [x, y], curves)
    axes = figure.subplots()
    shown: list[FloatArray] = []
    note = ""
    if data is not None:
        (across, up), codes = rows_by_class(model, data, [x, y])
        shown.append(np.stack([across, up]))
        note = _draw_rows(axes, model, across, up, codes)
    known = [curve.mean for curve in curves if curve.mean is not None]
    means = np.stack(known, axis=1) if len(known) == len(curves) else None
    for position, name in enumerate(model.class_names):
        mean = None if means is None else means[position]
        along = [
            class_points(model, column, curve, position, level, _GRID)
            for column, curve in zip((x, y), curves, strict=True)
        ]
        shown += _draw_class(axes, joint, along, position, short(name), mean, level)
    if checked_point is not None:
        shown.append(checked_point[:, None])
        label = "x = ({:g}, {:g})".format(*checked_point)
        square: dict[str, Any] = {"color": "white", "mec": "black", "ms": 8, "mew": 1.5}
        axes.plot(*checked_point, "s", ls="", zorder=5, label=label, **square)
    black = "" if means is None else "; black: class means"
    plain_axes(axes, f"Contours at {100.0 * level:.3g} % of each class's peak density{black}")
    axes.set_xlabel(axis_label(x))
    axes.set_ylabel(axis_label(y))
    if note:
        axes.plot([], [], " ", label=note)
    legend_beside(figure, axes, short(axis_label(model.spec.label or "class")))
    _frame(axes, np.concatenate(shown or [np.zeros((2, 1))], axis=1))
    return figure


def _draw_rows(
    axes: Axes, model: Model, across: FloatArray, up: FloatArray, codes: IntArray
) -> str:
    """Plot rows as points; returns a note for the legend if they are a sample."""
    sampled = sample(len(codes))
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
    joint: Callable[[FloatArray], FloatArray],
    along: Sequence[FloatArray | None],
    position: int,
    name: str,
    mean: FloatArray | None,
    level: float,
) -> list[FloatArray]:
    """Plot contour and mean of one class; returns their points, ``(2, n)`` each."""
    style, shown = class_style(position), []
    grid = [values for values in along if values is not None and len(values) > 1]
    if len(grid) == len(along):
        points = np.stack([values.ravel() for values in np.meshgrid(*grid)], axis=1)
        logs = joint(points)[:, position].reshape(len(grid[1]), len(grid[0]))
        peak, log_level = logs.max(), math.log(level)
        contour = axes.contour(
            *grid,
            # −∞ becomes a finite value, otherwise the contour would stop where the density is 0.
            np.maximum(logs - peak, 3.0 * log_level),
            levels=[log_level],
            colors=[style.color],
            linestyles=[style.dashes],
            linewidths=1.6,
        )
        shown += [np.asarray(path.vertices).T for path in contour.get_paths()]
    if mean is not None and np.isfinite(mean).all():
        shown.append(mean[:, None])
        axes.plot(*mean, style.marker, color="black", markersize=9, mec="white", zorder=4)
    # One legend entry per class: its line with its marker.
    axes.plot([], [], color=style.color, ls=style.dashes, marker=style.marker, label=name)
    return shown


def _frame(axes: Axes, shown: FloatArray) -> None:
    """Set limits around the plotted points, rather than around the grids of the search."""
    low, high = shown.min(axis=1), shown.max(axis=1)
    margin = np.where(high > low, _MARGIN * (high - low), np.maximum(0.5, 0.005 * np.abs(low)))
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _checked_point(point: Sequence[float]) -> FloatArray:
    try:
        at = np.asarray(point, dtype=np.float64)
    except (TypeError, ValueError):
        at = np.empty(0)
    if at.shape != (2,) or not np.isfinite(at).all():
        raise SpecError(f"point must be two finite numbers, such as (6.75, 4.25), got {point!r}.")
    return at


def curve_of(model: Model, column: str) -> Curve:
    """The curve of a column; of one that has levels, that of another block, or that of its bins.

    Raises:
        SpecError: if it has categories.
    """
    for block in blocks_of(model, column):
        own = block_marginal(model, block, column)
        if isinstance(own, Curve):
            return own
    found = read_column(model, column)
    if found is not None and isinstance(found[1], Levels) and found[1].cuts is not None:
        return BinCurve.of(model, column, found[1].without_missing())
    raise SpecError(f"column {column!r} has categories, not numbers; use effect.")


def joint_density(
    model: Model, columns: Sequence[str], curves: Sequence[Curve]
) -> Callable[[FloatArray], FloatArray]:
    """log p(x_columns | c) of ``d`` columns of numbers, every other column marginalized.

    A block that models all of the columns gives their joint density, otherwise their densities are
    multiplied.

    Returns:
        A function of points, ``(n, d)`` to ``(n, k)``.
    """
    for block in blocks_of(model, columns[0]):
        inputs = set(block.inputs)
        marginals = [block_marginal(model, block, name) for name in columns if name in inputs]
        if len(marginals) == len(columns) and all(isinstance(one, Curve) for one in marginals):
            return partial(_log_likelihood, model, block, columns)

    def product(points: FloatArray) -> FloatArray:
        pairs = zip(curves, points.T, strict=True)
        logs: FloatArray = np.sum([curve.log_density(of) for curve, of in pairs], axis=0)
        return logs

    return product


def _log_likelihood(
    model: Model, block: Block, columns: Sequence[str], points: FloatArray
) -> FloatArray:
    """Log-likelihoods of some columns of a block, ``(n, k)``; the others are null."""
    features = pa.schema(map(model.features.field, block.inputs))
    rows = rows_with(features, dict(zip(columns, points.T, strict=True)))
    return model.likelihoods[str(block.name)].log_likelihood(rows)
