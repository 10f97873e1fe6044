"""A plot of block weights: what the posterior of a model depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probclass_core.errors import SpecError
from probclass_core.model.block_weights import ranked_blocks
from probclass_core.model.model import Model
from probclass_core.plots.style import INK, blank_figure, plain_axes, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW_HEIGHT = 0.26
"""Height of a bar with its margin, in inches."""


def block_weights(model: Model, *, most: int = 30) -> Figure:
    """Plot the importance of each block, with its weight: the feature importance of the model.

    The importance of a block is the increase of the mean log loss, on rows that its parameters did
    not see, if the block is left out of the posterior and nothing else changes.

    Args:
        model: model with fitted block weights.
        most: largest number of blocks to plot, the most important ones.

    Returns:
        A matplotlib figure.

    Raises:
        SpecError: if the model has no fitted block weights.
        NotSupportedError: if matplotlib is not installed.
    """
    if model.block_weights is None or not model.spec.fits_weights:
        raise SpecError(
            "the model has no fitted block weights; fit one with ModelSpec(…, block_weights='fit')."
        )
    blocks = ranked_blocks(model.block_weights)
    shown = blocks.slice(0, most).to_pylist()
    figure = blank_figure(7.0, 1.1 + _ROW_HEIGHT * len(shown))
    axes = figure.subplots()
    importance = [block["importance"] for block in shown]
    bars = axes.barh(range(len(shown)), importance, color=INK, height=0.62)
    axes.bar_label(bars, [f"weight {block['weight']:.2f}" for block in shown], padding=4)
    axes.set_yticks(range(len(shown)), [short(block["block"]) for block in shown])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.25 * max(importance, default=0.0) or 1.0)
    axes.set_xlabel("increase of the log loss without the block (nats)")
    hidden = blocks.num_rows - len(shown)
    plain_axes(axes, "Importance of blocks" + (f", {hidden} more not shown" if hidden else ""))
    return figure
