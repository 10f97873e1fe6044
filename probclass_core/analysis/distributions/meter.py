"""The health of rows, gathered while they are scored, compared with what a model expects of them.

The mixture of a column is Σ_c π_c p(x_j | c), where π_c is the share of the class in the training
rows. The bins of numbers are cut at its deciles, those of categories are its most frequent values,
so that they follow from the model alone and the counts of two partitions can be compared.

Counts of rows are exact, but for those in the bins of a column: of a large batch, every s-th row is
counted there, and stands for the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.divergence import of_sample
from probclass_core.analysis.distributions.grid import Grid
from probclass_core.analysis.distributions.health import (
    ClassHealth,
    ColumnHealth,
    DensityHealth,
    Health,
)
from probclass_core.analysis.distributions.reading import read_column, training_ends
from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray, is_numeric_type
from probclass_core.arrow.rows import Rows, bins_of
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.model.decision import Decisions
from probclass_core.model.density_quantiles import log_density_quantile
from probclass_core.model.model import Model
from probclass_core.model.posterior import Posterior

_MOST_BINS = 10
"""Most bins of a column."""

_LEVELS = np.arange(1, _MOST_BINS) / _MOST_BINS
_DIGITS = 4
"""Digits of a cut, relative to the distance between the outer ones."""

_TOLERANCE = 1e-4
"""Of the grids from which cuts are found, for those are rounded."""

_BATCH_SAMPLE = 2**12
"""Rows of a batch that are counted in the bins of columns, at most."""

_RARE = 0.01
"""Quantile of the model's log p(x) below which a row is rare."""

_MOST_COLUMNS, _MOST_CLASSES = 100, 100
"""Most columns whose bins a report shows, and most classes: those that differ most come first among
columns, the most probable ones among classes."""


@dataclass(frozen=True)
class ExpectedColumn:
    """A feature column as the model and its training rows have it.

    Attributes:
        name: name of the feature.
        is_number: whether its values are numbers, unless the model has them as categories.
        training_nulls: share of nulls in the training rows, or None if unknown.
        low: minimum of the training rows, or None if unknown.
        high: maximum of the training rows, or None if unknown.
        cuts: cuts between the bins of a column of numbers, ascending, ``(b − 1,)``.
        values: the categories with a bin each; the bin of the others comes last.
        known: all categories of the training rows, or None for other columns.
        expected: probability of each bin, ``(b,)``, or None if unknown.
    """

    name: str
    is_number: bool
    training_nulls: float | None = None
    low: float | None = None
    high: float | None = None
    cuts: FloatArray = field(default_factory=lambda: np.empty(0))
    values: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    expected: FloatArray | None = None

    @property
    def size(self) -> int:
        """Number of bins; 0 without any."""
        if self.known is not None:
            return len(self.values) + 1
        return len(self.cuts) + 1 if len(self.cuts) else 0

    @cached_property
    def _bin_of(self) -> dict[str, int]:
        """The bin of each known category."""
        of_others = dict.fromkeys(self.known or (), len(self.values))
        return {**of_others, **{value: number for number, value in enumerate(self.values)}}

    def measure(self, rows: Rows, stride: int) -> tuple[list[int], IntArray]:
        """Count what is unusual in ``n`` rows, and every ``stride``-th row by bins.

        Returns:
            Numbers of nulls (NaN included), of categories that no training row had, and of values
            outside the range of the training rows; and the number of sampled rows in each bin,
            nulls in none, ``(_MOST_BINS,)``.
        """
        if self.known is not None:
            return self._measure_categories(rows, stride)
        if not self.is_number:
            return [rows.column(self.name).null_count, 0, 0], np.zeros(_MOST_BINS, np.int64)
        values = rows.numbers(self.name)
        lowest, highest, nulls = rows.extremes(self.name)
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        outside = 0
        if lowest < low or highest > high:
            outside = int(np.count_nonzero((values < low) | (values > high)))
        sampled = np.ascontiguousarray(values[::stride])
        if nulls:
            sampled = sampled[~np.isnan(sampled)]
        bins = bins_of(sampled, self.cuts.tolist())
        return [int(nulls), 0, outside], np.bincount(bins, minlength=_MOST_BINS)

    def health(self, shares: FloatArray, counts: IntArray) -> ColumnHealth:
        """The health of the column.

        Args:
            shares: shares of rows that `measure` counts, ``(3,)``.
            counts: number of sampled rows in each bin, ``(_MOST_BINS,)``.
        """
        nulls, unseen, outside = shares.tolist()
        counts = counts[: self.size]
        expected = drift = error = None
        if self.expected is not None:
            expected = tuple(rounded(share, 4) for share in self.expected.tolist())
            if counts.any():
                drift, error = map(rounded, of_sample(counts, self.expected))
        ranged = self.known is None and self.low is not None
        return ColumnHealth(
            nulls=rounded(nulls),
            unseen=None if self.known is None else rounded(unseen),
            outside=rounded(outside) if ranged else None,
            training_nulls=None if self.training_nulls is None else rounded(self.training_nulls),
            drift=drift,
            drift_error=error,
            cuts=tuple(self.cuts.tolist()),
            values=self.values,
            counts=tuple(counts.tolist()),
            expected=expected,
        )

    def _measure_categories(self, rows: Rows, stride: int) -> tuple[list[int], IntArray]:
        codes, values = rows.categories(self.name)
        # Nulls, whose code is −1, are in a bin after all others, which is left out.
        bins = np.array([*(self._bin_of.get(value, MISSING) for value in values), _MOST_BINS])
        nulls = int(np.count_nonzero(codes == MISSING))
        unseen = 0
        if (bins == MISSING).any():
            unseen = int((bins[codes] == MISSING).sum())
            bins[bins == MISSING] = len(self.values)
        counts = np.bincount(bins[codes[::stride]], minlength=_MOST_BINS)[:_MOST_BINS]
        return [nulls, unseen, 0], counts


