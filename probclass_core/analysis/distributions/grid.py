"""Curves on a grid that follows them: masses of points, from which sums replace integrals.

The grid is halved where Simpson's rule needs it. It begins with the range of the training rows and
goes far beyond it, so that it finds densities of any place and width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.marginals import LARGEST_NUMBER, Curve

Density = Callable[[FloatArray], FloatArray]
"""Points ``(n,)`` to log densities ``(n, k)``."""

_CELLS = 32
"""Cells of the range of the training rows at first."""

_OUTWARD = 8.0 ** np.arange(21)
"""Distances beyond the range at first, in widths of it."""

_AROUND = np.array([0.0, 0.3, 0.7, 1.2, 1.8, 2.5, 3.5, 5.0, 8.0])
"""Distances from a known mean at first, in standard deviations."""

_MOST_CELLS, _MOST_ROUNDS = 20_000, 200
_MOST_WHOLE = 2**16
"""Most whole numbers that are summed one by one; of more, every s-th stands for s."""

_NEGLIGIBLE = 45.0
"""Log densities this far below the peak, in nats, do not count."""

_TOLERANCE = 1e-5
_NARROWEST = 8.0
"""Width of a cell in steps of float64 from which on it is not halved."""

_LEAST_MASS = 0.98
_FAR, _LARGEST_TAIL = 10, 1e-3
"""Outermost points that may have this part of the variance; of more, there is none."""


@dataclass(frozen=True)
class Grid:
    """Curves of the same column on the same points.

    Attributes:
        curves: the curves.
        points: ascending, ``(n,)``.
        log_density: log density of each curve at the points, ``(n, k)`` each; −∞ for point masses.
        widths: what a density at each point is multiplied with, ``(n,)``.
        bounds: where the width of a point ends and that of the next begins, ``(n − 1,)``.
    """

    curves: Sequence[Curve]
    points: FloatArray
    log_density: Sequence[FloatArray]
    widths: FloatArray
    bounds: FloatArray

    @classmethod
    def of(
        cls,
        curves: Sequence[Curve],
        ends: tuple[float, float] | None,
        tolerance: float = _TOLERANCE,
    ) -> Grid:
        """Resolve curves.

        Args:
            curves: curves of one column, all of whole numbers or none.
            ends: least and largest value of the training rows; None if unknown.
            tolerance: part of the mass by which Simpson's rule may be wrong in a cell.
        """
        masks = [np.isnan(_points_of(curve)) for curve in curves]

        def density(points: FloatArray) -> FloatArray:
            parts = [
                np.where(mask, curve.log_density(points), -np.inf)
                for curve, mask in zip(curves, masks, strict=True)
            ]
            together = np.concatenate(parts, axis=1)
            together[np.isnan(together)] = -np.inf  # a class without values
            return together

        low = min(curve.low for curve in curves)
        high = max(curve.high for curve in curves)
        nodes = np.clip(_first_nodes(curves, ends), low, high)
        if curves[0].whole:
            points, widths, bounds = _whole_points(density, np.unique(np.round(nodes)))
        else:
            points, widths, bounds = _cells(density, nodes, tolerance)
        sizes = np.cumsum([len(mask) for mask in masks])[:-1]
        logs = np.split(density(points), sizes, axis=1)
        return cls(curves, points, logs, widths, bounds)

    @cached_property
    def totals(self) -> list[FloatArray]:
        """The integral of each class, ``(k,)`` for each curve; 1 for a point mass."""
        found = []
        for curve, logs in zip(self.curves, self.log_density, strict=True):
            peak = _peak(logs)
            with np.errstate(over="ignore"):
                total = (self.widths @ np.exp(logs - peak)) * np.exp(peak)
            found.append(np.where(np.isnan(_points_of(curve)), total, 1.0))
        return found

    @property
    def known(self) -> list[np.ndarray]:
        """Which classes have a distribution: the density integrates to 1."""
        return [
            (total > _LEAST_MASS) & (total < 1.0 / _LEAST_MASS) & curve.proper
            for curve, total in zip(self.curves, self.totals, strict=True)
        ]

    @cached_property
    def masses(self) -> list[FloatArray]:
        """Mass of each point, and then of each atom, that of a point mass: ``(n + a, k)`` each."""
        atoms = np.unique(np.concatenate([_points_of(curve) for curve in self.curves]))
        atoms = atoms[~np.isnan(atoms)]
        found = []
        for curve, logs in zip(self.curves, self.log_density, strict=True):
            mass = self.widths[:, None] * np.exp(logs - _peak(logs))
            total = mass.sum(axis=0)
            mass = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0.0)
            found.append(np.concatenate([mass, _points_of(curve) == atoms[:, None]]))
        return found

    @property
    def steps(self) -> FloatArray:
        """Where `below` may change its slope: the bounds, and just above each point mass."""
        atoms = [at[~np.isnan(at)] for at in map(_points_of, self.curves)]
        return np.unique(
            np.concatenate([self.bounds, *atoms, *(np.nextafter(at, np.inf) for at in atoms)])
        )

    def below(self, number: int, cuts: FloatArray) -> FloatArray:
        """P(x < cut | class) of one of the curves, ``(len(cuts), k)``."""
        mass, at = self.masses[number][: len(self.points)], _points_of(self.curves[number])
        if self.curves[number].whole:
            cuts = np.ceil(cuts) - 0.5
        cumulative = np.cumsum(mass[:-1], axis=0)
        found = [np.interp(cuts, self.bounds, of, 0.0, 1.0) for of in cumulative.T]
        return np.where(np.isnan(at), np.stack(found, axis=1), at < cuts[:, None])

    def moments(self, number: int) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of one of the curves, ``(k,)`` each: as the likelihood knows them.

        Otherwise they are sums over the grid, NaN if its far ends decide about them.
        """
        curve = self.curves[number]
        if curve.mean is not None and curve.variance is not None:
            return curve.mean, curve.variance
        mass = np.where(self.known[number], self.masses[number][: len(self.points)], np.nan)
        center = mass.T @ self.points
        squares = mass * (self.points[:, None] - center) ** 2
        variance = squares.sum(axis=0)
        tail = np.zeros_like(variance)
        if curve.low <= -LARGEST_NUMBER:
            tail += squares[:_FAR].sum(axis=0)
        if curve.high >= LARGEST_NUMBER:
            tail += squares[-_FAR:].sum(axis=0)
        bounded = curve.whole | (tail <= _LARGEST_TAIL * variance)
        mean = center if curve.mean is None else curve.mean
        return np.where(bounded, mean, np.nan), np.where(bounded, variance, np.nan)


