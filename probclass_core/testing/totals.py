"""Total probability of each class: sums of masses, integrals of densities.

A density of one column is integrated by adaptive quadrature between the values of training, in the
logarithm of the distance from the nearest one, so that neither narrow peaks, poles nor long tails
are missed. A joint density of several columns is integrated over one column after another, at
values of the columns before it: if p(x, y) integrates to p(x) over y, and p(x) to 1, so does
p(x, y).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import integrate

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.types import is_category_type
from probclass_core.errors import DataError
from probclass_core.model.model import Model
from probclass_core.testing.trial import COUNTS, LABEL, Interval, Trial

LogDensity = Callable[[FloatArray], FloatArray]
"""From points ``(n, d)`` to log densities in each class, ``(n, k)``."""

_PANEL = 4.0
"""Largest width of a panel of a quadrature, in the logarithm of the distance."""
_ENOUGH = 1e-5
"""Error of an integral below which it is not refined further."""
_MOST_DIVISIONS = 50

_LEAST_DISTANCE, _LARGEST_DISTANCE = 1e-290, 1.7e308
_ZOOMS = 24
"""Each makes the interval around a mode 16 times narrower."""

_POINT_MASS = 1e-4
"""Probability of the numbers that rounding does not tell from a value: from here on, the class is a
point mass, and has no density to integrate."""

_EXACT_COUNTS = 4096
_STEPS = 2048
_LARGEST_COUNT = 2**50
_UNSEEN = "(a value that no row has)"
_MOST_GIVEN = 3


class Total(NamedTuple):
    """The total probability of each class of a model, under one condition.

    Attributes:
        of: what was summed or integrated, for messages.
        least: smallest total that the likelihood claims, ``(k,)``; NaN for a point mass and for a
            column that the model leaves out.
        most: the largest, ``(k,)``; it differs if one unseen value may represent all others.
        error: estimated error of both, ``(k,)``.
    """

    of: str
    least: FloatArray
    most: FloatArray
    error: FloatArray


def densities(trial: Trial, model: Model, table: pa.Table) -> Iterator[Total]:
    """Integrals over each column; if the likelihood does not factorize, given those before it.

    Columns of which the trial does not say that they are intervals are left out.
    """
    if trial.outcomes is not None:
        return
    known = [
        name
        for name in trial.columns
        if isinstance(trial.spaces.get(name), Interval)
        and pa.types.is_floating(table.schema.field(name).type)
    ]
    if not trial.kind.factorizes and len(known) < len(trial.columns):
        return
    for one in _conditions(trial, model, table):
        for place, name in enumerate(known):
            before = [] if trial.kind.factorizes else known[:place]
            for row in _few_rows(table.select(before).drop_null(), before):
                yield one.integrate_column(name, row)


def masses(trial: Trial, model: Model, table: pa.Table) -> Iterator[Total]:
    """Sums over the outcomes of the trial, or by default over counts or the values of training."""
    if trial.outcomes is not None:
        rows = trial.outcomes(model)
        if rows is not None:
            total = _exp(trial.log_likelihood(model, rows)).sum(axis=0)
            yield Total("the outcomes", total, total, np.zeros_like(total))
        return
    spaces = [trial.spaces.get(name) for name in trial.columns]
    kinds = [table.schema.field(name).type for name in trial.columns]
    for one in _conditions(trial, model, table):
        if trial.kind.factorizes or len(trial.columns) == 1:
            for name, space in zip(trial.columns, spaces, strict=True):
                if space == COUNTS:
                    yield one.sum_counts(name)
        if not any(spaces) and all(map(is_category_type, kinds)):
            yield one.sum_values()


def _conditions(trial: Trial, model: Model, table: pa.Table) -> list[_Condition]:
    """Values of the given columns in a few rows of training."""
    return [_Condition(trial, model, table, row) for row in _few_rows(table, trial.given)]


def _few_rows(table: pa.Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Values of some columns in the first distinct rows; one row without values of no columns."""
    if not columns:
        return [{}]
    distinct = {repr(row): row for row in table.select(list(columns)).to_pylist()}
    return list(distinct.values())[:_MOST_GIVEN]


