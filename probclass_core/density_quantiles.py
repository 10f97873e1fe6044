"""How usual a row is: quantiles of log p(x) over a table, kept with the model as one small table.

A density by itself says little, for its unit is that of the columns; beside the densities of known
rows it says how rare a row is. The table has one row for each thousandth: quantile, log_density.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from probclass_core.arrays import FloatArray
from probclass_core.errors import SpecError

QUANTILES = np.arange(1, 1000) / 1000
"""The quantiles that are kept: each thousandth between 0 and 1."""


def quantile_table(log_density: FloatArray, weights: FloatArray | None = None) -> pa.Table:
    """Quantiles of log p(x), each the log density of some row: the least whose share is reached.

    An observed value and no mean of two, so that −∞ is one among others; less than a share q of the
    rows lies below the q-quantile.

    Args:
        log_density: log p(x) in nats, ``(n,)`` with n > 0.
        weights: ``(n,)``, not all 0; a weight of 2 counts as two rows.
    """
    order = np.argsort(log_density, kind="stable")
    counts = np.ones(len(order)) if weights is None else weights[order]
    reached = np.cumsum(counts)
    # A share that is reached but for a rounding is reached.
    wanted = QUANTILES * reached[-1] * (1.0 - 1e-12)
    values = log_density[order[np.searchsorted(reached, wanted)]]
    return pa.table({"quantile": QUANTILES, "log_density": values})


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
