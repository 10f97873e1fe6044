"""What a model expects of each feature column: the mixture over the classes, cut into few bins.

The mixture of a column is Σ_c π_c p(x_j | c), where π_c is the share of the class in the training
rows. The bins of numbers are cut at its deciles, those of categories are its most frequent values,
so that they follow from the model alone and the counts of two partitions can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.distributions.grid import Grid
from probclass_core.analysis.distributions.reading import read_column, training_ends
from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    is_numeric_type,
)
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.model.model import Model

MOST_BINS = 10
"""Most bins of a column."""

NULL_BIN = 255
"""Code of the bin of a null, which is not among the bins."""

_BLOCK_CELLS = 2**15
"""Numbers that are measured at once: 256 KiB."""

_LEVELS = np.arange(1, MOST_BINS) / MOST_BINS
_DIGITS = 4
"""Digits of a cut, relative to the distance between the outer ones."""

_TOLERANCE = 1e-4
"""Of the grids from which cuts are found, for those are rounded."""


@dataclass(frozen=True)
class ExpectedColumn:
    """A feature column as the model and its training rows have it.

    Attributes:
        name: name of the feature.
        training_nulls: share of nulls in the training rows, or None if unknown.
        low: minimum of the training rows, or None if unknown.
        high: maximum of the training rows, or None if unknown.
        cuts: cuts between the bins of a column of numbers, ascending, ``(b − 1,)``.
        values: the categories with a bin each; the bin of the others comes last.
        known: all categories of the training rows, or None for other columns.
        expected: probability of each bin, ``(b,)``, or None if unknown.
    """

    name: str
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
    def shown(self) -> tuple[float, ...] | None:
        """`expected` in few digits, for records."""
        if self.expected is None:
            return None
        return tuple(float(f"{share:.4g}") for share in self.expected.tolist())

    @cached_property
    def _bin_of(self) -> dict[str, int]:
        """The bin of each known category."""
        of_others = dict.fromkeys(self.known or (), len(self.values))
        return {**of_others, **{value: number for number, value in enumerate(self.values)}}

    def measure(self, rows: Rows, stride: int, bins: np.ndarray) -> tuple[int, int]:
        """Count the nulls and the unknown categories of the column, and write its bins.

        Args:
            rows: ``n`` rows.
            stride: distance between sampled rows.
            bins: where to write the bin of each of the ``m`` sampled rows, ``(m,)``.
        """
        codes, values = rows.categories(self.name)
        of_value = np.array(
            [*(self._bin_of.get(value, MISSING) for value in values), NULL_BIN], np.int64
        )
        nulls = unseen = 0
        column = rows.column(self.name)
        dictionary = column.dictionary if pa.types.is_dictionary(column.type) else column
        if column.null_count or dictionary.null_count or pa.types.is_floating(dictionary.type):
            nulls = int((codes == MISSING).sum())
        if (of_value == MISSING).any():
            unseen = int((of_value[codes] == MISSING).sum())
        of_value[of_value == MISSING] = len(self.values)
        bins[:] = of_value[codes[::stride]]
        return nulls, unseen


class ColumnMeter:
    """Measures the columns of batches: counts what is unusual, and finds the bins of values.

    Args:
        columns: ``d`` feature columns as the model and its training rows have them.
    """

    def __init__(self, columns: Sequence[ExpectedColumn]) -> None:
        self.columns = columns
        self._numbers = [
            number
            for number, one in enumerate(columns)
            if one.known is None and (one.size or one.low is not None)
        ]
        numbers = [columns[number] for number in self._numbers]
        self._low = np.array([-np.inf if one.low is None else one.low for one in numbers])
        self._high = np.array([np.inf if one.high is None else one.high for one in numbers])
        # A missing cut is above all values.
        self._cuts = np.full(
            (max((len(one.cuts) for one in numbers), default=0), len(numbers)), np.inf
        )
        for number, one in enumerate(numbers):
            self._cuts[: len(one.cuts), number] = one.cuts

    def measure(self, rows: Rows, stride: int) -> tuple[IntArray, np.ndarray]:
        """Count what is unusual, and find the bins of every ``stride``-th row.

        Args:
            rows: ``n`` rows with the columns.
            stride: distance between sampled rows.

        Returns:
            Numbers of nulls (NaN included), of categories that no training row had, and of values
            outside the range of the training rows, ``(3, d)``; and the bin of each of the ``m``
            sampled rows, `NULL_BIN` for a null, ``(d, m)`` uint8.
        """
        counts = np.zeros((3, len(self.columns)), np.int64)
        bins = np.full((len(self.columns), -(-len(rows) // stride)), NULL_BIN, np.uint8)
        if not len(rows):
            return counts, bins
        width = max(1, _BLOCK_CELLS // bins.shape[1])
        for start in range(0, len(self._numbers), width):
            self._measure_numbers(slice(start, start + width), rows, stride, counts, bins)
        for number, expected in enumerate(self.columns):
            if expected.known is not None:
                counts[0, number], counts[1, number] = expected.measure(rows, stride, bins[number])
            elif expected.size == 0 and expected.low is None:
                column = rows.column(expected.name)
                counts[0, number] = column.null_count
                if pa.types.is_floating(column.type):
                    counts[0, number] += int(pc.sum(pc.is_nan(column)).as_py() or 0)
        return counts, bins

    def _measure_numbers(
        self,
        part: slice,
        rows: Rows,
        stride: int,
        counts: IntArray,
        bins: np.ndarray,
    ) -> None:
        """Measure some columns of numbers at once, few enough to stay in the processor's cache."""
        numbers = self._numbers[part]
        names = [self.columns[number].name for number in numbers]
        columns = [rows.numbers(name) for name in names]
        low, high, nulls = np.array([rows.extremes(name) for name in names]).T
        counts[0, numbers] = nulls
        lowest, highest = self._low[part], self._high[part]
        for one in np.flatnonzero((low < lowest) | (high > highest)):
            counts[2, numbers[one]] = np.count_nonzero(
                (columns[one] < lowest[one]) | (columns[one] > highest[one])
            )
        sampled = np.stack([column[::stride] for column in columns])
        found = np.zeros(sampled.shape, np.uint8)
        for cut in self._cuts[:, part, None]:  # for few cuts faster than a binary search
            found += sampled >= cut
        if nulls.any():
            found[np.isnan(sampled)] = NULL_BIN
        bins[numbers] = found


