"""The blocks that hold a column, and what they say of it with every other column marginalized."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, nearest, one_of
from probclass_core.model.model import Model
from probclass_core.spec import Block


def block_of(model: Model, column: str) -> Block:
    """The block that models a column.

    Raises:
        SpecError: the model has no such column.
    """
    for block in model.spec.blocks:
        if column in block.columns:
            return block
    known = model.features.names
    raise SpecError(
        f"the model has no column {column!r}; it has {one_of(known)}." + nearest(column, known)
    )


def log_likelihood(model: Model, values: Mapping[str, FloatArray | pa.Array]) -> FloatArray:
    """Log-likelihoods of some columns, every other column marginalized.

    Args:
        model: of ``k`` classes.
        values: by column, ``(n,)``: numbers, where NaN is null, or an array of values.

    Returns:
        log p(values | c), ``(n, k)``, in nats.

    Raises:
        SpecError: the model has no such column.
        DataError: values that the estimator refuses.
    """
    rows = len(next(iter(values.values())))
    total = np.zeros((rows, len(model.classes)))
    for block in dict.fromkeys(block_of(model, column) for column in values):
        arrays = []
        for column in block.columns:
            kind = model.features.field(column).type
            given = values.get(column)
            if given is None:
                arrays.append(pa.nulls(rows, kind))
            elif isinstance(given, np.ndarray):
                arrays.append(pa.array(given, from_pandas=True))  # NaN is null
            else:
                arrays.append(given.cast(kind))
        batch = pa.record_batch(arrays, names=list(block.columns))
        total += model.likelihoods[str(block.name)].log_likelihood(batch)
    return total
