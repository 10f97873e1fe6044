"""The blocks of a model that read a column, and what they say of it alone.

Plots ask a model for log-likelihoods only, so every estimator can be plotted, also those of
plugins: the other columns are null, and therefore marginalized.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, nearest, one_of
from probclass_core.estimation.contract import FactorizedLikelihood
from probclass_core.estimation.families.conditional.joint import ConditionalLikelihood
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import Block


def blocks_of(model: Model, column: str) -> list[Block]:
    """The blocks that read a column: those of few columns first, those that are only given it last.

    Raises:
        SpecError: if the model does not read the column.
    """
    known = model.features.names
    if column not in known:
        raise SpecError(
            f"the model reads no column {column!r}; it reads {one_of(known)}."
            + nearest(column, known)
        )
    blocks = [block for block in model.spec.blocks if column in block.inputs]
    return sorted(
        blocks,
        key=lambda block: (column in block.given, bool(block.given), len(block.columns)),
    )


def marginal_log_likelihood(
    model: Model,
    values: Mapping[str, FloatArray | pa.Array],
    blocks: Mapping[str, Block],
) -> FloatArray:
    """Log-likelihoods of some columns, every other column marginalized.

    Args:
        model: model of ``k`` classes.
        values: values by column, ``(n,)``: numbers, where NaN means null, or an Arrow array.
        blocks: the block that models each of these columns.

    Returns:
        log p(values | c), ``(n, k)``, in nats.

    Raises:
        DataError: if the estimator refuses the values.
    """
    rows = len(next(iter(values.values())))
    total = np.zeros((rows, len(model.classes)))
    for block in dict.fromkeys(blocks.values()):
        own = {column for column, its in blocks.items() if its == block}
        arrays = []
        for column in block.inputs:
            kind = model.features.field(column).type
            array = values[column] if column in own else pa.nulls(rows, kind)
            if isinstance(array, np.ndarray):
                arrays.append(pa.array(array, from_pandas=True))  # NaN is null
            else:
                arrays.append(array.cast(kind))
        batch = pa.record_batch(arrays, names=list(block.inputs))
        likelihood = model.likelihoods[str(block.name)]
        if isinstance(likelihood, ConditionalLikelihood) and not own <= set(block.columns):
            likelihood = likelihood.joint  # of the columns and of those that they are given
        if isinstance(likelihood, FactorizedLikelihood):
            for column, factor in zip(block.columns, likelihood.log_factors(batch), strict=True):
                if column in own:
                    total += factor
        else:
            total += likelihood.log_likelihood(batch)
    return total
