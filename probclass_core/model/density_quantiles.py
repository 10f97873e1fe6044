"""Quantiles of log p(x) over known rows, and the rarity of a row, which they give.

The unit of a density is that of the columns, so one value alone says little. The rarity of a row is
the share of the known rows that are at least as improbable as it is: a row of rarity 0.001 is among
the rarest thousandth, whatever the table. If the known rows are not those that the model was
estimated from, new rows that are like them have a rarity of at most q in a share q of all cases: it
is a conformal p-value (Bates, Candès, Lei, Romano and Sesia, "Testing for outliers with conformal
p-values", Annals of Statistics 51, 2023).

The table has the columns quantile and log_density: one row for each thousandth, and below the first
for each tenth of it down to a millionth; but none is below the share of one row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.histogram import Histogram, histogram

QUANTILES = np.concatenate(
    [*(np.arange(1, 10) / scale for scale in (10**6, 10**5, 10**4)), np.arange(1, 1000) / 1000]
)
"""The quantiles that may be stored, ascending."""

_ROUNDING = 1e-9
"""Log densities that differ by less, or by this part of them, are equal: another engine, or another
batch, rounds the same sum otherwise."""

_MAX_CELLS = 2**20
"""Quantiles are exact up to this many distinct densities."""


class LogDensities:
    """Collects the log densities of any number of rows in bounded memory.

    Up to a million distinct values are stored exactly; beyond that, values are rounded down on the
    grid of a power of two, the finest one with at most a million occupied cells (see `histogram`).
    The result depends on the rows only, not on how they were batched.
    """

    def __init__(self) -> None:
        self._histogram = Histogram(np.empty(0), 0.0, np.empty((1, 0)))
        self._impossible_weight = 0.0
        self._pending: list[tuple[FloatArray, FloatArray]] = []

    def add(self, log_density: FloatArray, weights: FloatArray) -> None:
        """Add rows.

        Args:
            log_density: log p(x) in nats, ``(n,)``, finite or −∞.
            weights: ``(n,)``; a weight of 2 counts as two rows, a weight of 0 as no row.
        """
        finite = np.isfinite(log_density) & (weights > 0.0)
        self._impossible_weight += float(weights[np.isneginf(log_density)].sum())
        self._pending.append((log_density[finite], weights[finite]))
        if sum(len(values) for values, _ in self._pending) > _MAX_CELLS:
            self._merge()

    def table(self) -> pa.Table:
        """The quantiles of log p(x).

        The q-quantile is the smallest log density at or below which there is a share q of the rows.
        Quantiles are never averages of two densities, so −∞ is an ordinary value.

        Raises:
            DataError: if no rows were added.
        """
        self._merge()
        values = np.concatenate([[-np.inf], self._histogram.values])
        weights = np.concatenate([[self._impossible_weight], self._histogram.counts[0]])
        cumulative = np.cumsum(weights)
        if not cumulative[-1] > 0.0:
            raise DataError("there are no rows to take the quantiles of the density from.")
        # Below the share of one row, rows say nothing.
        quantiles = QUANTILES[min(1.0 / cumulative[-1], QUANTILES[-1]) <= QUANTILES]
        # A share that is reached except for rounding counts as reached.
        targets = quantiles * cumulative[-1] * (1.0 - 1e-12)
        log_density = values[np.searchsorted(cumulative, targets)]
        return pa.table({"quantile": quantiles, "log_density": log_density})

    def _merge(self) -> None:
        batches = [(self._histogram.values, self._histogram.counts[0]), *self._pending]
        values, weights = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        group = np.zeros(len(values), dtype=np.intp)
        self._histogram = histogram(values, self._histogram.width, group, weights, 1, _MAX_CELLS)
        self._pending = []


def limits(table: pa.Table) -> FloatArray:
    """The quantiles of log p(x), less the rounding within which log densities are equal."""
    quantiles: FloatArray = table["log_density"].to_numpy()
    return quantiles - _ROUNDING * np.maximum(np.abs(quantiles), 1.0)


def rarity(table: pa.Table, log_density: FloatArray) -> FloatArray:
    """The share of the known rows that are at least as improbable, in (0, 1].

    It is rounded up to the next stored quantile, so that it never makes a row too rare.

    Args:
        table: quantiles of log p(x).
        log_density: log p(x) of ``n`` rows in nats, ``(n,)``; NaN if it is not known.

    Returns:
        ``(n,)``; NaN where log p(x) is NaN.
    """
    shares = np.append(table["quantile"].to_numpy(), 1.0)
    place = np.searchsorted(limits(table), log_density, side="right")
    return np.where(np.isnan(log_density), np.nan, shares[place])


def log_density_quantile(table: pa.Table, quantile: float) -> float:
    """Log p(x) at a quantile, at the nearest stored quantile below.

    Raises:
        SpecError: if the quantile is below or above those of the table.
    """
    quantiles = table["quantile"].to_numpy()
    position = int(np.searchsorted(quantiles, quantile + 1e-9, side="right")) - 1
    if position < 0 or quantile > quantiles[-1] + 1e-9:
        raise SpecError(
            f"min_rarity must be between {quantiles[0]:g} and {quantiles[-1]:g}, got {quantile:g}: "
            "the rows of which the density is known are too few to say more; "
            "with_density_quantiles takes more."
        )
    return float(limits(table)[position])
