"""A model seen in one or two of its columns, and where each class lives there.

The pictures ask a model for nothing but log-likelihoods, so that any estimator can be drawn, a
plugin's as well: all other columns are null, hence marginalized, and the part of the plane in which
a class lives is found by looking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    as_table,
    category_codes,
    check_columns,
    is_numeric_type,
    label_codes,
    numeric_column,
)
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation.families.knn.density import KnnDensityLikelihood
from probclass_core.model.model import Model
from probclass_core.plots.blocks import block_of, log_likelihood
from probclass_core.plots.cells import cell_masses

_SCAN = np.geomspace(1e-30, 1e30, 1451)
"""Distances from 0 at which a class is looked for first, each a tenth more than the one before."""
_LARGEST_COUNT = 2.0**53
_COARSE, _STEPS = 41, 80
_SETTLED = 0.6
"""A window that would shrink by less than this fits."""
_POINTS_MARGIN = 0.25


class Marginal:
    """log p(x_columns | c), every other column marginalized.

    Args:
        model: what is drawn.
        columns: ``d`` of its numeric columns.

    Raises:
        SpecError: the model has no such column, or it holds categories.
    """

    def __init__(self, model: Model, columns: Sequence[str]) -> None:
        self.model = model
        self.columns = list(columns)
        for column in columns:
            block = block_of(model, column)
            numeric = is_numeric_type(model.features.field(column).type)
            if not numeric or cell_masses(model, column) is not None:
                raise SpecError(
                    f"column {column!r} has categories or bins in block {block.name!r}, "
                    "not a density; use category_masses (probclass plot masses)."
                )
        # Counts are whole and not negative; their estimators refuse anything else.
        self.whole = [not self._takes(column, 0.5) for column in columns]
        self.lowest = [-np.inf if self._takes(column, -1.0) else 0.0 for column in columns]
        self.highest = [_LARGEST_COUNT if whole else _SCAN[-1] for whole in self.whole]

    def __call__(self, points: FloatArray) -> FloatArray:
        """``(n, d)`` to ``(n, k)``; a NaN marginalizes, too."""
        return log_likelihood(self.model, dict(zip(self.columns, points.T, strict=True)))

    def means(self) -> FloatArray | None:
        """The class means ``(k, d)`` where the parameters hold them, or none."""
        found = [_means(self.model, column) for column in self.columns]
        known = [mean for mean in found if mean is not None]
        return np.stack(known, axis=1) if len(known) == len(found) else None

    def _takes(self, column: str, value: float) -> bool:
        try:
            log_likelihood(self.model, {column: np.array([value])})
        except DataError:
            return False
        return True


@dataclass(frozen=True)
class Lobe:
    """The part of one class's density that is within a level of its peak.

    Attributes:
        axes: ``d`` ascending coordinates of the grid.
        log_density: on the grid, in nats, one dimension per axis.
        peak: the largest log density.
        at: where it is, ``(d,)``.
    """

    axes: tuple[FloatArray, ...]
    log_density: FloatArray
    peak: float
    at: FloatArray


def lobe(marginal: Marginal, place: int, level: float, size: int) -> Lobe | None:
    """Where the class at this place lives.

    Args:
        marginal: of one or two columns.
        place: of the class.
        level: fraction of the peak density that the grid reaches down to.
        size: grid points along each axis.

    Returns:
        Its lobe; none for a class without a density, such as a point mass.
    """
    window = _points_window(marginal, place)
    if window is not None:
        axes = _axes(marginal, window, size)
        values = _on_grid(marginal, place, axes)
        return Lobe(axes, values, *_highest(axes, values)) if np.isfinite(values).any() else None
    start = _look_around(marginal, place, level)
    if start is None:
        return None
    window = _settle(marginal, place, start, level)
    axes = _axes(marginal, window, size)
    values = _on_grid(marginal, place, axes)
    peak, at = _climb(marginal, place, axes, values)
    return Lobe(axes, values, peak, at)


def rows_by_class(
    model: Model, data: Any, columns: Sequence[str]
) -> tuple[list[FloatArray], IntArray]:
    """Columns of a table of data, and the class of each row.

    Args:
        model: whose classes and label column count.
        data: see `arrays.as_table`; the label column may be missing.
        columns: numeric ones.

    Returns:
        ``d`` arrays ``(n,)``, and class positions ``(n,)``, `MISSING` for a row of no known class.
        Rows without a value in one of the columns are left out.

    Raises:
        DataError: a column is missing, not numeric or infinite, or no row has a value in all.
    """
    table = as_table(data)
    check_columns(table.schema, columns)
    table = table.combine_chunks()
    values = [_column(table, name) for name in columns]
    label = model.spec.label
    codes = np.full(table.num_rows, MISSING, dtype=np.intp)
    if label in table.schema.names:
        check_columns(table.schema, [label])
        own, labels = category_codes(table[label])
        known = label_codes(pa.array(labels, pa.string()), pa.array(model.class_names))
        codes = np.append(known, MISSING)[own]
    kept = ~np.any([np.isnan(each) for each in values], axis=0)
    if not kept.any():
        raise DataError(f"no row of the data has a value in {' and '.join(map(repr, columns))}.")
    return [each[kept] for each in values], codes[kept]


def _means(model: Model, column: str) -> FloatArray | None:
    """``(k,)``, from a tidy table, from a list per class, or from the points themselves."""
    block = block_of(model, column)
    likelihood = model.likelihoods[str(block.name)]
    position = list(block.columns).index(column)
    if isinstance(likelihood, KnnDensityLikelihood):
        values = likelihood.points[:, position]
        weights = np.where(np.isnan(values), 0.0, likelihood.counts)
        size = likelihood.k_classes
        sums = np.bincount(likelihood.classes, np.nan_to_num(values) * weights, minlength=size)
        held = np.bincount(likelihood.classes, weights, minlength=size)
        return np.asarray(sums / np.where(held > 0.0, held, np.nan))
    parameters = model.parameters[str(block.name)]
    name = "rate" if block.estimator == "poisson" else "mean"
    if "feature" in parameters.column_names:
        parameters = parameters.filter(pc.equal(parameters["feature"], column))
    if name not in parameters.column_names or parameters.num_rows != len(model.classes):
        return None
    means = np.array(parameters[name].to_pylist(), dtype=np.float64).reshape(len(parameters), -1)
    own = means[:, 0 if "feature" in parameters.column_names else position]
    order: FloatArray = own[label_codes(model.classes, parameters["class"].combine_chunks())]
    return order


def _points_window(marginal: Marginal, place: int) -> FloatArray | None:
    """Around the training points of the class, where the model is made of points.

    Where K of them coincide, that density has no finite peak to be found by looking.
    """
    windows = []
    for column in marginal.columns:
        block = block_of(marginal.model, column)
        likelihood = marginal.model.likelihoods[str(block.name)]
        if not isinstance(likelihood, KnnDensityLikelihood):
            return None
        position = list(block.columns).index(column)
        values = likelihood.points[likelihood.classes == place, position]
        values = values[~np.isnan(values)]
        if not len(values):
            return None
        margin = _POINTS_MARGIN * np.ptp(values) or 0.5
        windows.append([values.min() - margin, values.max() + margin])
    return np.array(windows)


def _look_around(marginal: Marginal, place: int, level: float) -> FloatArray | None:
    """A first window ``(d, 2)``, column by column, from values of every size."""
    center = np.full(len(marginal.columns), np.nan)
    window = np.empty((len(center), 2))
    for axis in range(len(center)):
        scan = np.concatenate([-_SCAN[::-1], [0.0], _SCAN])
        scan = scan[(scan >= marginal.lowest[axis]) & (scan <= marginal.highest[axis])]
        if marginal.whole[axis]:
            scan = np.unique(np.round(scan))
        points = np.tile(center, (len(scan), 1))
        points[:, axis] = scan
        values = marginal(points)[:, place]
        best = int(np.argmax(values))
        if not np.isfinite(values[best]):
            return None
        inside = np.flatnonzero(values >= values[best] + np.log(level))
        center[axis] = scan[best]
        window[axis] = scan[max(inside[0] - 1, 0)], scan[min(inside[-1] + 1, len(scan) - 1)]
    return window


def _settle(marginal: Marginal, place: int, window: FloatArray, level: float) -> FloatArray:
    """The window, shrunk or grown until the level just fits into it."""
    for _ in range(_STEPS):
        axes = _axes(marginal, window, _COARSE)
        values = _on_grid(marginal, place, axes)
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
                f"p({', '.join(marginal.columns)} | {marginal.model.class_names[place]}) falls off "
                f"nowhere to {level:g} of its peak, so it has no bounds to be drawn within."
            )
        settled = not grown and bool(np.all(np.ptp(fitted, axis=1) > _SETTLED * np.ptp(window, 1)))
        window = fitted
        if settled:
            break
    return window


def _climb(
    marginal: Marginal, place: int, axes: tuple[FloatArray, ...], values: FloatArray
) -> tuple[float, FloatArray]:
    """The peak between grid points: each step looks into the cells around the highest point."""
    peak, at = _highest(axes, values)
    cells = np.array([np.diff(axis).max() if len(axis) > 1 else 1.0 for axis in axes])
    for _ in range(6):
        around = _axes(marginal, np.stack([at - cells, at + cells], axis=1), 11)
        higher, where = _highest(around, _on_grid(marginal, place, around))
        if higher > peak:
            peak, at = higher, where
        cells /= 5.0
    return peak, at


def _highest(axes: tuple[FloatArray, ...], values: FloatArray) -> tuple[float, FloatArray]:
    best = np.unravel_index(int(np.argmax(values)), values.shape)
    at = np.array([axis[place] for axis, place in zip(axes, best, strict=True)])
    return float(values[best]), at


def _axes(marginal: Marginal, window: FloatArray, size: int) -> tuple[FloatArray, ...]:
    axes: list[FloatArray] = []
    for (low, high), whole, lowest in zip(window, marginal.whole, marginal.lowest, strict=True):
        axis = np.linspace(max(low, lowest), high, size)
        axes.append(np.unique(np.round(axis)) if whole else axis)
    return tuple(axes)


def _on_grid(marginal: Marginal, place: int, axes: tuple[FloatArray, ...]) -> FloatArray:
    grid = np.meshgrid(*axes, indexing="ij")
    points = np.stack([each.ravel() for each in grid], axis=1)
    values: FloatArray = marginal(points)[:, place].reshape(grid[0].shape)
    return values


def _column(table: pa.Table, name: str) -> FloatArray:
    """One column of a table that is one chunk at most."""
    column = table[name]
    array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return numeric_column(pa.record_batch([array], names=[name]), name)
