"""The region in which a class has most of its density, found by evaluating the density.

An estimator need not say where its densities are large: a grid that follows each column finds it,
and a search narrows the window of several columns down to the region that a plot should show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from probclass_core.analysis.distributions.grid import Grid
from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import NotSupportedError
from probclass_core.estimation.marginals import LARGEST_NUMBER, LARGEST_WHOLE
from probclass_core.plots.marginals import Marginal

_COARSE_GRID, _MAX_STEPS = 41, 80
_SETTLED = 0.6
"""The search ends when the window would shrink to more than this fraction of its size."""
_TOLERANCE = 1e-3
_POINTS_WIDTH = 4.0
"""Half of the width of the region of a density without a bound, in standard deviations."""


@dataclass(frozen=True)
class Region:
    """The region in which the density of a class is within a level of its peak.

    Attributes:
        axes: ``d`` arrays of ascending grid coordinates.
        log_density: log density on the grid, in nats, one dimension per axis.
        peak: largest log density.
        peak_position: coordinates of the peak, ``(d,)``.
    """

    axes: tuple[FloatArray, ...]
    log_density: FloatArray
    peak: float
    peak_position: FloatArray


def find_region(marginal: Marginal, position: int, level: float, size: int) -> Region | None:
    """Find the region of one class.

    Args:
        marginal: marginal of one or two columns.
        position: position of the class.
        level: fraction of the peak density that the grid reaches down to.
        size: number of grid points along each axis.

    Returns:
        The region, or None if the class has no density, for example a point mass.
    """
    window = np.array(
        [_first_window(marginal, axis, position, level) for axis in range(len(marginal.columns))]
    )
    if np.isnan(window).any():
        return None
    if all(curve.proper for curve in marginal.curves):
        window = _fit_window(marginal, position, window, level)
    axes = _axes(marginal, window, size)
    values = _on_grid(marginal, position, axes)
    if not np.isfinite(values).any():
        return None
    return Region(axes, values, *_refine_peak(marginal, position, axes, values))


def _first_window(
    marginal: Marginal, axis: int, position: int, level: float
) -> tuple[float, float]:
    """Where the density of one column is within the level of its peak; NaN if it has none."""
    curve, ends = marginal.curves[axis], marginal.ends[axis]
    if not curve.proper:
        low, high = curve.low, curve.high
        if curve.mean is not None and curve.variance is not None:
            # Where points coincide, the density has no peak to compare with.
            reach = _POINTS_WIDTH * math.sqrt(curve.variance[position]) or 0.5
            low = max(low, curve.mean[position] - reach)
            high = min(high, curve.mean[position] + reach)
        return low, high
    grid = Grid.of([curve], ends, _TOLERANCE)
    logs = grid.log_density[0][:, position]
    if not np.isfinite(logs).any():
        return np.nan, np.nan
    inside = np.flatnonzero(logs >= logs.max() + np.log(level))
    first, last = max(inside[0] - 1, 0), min(inside[-1] + 1, len(logs) - 1)
    if last - first == len(logs) - 1 and curve.high >= LARGEST_NUMBER:
        raise _endless(marginal, position, level)
    return float(grid.points[first]), float(grid.points[last])


def _endless(marginal: Marginal, position: int, level: float) -> NotSupportedError:
    return NotSupportedError(
        f"p({', '.join(marginal.columns)} | {marginal.model.class_names[position]}) does not fall "
        f"to {level:g} of its peak anywhere, so it cannot be plotted."
    )


def _fit_window(marginal: Marginal, position: int, window: FloatArray, level: float) -> FloatArray:
    """Shrink or grow a window until the level just fits in it."""
    for _ in range(_MAX_STEPS):
        axes = _axes(marginal, window, _COARSE_GRID)
        values = _on_grid(marginal, position, axes)
        inside = values >= values.max() + np.log(level)
        fitted, grown = np.empty_like(window), False
        for number, axis in enumerate(axes):
            others = tuple(other for other in range(inside.ndim) if other != number)
            hit = np.flatnonzero(inside.any(axis=others))
            cell = np.diff(axis).max() if len(axis) > 1 else 1.0
            reach = len(axis) * cell
            low_open = hit[0] == 0 and axis[0] > marginal.curves[number].low
            high_open = hit[-1] == len(axis) - 1 and axis[-1] < marginal.curves[number].high
            fitted[number, 0] = axis[hit[0]] - (reach if low_open else cell)
            fitted[number, 1] = axis[hit[-1]] + (reach if high_open else cell)
            fitted[number] = np.clip(
                fitted[number], marginal.curves[number].low, marginal.curves[number].high
            )
            grown |= bool(low_open or high_open)
        highest = [min(curve.high, LARGEST_NUMBER) for curve in marginal.curves]
        if np.any((fitted[:, 1] >= highest) & np.greater_equal(highest, LARGEST_WHOLE)):
            raise _endless(marginal, position, level)
        settled = not grown and bool(np.all(np.ptp(fitted, axis=1) > _SETTLED * np.ptp(window, 1)))
        window = fitted
        if settled:
            break
    return window


def _refine_peak(
    marginal: Marginal, position: int, axes: tuple[FloatArray, ...], values: FloatArray
) -> tuple[float, FloatArray]:
    """The peak between grid points, searched in the cells around the highest grid point."""
    peak, at = _highest(axes, values)
    cells = np.array([np.diff(axis).max() if len(axis) > 1 else 1.0 for axis in axes])
    for _ in range(6):
        around = _axes(marginal, np.stack([at - cells, at + cells], axis=1), 11)
        higher, where = _highest(around, _on_grid(marginal, position, around))
        if higher > peak:
            peak, at = higher, where
        cells /= 5.0
    return peak, at


def _highest(axes: tuple[FloatArray, ...], values: FloatArray) -> tuple[float, FloatArray]:
    best = values.max()
    # The middle of a bin, whose density is constant.
    at = np.array(
        [
            axis[int(np.median(place))]
            for axis, place in zip(axes, np.nonzero(values == best), strict=True)
        ]
    )
    return float(best), at


def _axes(marginal: Marginal, window: FloatArray, size: int) -> tuple[FloatArray, ...]:
    axes: list[FloatArray] = []
    for (low, high), curve in zip(window, marginal.curves, strict=True):
        axis = np.linspace(max(low, curve.low), min(high, curve.high), size)
        axes.append(np.unique(np.round(axis)) if curve.whole else axis)
    return tuple(axes)


def _on_grid(marginal: Marginal, position: int, axes: tuple[FloatArray, ...]) -> FloatArray:
    grid = np.meshgrid(*axes, indexing="ij")
    points = np.stack([coordinates.ravel() for coordinates in grid], axis=1)
    values: FloatArray = marginal(points)[:, position].reshape(grid[0].shape)
    return values