def expected_columns(model: Model) -> list[ExpectedColumn]:
    """What a model expects of each of its features, in order."""
    counts = model.priors["count"].to_numpy()
    prior = model.priors["prior"].to_numpy()
    shares = counts / counts.sum() if counts.sum() > 0.0 else prior
    profile: Mapping[str, Mapping[str, Any]] = model.training.get("columns") or {}
    columns = []
    for name in model.spec.features:
        seen = profile.get(name, {})
        known: dict[str, Any] = {}
        if seen.get("rows"):
            known["training_nulls"] = seen["nulls"] / seen["rows"]
        kind = model.features.field(name).type
        numeric = is_numeric_type(kind) and not pa.types.is_null(kind)
        ends = training_ends(model, column=name) if numeric else None
        if numeric:
            known |= {"low": seen.get("min"), "high": seen.get("max")}
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
            bins = {"cuts": _rounded(np.linspace(*ends, MOST_BINS + 1)[1:-1])}
        columns.append(ExpectedColumn(name, **known, **bins))
    return columns


def _category_bins(levels: Levels, shares: FloatArray) -> dict[str, Any]:
    """The most frequent categories, and all others together, as fields of `ExpectedColumn`."""
    mixture = zip(levels.names, (levels.probability @ shares).tolist(), strict=True)
    probability = {name: mass for name, mass in mixture if name is not None}
    total = sum(probability.values())
    frequent = sorted(probability, key=lambda value: -probability[value])[: MOST_BINS - 1]
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
    """Cuts at the deciles of the mixture; nothing if no class has a proper density."""
    if not curve.proper:
        return {}
    grid = Grid.of([curve], ends, _TOLERANCE)
    # A class without a value of the column has no share in its mixture.
    weights = np.where(grid.known[0], shares, 0.0)
    if not weights.any():
        return {}
    weights /= weights.sum()
    points = grid.steps
    below = np.maximum.accumulate(grid.below(0, points) @ weights)
    deciles = np.interp(_LEVELS, below, points)
    cuts = np.unique(np.floor(deciles) + 0.5) if curve.whole else _rounded(deciles)
    below = grid.below(0, cuts) @ weights
    return {"cuts": cuts, "expected": np.diff(below, prepend=0.0, append=1.0)}


def _rounded(cuts: FloatArray) -> FloatArray:
    """Distinct cuts, rounded to what distinguishes them."""
    spread = float(cuts[-1] - cuts[0])
    if not (math.isfinite(spread) and spread > 0.0):
        return cuts[:1]
    digits = _DIGITS - math.ceil(math.log10(spread))
    rounded: FloatArray = np.unique(np.round(cuts, digits)) if digits < 300 else np.unique(cuts)
    return rounded
