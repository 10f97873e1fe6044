"""Why a row is unusual: the surprise of each of its columns, compared with what is usual.

The surprise of a row, −log p(x), is a sum over columns, see `model.contributions`. What is usual
for a column is the mean of its surprise under the model: the entropy of its density in the class,
without the columns that it is given. Entropies of densities differ by units, so a surprise alone
says little; the excess over the usual does not depend on them. A row of a likely value has a
negative excess, and one of a value that is e⁴ = 55 times less probable than usual one of 4 nats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.grid import Grid
from probclass_core.analysis.distributions.reading import block_marginal, training_ends
from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.marginals import Levels
from probclass_core.model.contributions import Contributions
from probclass_core.model.model import Model

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("item", pa.string()),
        ("value", pa.string()),
        ("surprise", pa.float64()),
        ("usual", pa.float64()),
        ("excess", pa.float64()),
    ]
)

UNUSUAL = 4.0
"""Excess in nats from which on a column is a reason why a row is unusual."""


def surprise_table(
    model: Model, rows: Rows, numbers: Sequence[int], cells: Sequence[Mapping[str, str | None]]
) -> pa.Table:
    """The surprise of each column of some rows, that of the largest excess first.

    Args:
        model: the model.
        rows: ``n`` rows that keep results.
        numbers: number of each row.
        cells: the value of each feature as text, by row.

    Returns:
        Columns as in `SCHEMA`, in nats; usual and excess are NaN if the model does not say. No rows
        if log p(x) is not a density.
    """
    contributions = Contributions(model)
    if not contributions.surprise_names:
        return SCHEMA.empty_table()
    best = contributions.best_class(rows)
    columns = [
        (item, surprise, _usual_surprise(model, item)[best])
        for item, surprise in contributions.surprise(rows).items()
    ]
    lines = []
    for at, number in enumerate(numbers):
        found = [
            (number, item, cells[at].get(item), surprise[at], usual[at], surprise[at] - usual[at])
            for item, surprise, usual in columns
        ]
        # An infinite excess first, an unknown one last.
        found.sort(key=lambda line: np.nan_to_num(-line[-1], nan=np.inf))
        lines += [dict(zip(SCHEMA.names, line, strict=True)) for line in found]
    return pa.Table.from_pylist(lines, SCHEMA)


def _usual_surprise(model: Model, column: str) -> FloatArray:
    """Mean of −log p(column | c) under each class, ``(k,)``; NaN if the model does not say."""
    blocks = [one.block for one in model.compiled_blocks if one.in_density]
    block = next((one for one in blocks if column in one.columns), None)
    own = None if block is None else block_marginal(model, block, column)
    if own is None or (isinstance(own, Levels) and own.of != "value"):
        return np.full(len(model.classes), np.nan)
    if isinstance(own, Levels):
        p = own.probability
        logs = np.log(p, out=np.zeros_like(p), where=p > 0.0)
        within = np.zeros(len(p))
        for density in model.compiled_bin_densities:
            if density.feature == column and own.cuts is not None:
                within[: len(own.cuts) + 1] = density.mean_surprise(own.cuts)
        return np.asarray((p * (within[:, None] - logs)).sum(axis=0))
    grid = Grid.of(own, training_ends(model, column=column))
    logs = np.where(grid.masses > 0.0, grid.log_density, 0.0)
    return np.where(grid.known, -(grid.masses * logs).sum(axis=0), np.nan)