@dataclass(frozen=True)
class _Condition:
    """Total probabilities of a model given values of its given columns.

    Attributes:
        trial: the estimator.
        model: the model.
        table: the rows that it was fitted to.
        given: values of the given columns, and of those before a column.
    """

    trial: Trial
    model: Model
    table: pa.Table
    given: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What is given, for messages."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.given.items())
        return f" given {values}" if values else ""

    def sum_counts(self, name: str) -> Total:
        """Sum over the counts of a column: one by one at first, then in steps."""
        starts, sizes = [np.arange(_EXACT_COUNTS)], [np.ones(_EXACT_COUNTS)]
        start = _EXACT_COUNTS
        while start < _LARGEST_COUNT:
            step = start // _STEPS
            starts.append(start + step * np.arange(_STEPS) + (step - 1) // 2)
            sizes.append(np.full(_STEPS, float(step)))
            start *= 2
        counts, size = (np.concatenate(parts) for parts in (starts, sizes))
        logs = self.log_likelihood({name: counts.astype(np.float64)})
        if not logs.any():
            logs = np.full_like(logs, math.nan)  # the model leaves the column out
        total: FloatArray = (size[:, None] * _exp(logs)).sum(axis=0)
        return Total(f"the counts of {name!r}{self.text}", total, total, np.zeros_like(total))

    def sum_values(self) -> Total:
        """Sum over the values of training, then with one unseen value in place of all others."""
        columns, schema = self.trial.columns, self.table.schema
        labeled = self.table.filter(self.table[LABEL].is_valid())
        seen = [pc.unique(labeled[name]).to_pylist() for name in columns]
        if not self.trial.models_nulls(self.model):
            seen = [[value for value in values if value is not None] for values in seen]
        cells = zip(*itertools.product(*seen), strict=True)
        total = _exp(self.log_likelihood(dict(zip(columns, cells, strict=True)))).sum(axis=0)
        rest = np.zeros_like(total)
        if all(pa.types.is_string(schema.field(name).type) for name in columns):
            with contextlib.suppress(DataError):  # the estimator has no probability for it
                rest = _exp(self.log_likelihood({name: [_UNSEEN] for name in columns}))[0]
        of = f"the values of {', '.join(map(repr, columns))} in training{self.text}"
        return Total(of, total, total + rest, np.zeros_like(total))

    def integrate_column(self, name: str, before: Mapping[str, Any]) -> Total:
        """Integral over a column, given values of other columns of the block."""
        space = self.trial.spaces[name]
        assert isinstance(space, Interval)
        one = replace(self, given={**self.given, **before})
        log_before = np.zeros(len(self.model.classes))
        if before:
            log_before = one.log_likelihood({name: [None]})[0]
        possible = np.isfinite(log_before)

        def log_density(x: FloatArray) -> FloatArray:
            logs = one.log_likelihood({name: x})
            return np.where(possible, logs - np.where(possible, log_before, 0.0), -np.inf)

        values = self.trial.rows(self.table).numbers(name)
        values = values[~np.isnan(values)]
        if not log_density(np.append(values, [0.0, 0.5, 1e9])).any():
            none = np.full(len(self.model.classes), math.nan)  # the model leaves the column out
            return Total(name, none, none, none)
        total, error = integrate_line(log_density, values, space)
        total = np.where(possible, total, math.nan)
        of = f"column {name!r} from {space.low} to {space.high}{one.text}"
        return Total(of, total, total, error)

    def log_likelihood(self, columns: Mapping[str, Sequence[Any] | FloatArray]) -> FloatArray:
        """log p of ``n`` values of some columns, with others as given, or null: ``(n, k)``."""
        size = len(next(iter(columns.values())))
        rows = {}
        for name in self.trial.inputs:
            kind = self.table.schema.field(name).type
            values = columns.get(name, [self.given.get(name)] * size)
            column = pa.array(values, None if isinstance(values, np.ndarray) else kind)
            rows[name] = column.cast(kind, safe=False)
        return self.trial.log_likelihood(self.model, pa.table(rows))


def integrate_line(
    log_density: LogDensity, values: FloatArray, space: Interval
) -> tuple[FloatArray, FloatArray]:
    """Integral of densities of one column, and its estimated error.

    The line is cut into panels, in the logarithm of the distance from the nearest anchor, and the
    sum over the panels is integrated over their common width.

    Args:
        log_density: from numbers ``(n,)`` to ``(n, k)``.
        values: where densities may have narrow peaks.
        space: bounds.

    Returns:
        Integral and error, ``(k,)`` each; the integral of a point mass is NaN.
    """
    bounds = [bound for bound in (space.low, space.high) if math.isfinite(bound)]
    anchors = np.unique([*values, 0.0, *bounds])
    anchors = anchors[(anchors >= space.low) & (anchors <= space.high)]
    panels = _panels(anchors, space)
    points = np.unique([_points(panels, place)[0] for place in np.linspace(0.05, 0.95, 10)])
    anchors = np.unique([*anchors, *_modes(log_density, points)])
    peaks = log_density(anchors) + np.log(_rounding(anchors))[:, None]
    point_mass = (peaks[~np.isin(anchors, space.atoms)] > math.log(_POINT_MASS)).any(axis=0)
    panels = _panels(anchors, space)

    def integrand(place: float) -> FloatArray:
        x, u, width = _points(panels, place)
        by_panel = _exp(log_density(x) + u[:, None]) * width[:, None]
        return np.where(point_mass, 0.0, by_panel.sum(axis=0))

    total, error = integrate.quad_vec(
        integrand, 0.0, 1.0, epsabs=_ENOUGH, epsrel=_ENOUGH, norm="max", limit=_MOST_DIVISIONS
    )
    if space.atoms:
        total = total + _exp(log_density(np.array(space.atoms))).sum(axis=0)
    return np.where(point_mass, np.nan, total), np.full(len(total), error)


def _modes(log_density: LogDensity, points: FloatArray) -> FloatArray:
    """The mode of each class, ``(k,)``: from the highest of ascending points, by narrowing down.

    A narrow peak need not be at a value: given columns move it, and grids round values.
    """
    modes = []
    for position, best in enumerate(np.argmax(log_density(points), axis=0)):
        grid, at = points, int(best)
        for _ in range(_ZOOMS):
            grid = np.linspace(grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)], 33)
            at = int(np.argmax(log_density(grid)[:, position]))
        modes.append(grid[at])
    return np.array(modes)