def expected_columns(model: Model) -> list[ExpectedColumn]:
    """What a model expects of each of its features, in order."""
    counts = model.priors["count"].to_numpy()
    prior = model.priors["prior"].to_numpy()
    shares = counts / counts.sum() if counts.sum() > 0.0 else prior
    profile: Mapping[str, Mapping[str, Any]] = model.training.get("columns") or {}
    columns = []
    for name in model.spec.features:
        seen = profile.get(name, {})
        nulls = seen["nulls"] / seen["rows"] if seen.get("rows") else None
        kind = model.features.field(name).type
        numeric = is_numeric_type(kind) and not pa.types.is_null(kind)
        ends = training_ends(model, column=name) if numeric else None
        low, high = ends or (None, None)
        own = found[1] if (found := read_column(model, name)) is not None else None
        bins: dict[str, Any] = {}
        if isinstance(own, Curve):
            bins = _curve_bins(own, shares, ends)
        elif own is not None and own.of == "value":
            if own.cuts is None:
                bins = _category_bins(own, shares)
            elif numeric:
                bins = _joined_bins(own.cuts, own.probability @ shares)
        if not bins and ends is not None:
            bins = {"cuts": _rounded_cuts(np.linspace(*ends, _MOST_BINS + 1)[1:-1])}
        columns.append(ExpectedColumn(name, numeric, nulls, low, high, **bins))
    return columns


def _category_bins(levels: Levels, shares: FloatArray) -> dict[str, Any]:
    """The most frequent categories, and all others together, as fields of `ExpectedColumn`."""
    mixture = zip(levels.names, (levels.probability @ shares).tolist(), strict=True)
    probability = {name: mass for name, mass in mixture if name is not None}
    total = sum(probability.values())
    frequent = sorted(probability, key=lambda value: -probability[value])[: _MOST_BINS - 1]
    values = tuple(sorted(frequent))
    masses = [probability[value] / total for value in values] if total > 0.0 else []
    expected = np.array([*masses, max(0.0, 1.0 - sum(masses))]) if masses else None
    return {"values": values, "known": tuple(probability), "expected": expected}


def _joined_bins(cuts: FloatArray, probability: FloatArray) -> dict[str, Any]:
    """The bins of a model joined to fewer, each with about the same probability.

    Args:
        cuts: cuts between the bins.
        probability: of each bin, and of null if it is a value.
    """
    if not len(cuts):
        return {}
    probability = probability[: len(cuts) + 1]
    probability = probability / probability.sum()
    below = np.cumsum(probability)[:-1]
    chosen = np.unique([int(np.argmin(np.abs(below - level))) for level in _LEVELS])
    expected = np.add.reduceat(probability, [0, *(chosen + 1)])
    return {"cuts": cuts[chosen], "expected": expected}


def _curve_bins(
    curve: Curve, shares: FloatArray, ends: tuple[float, float] | None
) -> dict[str, Any]:
    """Cuts at the deciles of the mixture; nothing if it is not a proper density."""
    has_point_mass = curve.variance is not None and (curve.variance == 0.0).any()
    if not curve.proper or (has_point_mass and not curve.whole):
        return {}
    grid = Grid.of(curve, ends, _TOLERANCE)
    # A class without a value of the column has no share in its mixture.
    weights = np.where(grid.known, shares, 0.0)
    if not weights.any():
        return {}
    weights /= weights.sum()
    below = np.maximum.accumulate(grid.below(grid.bounds) @ weights)
    deciles = np.interp(_LEVELS, below, grid.bounds)
    cuts = np.unique(np.floor(deciles) + 0.5) if curve.whole else _rounded_cuts(deciles)
    below = grid.below(cuts) @ weights
    return {"cuts": cuts, "expected": np.diff(below, prepend=0.0, append=1.0)}


def _rounded_cuts(cuts: FloatArray) -> FloatArray:
    """Distinct cuts, rounded to what distinguishes them."""
    spread = float(cuts[-1] - cuts[0])
    if not (math.isfinite(spread) and spread > 0.0):
        return cuts[:1]
    digits = _DIGITS - math.ceil(math.log10(spread))
    rounded: FloatArray = np.unique(np.round(cuts, digits)) if digits < 300 else np.unique(cuts)
    return rounded


