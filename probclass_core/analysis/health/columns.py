"""What a model expects of each feature column: the mixture over the classes, cut into few bins.

The mixture of a column is Σ_c π_c p(x_j | c), where π_c is the share of the class in the training
rows. The bins of numbers are cut at its deciles, those of categories are its most frequent values,
so that they follow from the model alone and the counts of two partitions can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.drift.distributions import (
    Bins,
    MeanVariance,
    Pmf,
    distributions,
)
from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    column_extremes,
    extremes,
    is_numeric_type,
    numeric_values,
    short_codes,
)
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

_HALVINGS = 24
"""Halvings of an interval in the search for a quantile: to a part of 10⁻⁶, and cuts are rounded."""


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

    def measure(self, column: pa.Array, stride: int, bins: np.ndarray) -> tuple[int, int]:
        """Count the nulls and the unknown categories of a column, and write its bins.

        Args:
            column: column of categories.
            stride: distance between sampled rows.
            bins: where to write the bin of each of the ``m`` sampled rows, ``(m,)``.
        """
        codes, values = short_codes(column, self.name)
        of_value = np.array(
            [*(self._bin_of.get(value, MISSING) for value in values), NULL_BIN], np.int64
        )
        nulls = unseen = 0
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

    def measure(self, batch: pa.RecordBatch, stride: int) -> tuple[IntArray, np.ndarray]:
        """Count what is unusual, and find the bins of every ``stride``-th row.

        Args:
            batch: ``n`` rows with the columns in order.
            stride: distance between sampled rows.

        Returns:
            Numbers of nulls (NaN included), of categories that no training row had, and of values
            outside the range of the training rows, ``(3, d)``; and the bin of each of the ``m``
            sampled rows, `NULL_BIN` for a null, ``(d, m)`` uint8.
        """
        counts = np.zeros((3, len(self.columns)), np.int64)
        rows = batch.num_rows
        bins = np.full((len(self.columns), -(-rows // stride)), NULL_BIN, np.uint8)
        if not rows:
            return counts, bins
        width = max(1, _BLOCK_CELLS // bins.shape[1])
        for start in range(0, len(self._numbers), width):
            self._measure_numbers(slice(start, start + width), batch, stride, counts, bins)
        for number, (column, expected) in enumerate(zip(batch.columns, self.columns, strict=True)):
            if expected.known is not None:
                counts[0, number], counts[1, number] = expected.measure(
                    column, stride, bins[number]
                )
            elif expected.size == 0 and expected.low is None:
                counts[0, number] = column.null_count
                if pa.types.is_floating(column.type):
                    counts[0, number] += int(pc.sum(pc.is_nan(column)).as_py() or 0)
        return counts, bins

    def _measure_numbers(
        self,
        part: slice,
        batch: pa.RecordBatch,
        stride: int,
        counts: IntArray,
        bins: np.ndarray,
    ) -> None:
        """Measure some columns of numbers at once, few enough to stay in the processor's cache."""
        numbers = self._numbers[part]
        columns = [_numbers(batch.column(number), self.columns[number].name) for number in numbers]
        # The model has found them while it read the columns.
        ends = [
            column_extremes(batch.column(number), partial(extremes, column))
            for number, column in zip(numbers, columns, strict=True)
        ]
        low, high, nulls = np.array(ends).T
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


def _numbers(column: pa.Array, name: str) -> np.ndarray:
    """A column as an array of numbers with NaN for null."""
    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if plain and not column.null_count:
        values: np.ndarray = column.to_numpy(zero_copy_only=False)
        return values
    return numeric_values(column, name)


def expected_columns(model: Model) -> list[ExpectedColumn]:
    """What a model expects of each of its features, in order."""
    of_columns, _ = distributions(model)
    counts = model.priors["count"].to_numpy()
    prior = model.priors["prior"].to_numpy()
    shares = counts / counts.sum() if counts.sum() > 0.0 else prior
    profile: Mapping[str, Mapping[str, Any]] = model.training.get("columns") or {}
    mixtures = {
        name: distribution
        for name in model.spec.features
        if isinstance(distribution := of_columns.get((name, None), ("", None))[1], MeanVariance)
    }
    cut = _cut_mixtures(mixtures, shares) if mixtures else {}
    columns = []
    for name in model.spec.features:
        seen = profile.get(name, {})
        known: dict[str, Any] = {}
        if seen.get("rows"):
            known["training_nulls"] = seen["nulls"] / seen["rows"]
        kind = model.features.field(name).type
        numeric = is_numeric_type(kind) and not pa.types.is_null(kind)
        if numeric:
            known |= {"low": seen.get("min"), "high": seen.get("max")}
        block, distribution = of_columns.get((name, None), ("", None))
        if isinstance(distribution, MeanVariance):
            known |= cut.get(name, {})
        elif distribution is not None:
            known |= _bins(model, block, name, distribution, shares, numeric=numeric)
        elif numeric and known["low"] is not None and known["high"] is not None:
            known["cuts"] = _rounded(
                np.linspace(float(known["low"]), float(known["high"]), MOST_BINS + 1)[1:-1]
            )
        columns.append(ExpectedColumn(name, **known))
    return columns


def _bins(
    model: Model,
    block: str,
    name: str,
    distribution: Pmf | Bins,
    shares: FloatArray,
    *,
    numeric: bool,
) -> dict[str, Any]:
    """Bins of a column and their probabilities, as fields of `ExpectedColumn`."""
    if isinstance(distribution, Pmf):
        if distribution.values == ("present", "absent"):
            present, absent = (distribution.probability @ shares).tolist()
            cuts = np.array([math.ulp(0.0)])
            return {"cuts": cuts, "expected": np.array([absent, present])} if numeric else {}
        return _category_bins(model, block, name, distribution, shares)
    return _joined_bins(distribution, shares) if numeric else {}


