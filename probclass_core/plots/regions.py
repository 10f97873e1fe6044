"""The region in which a class has most of its density, found by evaluating the density.

An estimator need not say where its densities are large: a search starts from values of every
magnitude and narrows down to the region that a plot should show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import NotSupportedError
from probclass_core.plots.marginals import Marginal

_SCAN = np.geomspace(1e-30, 1e30, 1451)
"""Distances from 0 at which the search begins, each a tenth larger than the one before."""
_COARSE_GRID, _MAX_STEPS = 41, 80
_SETTLED = 0.6
"""The search ends when the window would shrink to more than this fraction of its size."""
_POINTS_MARGIN = 0.25


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
    window = _points_window(marginal, position)
    if window is not None:
        axes = _axes(marginal, window, size)
        values = _on_grid(marginal, position, axes)
        return Region(axes, values, *_highest(axes, values)) if np.isfinite(values).any() else None
    window = _first_window(marginal, position, level)
    if window is None:
        return None
    window = _fit_window(marginal, position, window, level)
    axes = _axes(marginal, window, size)
    values = _on_grid(marginal, position, axes)
    return Region(axes, values, *_refine_peak(marginal, position, axes, values))


def _points_window(marginal: Marginal, position: int) -> FloatArray | None:
    """A window around the training points of the class, if the model consists of points.

    Where K points coincide their density has no finite peak that a search could find.
    """
    columns = marginal.points_of(position)
    if columns is None or not all(len(values) for values in columns):
        return None
    window = []
    for values in columns:
        margin = _POINTS_MARGIN * np.ptp(values) or 0.5
        window.append([values.min() - margin, values.max() + margin])
    return np.array(window)


def _first_window(marginal: Marginal, position: int, level: float) -> FloatArray | None:
    """A first window ``(d, 2)``, column by column, from values of every magnitude."""
    center = np.full(len(marginal.columns), np.nan)
    window = np.empty((len(center), 2))
    for axis in range(len(center)):
        scan = np.concatenate([-_SCAN[::-1], [0.0], _SCAN])
        if (ends := marginal.range(axis)) is not None:
            scan = np.linspace(*ends, len(scan))
        scan = scan[(scan >= marginal.lowest[axis]) & (scan <= marginal.highest[axis])]
        if marginal.whole[axis]:
            scan = np.unique(np.round(scan))
        points = np.tile(center, (len(scan), 1))
        points[:, axis] = scan
        values = marginal(points)[:, position]
        best = int(np.argmax(values))
        if not np.isfinite(values[best]):
            return None
        inside = np.flatnonzero(values >= values[best] + np.log(level))
        center[axis] = scan[best]
        window[axis] = scan[max(inside[0] - 1, 0)], scan[min(inside[-1] + 1, len(scan) - 1)]
    return window


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
            low_open = hit[0] == 0 and axis[0] > marginal.lowest[number]
            high_open = hit[-1] == len(axis) - 1
            fitted[number, 0] = axis[hit[0]] - (reach if low_open else cell)
            fitted[number, 1] = axis[hit[-1]] + (reach if high_open else cell)
            fitted[number] = np.maximum(fitted[number], marginal.lowest[number])
            grown |= bool(low_open or high_open)
        if np.any(np.abs(fitted).max(axis=1) > marginal.highest):
            raise NotSupportedError(
                f"p({', '.join(marginal.columns)} | {marginal.model.class_names[position]}) does "
                f"not fall to {level:g} of its peak anywhere, so it cannot be plotted."
            )
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
    for (low, high), whole, lowest in zip(window, marginal.whole, marginal.lowest, strict=True):
        axis = np.linspace(max(low, lowest), high, size)
        axes.append(np.unique(np.round(axis)) if whole else axis)
    return tuple(axes)


def _on_grid(marginal: Marginal, position: int, axes: tuple[FloatArray, ...]) -> FloatArray:
    grid = np.meshgrid(*axes, indexing="ij")
    points = np.stack([coordinates.ravel() for coordinates in grid], axis=1)
    values: FloatArray = marginal(points)[:, position].reshape(grid[0].shape)
    return values
