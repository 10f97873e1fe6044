"""How usual a row is: quantiles of log p(x) over a table, kept with the model as one small table.

A density by itself says little, for its unit is that of the columns; beside the densities of known
rows it says how rare a row is. The table has one row for each thousandth: quantile, log_density.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.histogram import Histogram, histogram

QUANTILES = np.arange(1, 1000) / 1000
"""The quantiles that are kept: each thousandth between 0 and 1."""

_CELLS = 2**20
"""Up to so many distinct densities the quantiles are exact."""


class LogDensities:
    """The log densities of rows without end, in the memory of some million of them.

    While there are few enough they are kept as they are; beyond, each is rounded down on the grid
    of a power of two, the finest that a million occupied cells allow (see `histogram`). What comes
    of it depends on the rows alone, not on how they were batched.
    """

    def __init__(self) -> None:
        self._kept = Histogram(np.empty(0), 0.0, np.empty((1, 0)))
        self._impossible = 0.0
        self._waiting: list[tuple[FloatArray, FloatArray]] = []

    def add(self, log_density: FloatArray, weights: FloatArray) -> None:
        """Take in rows.

        Args:
            log_density: log p(x) in nats, ``(n,)``, finite or −∞.
            weights: ``(n,)``; a weight of 2 counts as two rows, one of 0 as none.
        """
        finite = np.isfinite(log_density) & (weights > 0.0)
        self._impossible += float(weights[np.isneginf(log_density)].sum())
        self._waiting.append((log_density[finite], weights[finite]))
        if sum(len(values) for values, _ in self._waiting) > _CELLS:
            self._merge()

    def table(self) -> pa.Table:
        """Quantiles of log p(x), each the least log density of a row whose share is reached.

        It is no mean of two, so that −∞ is one among others; less than a share q of the rows lies
        below the q-quantile.

        Raises:
            DataError: there were no rows.
        """
        self._merge()
        values = np.concatenate([[-np.inf], self._kept.values])
        reached = np.cumsum(np.concatenate([[self._impossible], self._kept.counts[0]]))
        if not reached[-1] > 0.0:
            raise DataError("there are no rows to take the quantiles of the density from.")
        # A share that is reached but for a rounding is reached.
        wanted = QUANTILES * reached[-1] * (1.0 - 1e-12)
        at = values[np.searchsorted(reached, wanted)]
        return pa.table({"quantile": QUANTILES, "log_density": at})

    def _merge(self) -> None:
        parts = [(self._kept.values, self._kept.counts[0]), *self._waiting]
        values, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
        group = np.zeros(len(values), dtype=np.intp)
        self._kept = histogram(values, self._kept.width, group, weights, 1, _CELLS)
        self._waiting = []


def log_density_quantile(table: pa.Table, quantile: float) -> float:
    """The quantile of log p(x), at the thousandth that is not above it.

    Raises:
        SpecError: it is below or above what the table has.
    """
    kept = table["quantile"].to_numpy()
    place = int(np.searchsorted(kept, quantile + 1e-9, side="right")) - 1
    if place < 0 or quantile > kept[-1] + 1e-9:
        raise SpecError(
            f"min_density_quantile must be between {kept[0]:g} and {kept[-1]:g}, got {quantile:g}."
        )
    return float(table["log_density"][place].as_py())