def _category_bins(
    model: Model, block: str, name: str, pmf: Pmf, shares: FloatArray
) -> dict[str, Any]:
    table = model.parameters[block]
    column = "value" if "value" in table.column_names else name
    if column not in table.column_names:
        return {}
    probability = dict(zip(pmf.values, (pmf.probability @ shares).tolist(), strict=True))
    if table[column].null_count:  # nulls are a value of the model, but not of these bins
        probability.pop("missing", None)
    total = sum(probability.values())
    frequent = sorted(probability, key=lambda value: -probability[value])[: MOST_BINS - 1]
    values = tuple(sorted(frequent))
    masses = [probability[value] / total for value in values] if total > 0.0 else []
    expected = np.array([*masses, max(0.0, 1.0 - sum(masses))]) if masses else None
    return {"values": values, "known": tuple(probability), "expected": expected}


def _joined_bins(bins: Bins, shares: FloatArray) -> dict[str, Any]:
    """The bins of a model joined to fewer, each with about the same probability."""
    cuts, probability = np.array(bins.cuts), bins.probability @ shares
    if len(cuts) and np.isinf(cuts[-1]):  # the last bin is that of nulls
        cuts, probability = cuts[:-1], probability[:-1]
    if not len(cuts):
        return {}
    probability = probability / probability.sum()
    below = np.cumsum(probability)[:-1]
    chosen = np.unique([int(np.argmin(np.abs(below - level))) for level in _LEVELS])
    expected = np.add.reduceat(probability, [0, *(chosen + 1)])
    return {"cuts": cuts[chosen], "expected": expected}


@dataclass(frozen=True)
class _Mixtures:
    """Mixtures of normal distributions, one for each of ``d`` columns; arrays are ``(d, k)``."""

    mean: FloatArray
    deviation: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, columns: Sequence[MeanVariance], shares: FloatArray) -> _Mixtures:
        mean = np.array([column.mean for column in columns]).reshape(-1, len(shares))
        variance = np.array([column.variance for column in columns]).reshape(-1, len(shares))
        # A class without a value of the column has no share in its mixture.
        known = np.isfinite(mean) & np.isfinite(variance)
        weights = np.where(known, shares, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        return cls(
            np.where(known, mean, 0.0),
            np.sqrt(np.where(known, np.maximum(variance, 0.0), 0.0)),
            np.divide(weights, total, out=weights, where=total > 0.0),
        )

    def column(self, number: int) -> _Mixtures:
        """The mixture of one column."""
        row = slice(number, number + 1)
        return _Mixtures(self.mean[row], self.deviation[row], self.weights[row])

    def below(self, points: FloatArray) -> FloatArray:
        """The distribution function of each column at its points, ``(d, p)``."""
        from scipy.special import ndtr

        with np.errstate(divide="ignore", invalid="ignore"):
            scores = (points[:, :, None] - self.mean[:, None]) / self.deviation[:, None]
        scores[np.isnan(scores)] = 0.0
        below: FloatArray = np.einsum("ijk,ik->ij", ndtr(scores), self.weights)
        return below

    def deciles(self) -> FloatArray:
        """The points at which the distribution functions are 0.1 to 0.9, ``(d, 9)``."""
        possible = self.weights > 0.0
        low = np.where(possible, self.mean - 10.0 * self.deviation, np.inf).min(axis=1)
        high = np.where(possible, self.mean + 10.0 * self.deviation, -np.inf).max(axis=1)
        empty = ~possible.any(axis=1)
        low[empty] = high[empty] = 0.0
        low, high = (np.repeat(bound[:, None], len(_LEVELS), axis=1) for bound in (low, high))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            above = self.below(middle) >= _LEVELS
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return high


def _cut_mixtures(
    columns: Mapping[str, MeanVariance], shares: FloatArray
) -> dict[str, dict[str, Any]]:
    """Cuts at the deciles of mixtures; of other families at those of normal distributions."""
    from scipy.special import pdtr

    mixtures = _Mixtures.of(list(columns.values()), shares)
    found: dict[str, dict[str, Any]] = {}
    deciles = mixtures.deciles()
    for number, (name, column) in enumerate(columns.items()):
        weights, expected = mixtures.weights[number], None
        if not weights.any():
            continue
        if column.kind == "poisson":
            cuts = np.unique(np.floor(np.maximum(deciles[number], 0.0)) + 0.5)
            below = pdtr(np.floor(cuts)[:, None], mixtures.mean[number]) @ weights
        else:
            cuts = _rounded(deciles[number])
            below = mixtures.column(number).below(cuts[None])[0]
        if column.kind in ("normal", "poisson"):
            expected = np.diff(below, prepend=0.0, append=1.0)
        found[name] = {"cuts": cuts, "expected": expected}
    return found


def _rounded(cuts: FloatArray) -> FloatArray:
    """Distinct cuts, rounded to what distinguishes them."""
    spread = float(cuts[-1] - cuts[0])
    if not (math.isfinite(spread) and spread > 0.0):
        return cuts[:1]
    digits = _DIGITS - math.ceil(math.log10(spread))
    rounded: FloatArray = np.unique(np.round(cuts, digits)) if digits < 300 else np.unique(cuts)
    return rounded
