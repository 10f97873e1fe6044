"""Densities of numbers within their bins: what makes log p(x) of binned numbers a log density.

Blocks of bins say p(bin | c). A number in it has the density g(x | bin), the same for all classes::

    log p(x, c) = log P(c) + Σ_blocks log p(x_block | c) + Σ_columns log g(x | bin)

so g changes log p(x), but no posterior. It is a histogram of the training's sample, with about as
many values in each of its 2 n^(1/3) cells (Rice's rule; Terrell and Scott, "Oversmoothed
nonparametric density estimates", 1985), which end where bins end. A cell without values counts as
one with one: so do the two tails, from the least and the greatest value of the sample to infinity,
where g falls by the factor e with each standard deviation. A null has no g: it is a value of mass.

The table has one row per cell: feature, low (lower end, −∞ for the first), log_density (at the
lower end; at the upper end in the first cell) and decay (per unit of the feature; 0 in all but the
tails).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import StoreError
from probclass_core.estimation.formulas import (
    Bins,
    Case,
    Column,
    Distance,
    Expression,
    Lookup,
    as_expression,
)
from probclass_core.estimation.kinds.sample import COUNT
from probclass_core.estimation.tidy import BOUND, FINITE, NOT_NEGATIVE, by_feature, check_column

_STEEPEST = 1e300
"""Largest decay, so that tails of columns whose values differ by less stay finite; and, where more
would be an error, the largest fall."""


@dataclass(frozen=True)
class BinDensity:
    """g of one column.

    Attributes:
        feature: the column.
        low: lower ends of ``m`` cells, ascending, the first −∞: ``(m,)``.
        log_density: log g at the end of a cell that is next to the others, ``(m,)``.
        decay: by how much log g falls per unit of distance from there, ``(m,)``.
    """

    feature: str
    low: FloatArray
    log_density: FloatArray
    decay: FloatArray

    @classmethod
    def of(
        cls, feature: str, values: FloatArray, counts: FloatArray, cuts: FloatArray
    ) -> BinDensity:
        """Estimate g from a sample of a column.

        Args:
            feature: the column.
            values: ``n`` numbers, NaN for null.
            counts: how many rows each of them is.
            cuts: cuts between the bins, ascending.
        """
        known = ~np.isnan(values)
        values, counts = values[known], counts[known]
        ends = np.union1d(_ends(values, counts), cuts)
        cells = len(ends) + 1
        mass = np.bincount(np.searchsorted(ends, values, side="right"), counts, cells)
        mass = np.where(mass > 0.0, mass, 1.0)
        bins = np.searchsorted(cuts, np.append(-np.inf, ends), side="right")
        share = mass / np.bincount(bins, mass)[bins]
        decay = np.zeros(cells)
        decay[[0, -1]] = min(1.0 / _scale(values, counts), _STEEPEST)
        with np.errstate(over="ignore"):
            width = np.diff(ends)
            log_width = np.where(
                np.isfinite(width), np.log(width), np.log(np.diff(ends / 2.0)) + np.log(2.0)
            )
        tail = -np.log(decay[:1])
        log_density = np.log(share) - np.concatenate([tail, log_width, tail])
        return cls(feature, np.append(-np.inf, ends), log_density, decay)

    def log(self, rows: Rows) -> FloatArray:
        """log g of each row, ``(n,)``; 0 for null."""
        return rows.kept(("within bins", self.feature), lambda: self._log(rows))

    def _log(self, rows: Rows) -> FloatArray:
        last = len(self.ends)
        cell = rows.bins(self.feature, self.ends, last + 1)
        log: FloatArray = np.append(self.log_density, 0.0).take(cell)
        tail = np.flatnonzero((cell == 0) | (cell == last))
        if len(tail):
            cell = cell[tail]
            distance = np.abs(rows.numbers(self.feature)[tail] - self.low[np.maximum(cell, 1)])
            with np.errstate(over="ignore"):
                log[tail] -= self.decay[cell] * distance
        return log

    def mean_surprise(self, cuts: FloatArray) -> FloatArray:
        """Mean of −log g in each bin, ``(len(cuts) + 1,)``.

        Args:
            cuts: cuts between the bins, ascending; cells end there.
        """
        width = np.append(np.append(0.0, np.diff(self.low[1:])), 0.0)
        is_tail = self.decay > 0.0
        log_width = -np.log(np.where(is_tail, self.decay, 1.0))
        log_width[~is_tail] = np.log(width[~is_tail])
        share = np.exp(self.log_density + log_width)
        # An exponential density falls by 1 nat from its peak to its mean.
        bins = np.searchsorted(cuts, self.low, side="right")
        means: FloatArray = np.bincount(bins, share * (is_tail - self.log_density)).astype(
            np.float64
        )
        return means

    @cached_property
    def ends(self) -> list[float]:
        """The ends between the cells, ascending."""
        ends: list[float] = self.low[1:].tolist()
        return ends

    @property
    def terms(self) -> Iterator[Expression]:
        """log g as formulas, whose sum it is; see `formulas`."""
        x, ends = Column(self.feature), self.ends
        table = np.append(self.log_density, 0.0)[None]
        low, high = (
            Distance(x, np.array(ends[at]), np.array(self.decay[at]), _STEEPEST) for at in (0, -1)
        )
        yield Lookup([Bins(self.feature, ends)], table)
        yield Case(
            [
                (x.is_null, as_expression(0.0)),
                (x < ends[0], low),
                (x >= ends[-1], 0.0 - high),
            ],
            as_expression(0.0),
        )


def estimate_bin_densities(
    sample: pa.Table, cuts: Mapping[str, Sequence[float]], row_weight: float
) -> pa.Table:
    """The table of g of binned columns.

    Args:
        sample: sample of the training, see `kinds.sample`.
        cuts: cuts of the bins by column.
        row_weight: average weight of a row, see `Estimator`.
    """
    counts = sample[COUNT].to_numpy() / row_weight
    densities = [
        BinDensity.of(
            name,
            sample[name].cast(pa.float64(), safe=False).to_numpy(),
            counts,
            np.array(of_column, np.float64),
        )
        for name, of_column in cuts.items()
    ]
    names = [one.feature for one in densities for _ in one.low]
    arrays = {
        name: np.concatenate([getattr(one, name) for one in densities] or [np.zeros(0)])
        for name in ("low", "log_density", "decay")
    }
    return pa.table({"feature": pa.array(names, pa.string()), **arrays})


def bin_densities(table: pa.Table) -> list[BinDensity]:
    """The inverse of `estimate_bin_densities`."""
    features = pc.unique(table["feature"]).to_pylist()
    return [
        BinDensity(name, *(rows[column].to_numpy() for column in ("low", "log_density", "decay")))
        for name, rows in by_feature(table, features)
    ]


def check_bin_densities(table: pa.Table, cuts: Mapping[str, Sequence[float]]) -> None:
    """Refuse a table that `estimate_bin_densities` cannot have made.

    Raises:
        StoreError: naming the column and what is wrong.
    """
    numbers = {"low": BOUND, "log_density": FINITE, "decay": NOT_NEGATIVE}
    for name, allowed in numbers.items():
        check_column(table, name, pa.float64())
        allowed.check(name, table[name])
    check_column(table, "feature", pa.string())
    if list(dict.fromkeys(table["feature"].to_pylist())) != list(cuts):
        raise StoreError("the densities are not those of the columns that have bins.")
    for one in bin_densities(table):
        inner = one.decay[1:-1]
        if not (one.low[0] == -np.inf and (np.diff(one.low[1:]) > 0.0).all() and len(one.low) > 1):
            raise StoreError(f"the cells of {one.feature!r} are not in order.")
        if inner.any() or not (one.decay[[0, -1]] > 0.0).all():
            raise StoreError(f"the density of {one.feature!r} does not fall in its tails alone.")
        if not set(cuts[one.feature]) <= set(one.low.tolist()):
            raise StoreError(f"the cells of {one.feature!r} do not end where its bins do.")


def _ends(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Ends of cells with about the same number of values, least and greatest value included."""
    if not len(values):
        return np.zeros(1)
    order = np.argsort(values)
    values = values[order]
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf))
    distinct = values[starts]
    largest = np.finfo(np.float64).max
    above = largest if distinct[-1] == largest else np.nextafter(distinct[-1], np.inf)
    # Rows up to each distinct value, and what the cells divide evenly.
    sums = np.append(0.0, np.cumsum(counts[order]))[np.append(starts, len(values))]
    cells = max(int(2.0 * np.cbrt(sums[-1])), 1)
    wanted = sums[-1] * np.arange(1, cells) / cells
    places = np.unique(np.searchsorted(sums[1:], wanted))
    places = places[places < len(distinct) - 1]
    between = distinct[places] / 2.0 + distinct[places + 1] / 2.0
    return np.unique([distinct[0], *between, above])


def _scale(values: FloatArray, counts: FloatArray) -> float:
    """Standard deviation; the largest absolute value if all are the same, 1 if that is 0."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    if not len(values):
        return largest
    relative = values / largest
    mean = np.average(relative, weights=counts)
    deviation = float(np.sqrt(np.average((relative - mean) ** 2, weights=counts)))
    return min(deviation, 1.0) * largest or largest
