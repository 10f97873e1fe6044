"""A curve on a grid that follows it: masses of points, from which sums replace integrals.

The grid is halved where Simpson's rule needs it. It begins with the range of the training rows and
goes far beyond it, so that it finds densities of any place and width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
    """A curve on a grid.

    Attributes:
        curve: the curve, of ``k`` classes.
        points: ascending, ``(n,)``.
        log_density: log density at the points, ``(n, k)``; −∞ for a class without a value of the
            column or with a single one, which has no density.
        widths: what a density at each point is multiplied with, ``(n,)``.
        bounds: where the width of a point ends and that of the next begins, ``(n − 1,)``.
    """

    curve: Curve
    points: FloatArray
    log_density: FloatArray
    widths: FloatArray
    bounds: FloatArray

    @classmethod
    def of(
        cls, curve: Curve, ends: tuple[float, float] | None, tolerance: float = _TOLERANCE
    ) -> Grid:
        """Resolve a curve.

        Args:
            curve: the curve.
            ends: least and largest value of the training rows; None if unknown.
            tolerance: part of the mass by which Simpson's rule may be wrong in a cell.
        """
        none = False if curve.whole or curve.variance is None else curve.variance == 0.0

        def density(points: FloatArray) -> FloatArray:
            logs = curve.log_density(points)
            return np.where(np.isnan(logs) | none, -np.inf, logs)

        nodes = np.clip(_first_nodes(curve, ends), curve.low, curve.high)
        if curve.whole:
            points, widths, bounds = _whole_points(density, np.unique(np.round(nodes)))
        else:
            points, widths, bounds = _cells(density, nodes, tolerance)
        return cls(curve, points, density(points), widths, bounds)

    @cached_property
    def known(self) -> np.ndarray:
        """Which classes have a distribution, ``(k,)``: the density integrates to 1."""
        peak = _peak(self.log_density)
        with np.errstate(over="ignore"):
            total = (self.widths @ np.exp(self.log_density - peak)) * np.exp(peak)
        found: np.ndarray = (total > _LEAST_MASS) & (total < 1.0 / _LEAST_MASS)
        return found & self.curve.proper

    @cached_property
    def masses(self) -> FloatArray:
        """Mass of each point, ``(n, k)``."""
        mass = self.widths[:, None] * np.exp(self.log_density - _peak(self.log_density))
        total = mass.sum(axis=0)
        masses: FloatArray = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0.0)
        return masses

    def below(self, cuts: FloatArray) -> FloatArray:
        """P(x < cut | class), ``(len(cuts), k)``."""
        if self.curve.whole:
            cuts = np.ceil(cuts) - 0.5
        cumulative = np.cumsum(self.masses[:-1], axis=0)
        found = [np.interp(cuts, self.bounds, of, 0.0, 1.0) for of in cumulative.T]
        return np.stack(found, axis=1)

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance, ``(k,)`` each: as the likelihood knows them.

        Otherwise they are sums over the grid, NaN if its far ends decide about them.
        """
        curve = self.curve
        if curve.mean is not None and curve.variance is not None:
            return curve.mean, curve.variance
        mass = np.where(self.known, self.masses, np.nan)
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


def side_by_side(p: Curve, q: Curve) -> Curve:
    """The classes of both curves as one: first those of ``p``, then those of ``q``."""

    def joined(of_p: FloatArray | None, of_q: FloatArray | None) -> FloatArray | None:
        return None if of_p is None or of_q is None else np.concatenate([of_p, of_q])

    return Curve(
        lambda points: np.concatenate([p.log_density(points), q.log_density(points)], axis=1),
        whole=p.whole,
        low=min(p.low, q.low),
        high=max(p.high, q.high),
        proper=p.proper and q.proper,
        mean=joined(p.mean, q.mean),
        variance=joined(p.variance, q.variance),
    )


def _peak(logs: FloatArray) -> FloatArray:
    """The largest log density of each class, ``(k,)``; 0 for a class without any."""
    peak = logs.max(axis=0, initial=-np.inf)
    finite: FloatArray = np.where(np.isneginf(peak), 0.0, peak)
    return finite


def _first_nodes(curve: Curve, ends: tuple[float, float] | None) -> FloatArray:
    """Points between which the first cells lie."""
    low, high = (-1.0, 1.0) if ends is None else ends
    if not low < high:
        margin = 0.5 * abs(low) or 0.5
        low, high = low - margin, high + margin
    span = high - low
    nodes = [np.linspace(low, high, _CELLS + 1), low - span * _OUTWARD, high + span * _OUTWARD]
    if curve.mean is not None and curve.variance is not None:
        deviation = np.sqrt(np.where(np.isfinite(curve.variance), curve.variance, 0.0))
        around = curve.mean + np.concatenate([-_AROUND, _AROUND])[:, None] * deviation
        nodes.append(around[np.isfinite(around)])
    return np.concatenate(nodes)


def _cells(
    density: Density, nodes: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Points, widths and bounds of Simpson's rule, in cells that are halved until it is accurate.

    A cell is its start, its middle and its end, which is the start of the next one.
    """
    nodes = np.unique(nodes)
    nodes = nodes[np.diff(nodes, prepend=-np.inf) > _NARROWEST * np.spacing(np.abs(nodes))]
    points = np.insert(nodes, range(1, len(nodes)), nodes[:-1] + 0.5 * np.diff(nodes))
    values = density(points)
    for _ in range(_MOST_ROUNDS):
        height = np.exp(values - _peak(values))
        start, middle, end = height[:-2:2], height[1::2], height[2::2]
        width = (points[2::2] - points[:-2:2])[:, None]
        total = (width * (start + 4.0 * middle + end)).sum(axis=0)
        wrong = (width * np.abs(start - 2.0 * middle + end) > tolerance * total).any(axis=1)
        largest = np.maximum(np.abs(points[:-2:2]), np.abs(points[2::2]))
        wrong &= width[:, 0] > _NARROWEST * np.spacing(largest)
        if not wrong.any() or wrong.sum() + len(wrong) > _MOST_CELLS:
            break
        # A new middle to either side of each old one.
        after = 2 * np.repeat(np.flatnonzero(wrong), 2) + np.tile([1, 2], wrong.sum())
        new = points[after - 1] + 0.5 * (points[after] - points[after - 1])
        points = np.insert(points, after, new)
        values = np.insert(values, after, density(new), axis=0)
    sixth = (points[2::2] - points[:-2:2]) / 6.0
    widths = np.zeros(len(points))
    widths[:-2:2], widths[1::2] = sixth, 4.0 * sixth
    widths[2::2] += sixth
    bounds = np.stack([points[:-2:2] + sixth, points[2::2] - sixth], axis=1).ravel()
    return points, widths, bounds


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
    points = np.arange(low, high + 1.0, step)
    return points, np.full(len(points), step), points[:-1] + 0.5