def _rounding(anchors: FloatArray) -> FloatArray:
    """The distance from each number at which rounding begins."""
    near: FloatArray = 4.0 * np.finfo(np.float64).eps * np.abs(anchors)
    return np.maximum(near, _LEAST_DISTANCE)


def _points(panels: FloatArray, place: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A point of each panel, the logarithm of its distance, and the width, ``(p,)`` each."""
    anchor, sign, low, high = panels.T
    u = low + place * (high - low)
    with np.errstate(over="ignore"):  # an anchor may be far out, too
        x = np.clip(anchor + sign * np.exp(u), -_LARGEST_DISTANCE, _LARGEST_DISTANCE)
    return x, u, high - low


def _panels(anchors: FloatArray, space: Interval) -> FloatArray:
    """First panels ``(p, 4)``: anchor, sign of the direction, and two logarithms of distances."""
    pieces, near = [], _rounding(anchors)
    for place, (a, b) in enumerate(itertools.pairwise(anchors)):
        half = 0.5 * (b - a)
        pieces += [(a, 1.0, near[place], half), (b, -1.0, near[place + 1], half)]
    if space.low == -math.inf:
        pieces.append((anchors[0], -1.0, near[0], _LARGEST_DISTANCE))
    if space.high == math.inf:
        pieces.append((anchors[-1], 1.0, near[-1], _LARGEST_DISTANCE))
    panels = []
    for anchor, sign, low, high in pieces:
        if low < high:
            ends = math.log(low), math.log(high)
            edges = np.linspace(*ends, 2 + int((ends[1] - ends[0]) / _PANEL))
            panels += [(anchor, sign, *edge) for edge in itertools.pairwise(edges)]
    return np.array(panels)


def _exp(logs: FloatArray) -> FloatArray:
    """exp, at most 1e260: sums of results are finite."""
    values: FloatArray = np.exp(np.minimum(logs, 600.0))
    return values