def _points_of(curve: Curve) -> FloatArray:
    """Where each class has all of its mass, ``(k,)``; NaN if it has a density."""
    if curve.whole or curve.mean is None or curve.variance is None:
        size = curve.log_density(np.empty(0)).shape[1]
        return np.full(size, np.nan)
    return np.where(curve.variance == 0.0, curve.mean, np.nan)


def _peak(logs: FloatArray) -> FloatArray:
    """The largest log density of each class, ``(k,)``; 0 for a class without any."""
    peak = logs.max(axis=0, initial=-np.inf)
    finite: FloatArray = np.where(np.isneginf(peak), 0.0, peak)
    return finite


def _first_nodes(curves: Sequence[Curve], ends: tuple[float, float] | None) -> FloatArray:
    """Points between which the first cells lie."""
    low, high = (-1.0, 1.0) if ends is None else ends
    if not low < high:
        margin = 0.5 * abs(low) or 0.5
        low, high = low - margin, high + margin
    span = high - low
    nodes = [np.linspace(low, high, _CELLS + 1), low - span * _OUTWARD, high + span * _OUTWARD]
    for curve in curves:
        if curve.mean is not None and curve.variance is not None:
            deviation = np.sqrt(np.where(np.isfinite(curve.variance), curve.variance, 0.0))
            around = curve.mean + np.concatenate([-_AROUND, _AROUND])[:, None] * deviation
            nodes.append(around[np.isfinite(around)])
    return np.concatenate(nodes)


def _cells(
    density: Density, nodes: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points, widths and bounds of Simpson's rule, in cells that are halved until it is accurate.

    A cell is its start, its middle and its end.
    """
    nodes = np.unique(nodes)
    nodes = nodes[np.diff(nodes, prepend=-np.inf) > _NARROWEST * np.spacing(np.abs(nodes))]
    cells = np.stack([nodes[:-1], nodes[:-1] + 0.5 * np.diff(nodes), nodes[1:]])
    values = density(cells.ravel()).reshape(3, cells.shape[1], -1)
    for _ in range(_MOST_ROUNDS):
        height = np.exp(values - _peak(values.reshape(-1, values.shape[-1])))
        width = (cells[2] - cells[0])[:, None]
        total = (width * (height[0] + 4.0 * height[1] + height[2])).sum(axis=0)
        bend = width * np.abs(height[0] - 2.0 * height[1] + height[2])
        wrong = (bend > tolerance * total).any(axis=1)
        wrong &= width[:, 0] > _NARROWEST * np.spacing(np.abs(cells).max(axis=0))
        if not wrong.any() or wrong.sum() + len(wrong) > _MOST_CELLS:
            break
        start, middle, end = cells[:, wrong]
        new = np.stack([start + 0.5 * (middle - start), middle + 0.5 * (end - middle)])
        found = density(new.ravel()).reshape(2, len(start), -1)
        of_start, of_middle, of_end = values[:, wrong]
        cells = np.concatenate(
            [cells[:, ~wrong], [start, new[0], middle], [middle, new[1], end]], axis=1
        )
        values = np.concatenate(
            [values[:, ~wrong], [of_start, found[0], of_middle], [of_middle, found[1], of_end]],
            axis=1,
        )
    cells = cells[:, np.argsort(cells[0])]
    sixth = (cells[2] - cells[0]) / 6.0
    points = np.append(cells[:2].T.ravel(), cells[2, -1])
    widths = np.append(np.stack([sixth, 4.0 * sixth], axis=1).ravel(), 0.0)
    widths[2::2] += sixth
    return points, widths, np.stack([cells[0] + sixth, cells[2] - sixth], axis=1).ravel()


def _whole_points(density: Density, nodes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Whole numbers that matter, how many each stands for, and the bounds between them."""
    low, high = nodes[0], nodes[-1]
    for _ in range(_MOST_ROUNDS):
        logs = density(nodes)
        matters = np.flatnonzero((logs > _peak(logs) - _NEGLIGIBLE).any(axis=1))
        if not len(matters):
            break
        before = high - low
        low, high = nodes[max(matters[0] - 1, 0)], nodes[min(matters[-1] + 1, len(nodes) - 1)]
        if high - low < _MOST_WHOLE or high - low >= before:
            break
        nodes = np.unique(np.round(np.linspace(low, high, 8 * _CELLS)))
    step = max(1.0, math.ceil((high - low) / _MOST_WHOLE))
    points = np.arange(low, high + step, step)
    return points, np.full(len(points), step), points[:-1] + 0.5
