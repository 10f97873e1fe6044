"""The distribution of each column of a model, as its likelihoods describe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import check_known
from probclass_core.estimation.marginals import Curve, Levels, Marginal, marginal
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import Block


def blocks_of(model: Model, column: str) -> list[Block]:
    """The blocks that read a column: those of few columns first, those that are only given it last.

    Raises:
        SpecError: if the model does not read the column.
    """
    check_known([column], model.features.names, "the model reads no column", "it reads")
    blocks = [block for block in model.spec.blocks if column in block.inputs]
    return sorted(
        blocks, key=lambda block: (column in block.given, len(block.columns), bool(block.given))
    )


def block_marginal(model: Model, block: Block, column: str) -> Marginal | None:
    """The distribution of a column in one of its blocks; None if it has none."""
    features = pa.schema([model.features.field(name) for name in block.inputs])
    return marginal(model.likelihoods[str(block.name)], features, column)


def read_column(model: Model, column: str) -> tuple[Block, Marginal] | None:
    """The distribution of a column and its block: of several, the block that says most about it.

    It is the first in which the column has a curve, or more than one level besides null.

    Raises:
        SpecError: if the model does not read the column.
    """
    found = [(block, block_marginal(model, block, column)) for block in blocks_of(model, column)]
    known = [(block, own) for block, own in found if own is not None]
    chosen = (
        (block, own)
        for block, own in known
        if not isinstance(own, Levels) or len(own.without_missing().names) > 1
    )
    return next(chosen, known[0] if known else None)


def null_share(model: Model, column: str) -> FloatArray | None:
    """P(null | class), ``(k,)``, of the first block in which null is a value; else None."""
    for block in blocks_of(model, column):
        own = block_marginal(model, block, column)
        if isinstance(own, Levels) and own.missing is not None:
            return own.missing
    return None


def density_units(model: Model) -> dict[str, str]:
    """The columns of log p(x), and what each is for the density: numbers, counts or values.

    Densities of numbers have the unit of the column, probabilities of values have none: log p(x) of
    two models compares if both say the same here.

    Raises:
        NotSupportedError: if the model has no density.
    """
    model.check_normalized()
    units: dict[str, str] = {}
    for block in model.spec.blocks:
        if block.name not in model.spec.density_blocks:
            continue
        for column in block.columns:
            own = block_marginal(model, block, column)
            if isinstance(own, Levels) and column not in model.cuts:
                units[column] = "values"
            else:
                units[column] = "counts" if isinstance(own, Curve) and own.whole else "numbers"
    return units


def training_ends(*models: Model, column: str) -> tuple[float, float] | None:
    """The least and the largest number that the training rows of models had; None if unknown."""
    ends = []
    for model in models:
        profile: Mapping[str, Mapping[str, Any]] = model.training.get("columns") or {}
        seen = profile.get(column, {})
        ends += [float(end) for end in (seen.get("min"), seen.get("max")) if end is not None]
    return (min(ends), max(ends)) if ends else None
