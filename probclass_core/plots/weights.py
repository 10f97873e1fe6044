"""A plot of block weights: what the posterior of a model depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probclass_core.errors import SpecError
from probclass_core.model.block_weights import ranked_blocks
from probclass_core.model.model import Model
from probclass_core.plots.style import blank_figure, draw_bars, few_names, plain_axes
from probclass_core.spec.model_spec import Block

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SMALLEST = 0.02
"""Blocks of less than this fraction of the largest importance are summed."""


def block_weights(model: Model, *, most: int = 12) -> Figure:
    """Plot the importance of each block, with its weight: the feature importance of the model.

    The importance of a block is the increase of the mean log loss, on rows that its parameters did
    not see, if the block is left out of the posterior and nothing else changes. Blocks of little or
    no importance are one bar, the sum of theirs.

    Args:
        model: model with fitted block weights.
        most: largest number of blocks to name, the most important ones.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if the model has no fitted block weights, or `most` is less than 1.
        NotSupportedError: if matplotlib is not installed.
    """
    if model.block_weights is None or not model.spec.fits_weights:
        raise SpecError(
            "the model has no fitted block weights; fit one with ModelSpec(…, block_weights='fit')."
        )
    if most < 1:
        raise SpecError(f"most must be at least 1, got {most!r}.")
    ranked = ranked_blocks(model.block_weights).to_pylist()
    least = _SMALLEST * ranked[0]["importance"]
    named = [each for each in ranked[:most] if each["importance"] >= least]
    others = ranked[len(named) :]
    blocks = {str(block.name): block for block in model.spec.blocks}
    names = [_block_text(blocks[each["block"]]) for each in named]
    sizes = [each["importance"] for each in named]
    notes = [f"{each['importance']:.3f}, weight {each['weight']:.2f}" for each in named]
    if others:
        rest = sum(each["importance"] for each in others)
        names.append(f"{len(others)} other {'blocks' if len(others) > 1 else 'block'}")
        sizes.append(rest)
        notes.append(f"{rest:.3f}{', summed' if len(others) > 1 else ''}")
    figure = blank_figure(8.0, 1.1 + 0.3 * len(names))
    axes = figure.subplots()
    draw_bars(axes, names, sizes, notes)
    axes.set_xlabel("increase of the log loss without the block (nats)")
    plain_axes(axes, "Importance of blocks")
    return figure


def _block_text(block: Block) -> str:
    """The name of a block, with its columns if the name does not say them."""
    columns = few_names(block.columns)
    name = str(block.name)
    return name if name.startswith(columns) else f"{name}: {columns}"