def rounded(number: float, digits: int = 6) -> float:
    """A number with few digits, so that records are short."""
    return float(f"{number:.{digits}g}") + 0.0


@dataclass(frozen=True)
class HealthSums:
    """Sums over rows; those of consecutive rows add up.

    Attributes:
        rows: number of rows.
        sampled: number of rows that are counted in bins.
        columns: numbers of nulls, unseen categories and values outside the range of the training
            rows, by column: ``(3, d)``.
        bins: estimated number of rows in each bin of each column, ``(d, _MOST_BINS)``.
        predicted: number of rows that each class is predicted for, ``(k,)``.
        probability: Σ P(c | x) of each class, ``(k,)``.
        rare: number of rows below the 1 % quantile of the model's log p(x).
        impossible: number of rows with p(x) = 0.
    """

    rows: int
    sampled: int
    columns: IntArray
    bins: FloatArray
    predicted: IntArray
    probability: FloatArray
    rare: int
    impossible: int

    def __add__(self, other: HealthSums) -> HealthSums:
        """The sums over the rows of both."""
        return HealthSums(
            **{name: value + getattr(other, name) for name, value in vars(self).items()}
        )


class HealthMeter:
    """Measures the health of the rows that a model scores.

    Args:
        model: model that scores the rows.

    Attributes:
        columns: what the model expects of each feature.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.columns = expected_columns(model)

    @cached_property
    def _rare_below(self) -> float | None:
        """Log p(x) below which a row is rare, or None if the model does not say."""
        quantiles = self.model.density_quantiles
        if quantiles is None or quantiles["quantile"][0].as_py() > _RARE:
            return None
        return log_density_quantile(quantiles, _RARE)

    def zero(self) -> HealthSums:
        """The sums over no rows."""
        features, classes = len(self.columns), len(self.model.classes)
        return HealthSums(
            rows=0,
            sampled=0,
            columns=np.zeros((3, features), np.int64),
            bins=np.zeros((features, _MOST_BINS)),
            predicted=np.zeros(classes, np.int64),
            probability=np.zeros(classes),
            rare=0,
            impossible=0,
        )

    def measure(self, rows: Rows, posterior: Posterior, decisions: Decisions) -> HealthSums:
        """The sums over a batch; safe to call from several threads.

        Args:
            rows: the features of ``n`` rows.
            posterior: posteriors of the rows, as they are served.
            decisions: decisions about the rows.
        """
        size = len(rows)
        stride = max(1, -(-size // _BATCH_SAMPLE))
        sampled = -(-size // stride)
        counts, bins = zip(*(column.measure(rows, stride) for column in self.columns), strict=True)
        probability, choice = posterior.probability, decisions.prediction
        density = posterior.log_density
        return HealthSums(
            rows=size,
            sampled=sampled,
            columns=np.array(counts, np.int64).T,
            bins=np.stack(bins) * (size / max(1, sampled)),
            predicted=np.bincount(choice[choice != MISSING], minlength=probability.shape[1]),
            probability=probability.sum(axis=0),
            rare=0 if self._rare_below is None else int((density < self._rare_below).sum()),
            impossible=int(np.isneginf(density).sum()),
        )

    def health(self, sums: HealthSums, prior: Mapping[str, float] | None = None) -> Health:
        """The health of at least one row.

        Args:
            sums: sums over the rows.
            prior: shares of the classes under which the posteriors are; None for those of training.
        """
        rows, model = sums.rows, self.model
        # As many rows as were counted, so that a small sample is known as one.
        bins = np.rint(sums.bins * (sums.sampled / rows)).astype(np.int64)
        measured = zip(self.columns, (sums.columns / rows).T, bins, strict=True)
        density = None
        if model.normalized:
            density = DensityHealth(
                rare=None if self._rare_below is None else rounded(sums.rare / rows),
                impossible=rounded(sums.impossible / rows),
            )
        names, shares = model.class_names, sums.probability / rows
        usual = model.source_prior if prior is None else model.shares(prior)
        shown = sorted(np.argsort(-shares, kind="stable")[:_MOST_CLASSES].tolist())
        return Health(
            rows=rows,
            sampled=sums.sampled,
            rejected=rounded(1.0 - sums.predicted.sum() / rows),
            columns=_with_fewer_bins(
                {column.name: column.health(shares, counts) for column, shares, counts in measured}
            ),
            classes={
                names[i]: ClassHealth(
                    predicted=rounded(sums.predicted[i] / rows),
                    expected=rounded(shares[i]),
                    prior=rounded(usual[i]),
                )
                for i in shown
            },
            log_density=density,
        )


def _with_fewer_bins(columns: dict[str, ColumnHealth]) -> dict[str, ColumnHealth]:
    """The columns; if there are very many, only those that differ most have their bins."""
    if len(columns) <= _MOST_COLUMNS:
        return columns
    ranked = sorted(columns, key=lambda name: -columns[name].unusual)
    shown = set(ranked[:_MOST_COLUMNS])
    return {
        name: one if name in shown else replace(one, cuts=(), values=(), counts=(), expected=None)
        for name, one in columns.items()
    }
