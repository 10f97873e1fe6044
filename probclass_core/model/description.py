"""A model as text: its classes, blocks and notes, for ``print`` and notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from probclass_core.display import Part, TablePart, counted
from probclass_core.model.block_weights import ranked_blocks
from probclass_core.spec.model_spec import Block, ModelSpec, category_text


def describe(
    model_id: str,
    spec: ModelSpec,
    priors: pa.Table,
    training: Mapping[str, Any],
    postfit: Mapping[str, pa.Table],
) -> list[Part]:
    """The content of a model's report.

    Args:
        model_id: content id.
        spec: specification of the model.
        priors: table of the prior.
        training: provenance of the model.
        postfit: tables that the model may have besides prior and parameters, by name.
    """
    names = [category_text(value) for value in priors["class"].to_pylist()]
    rows = f", fitted on {counted(training['rows'], 'row')}" if "rows" in training else ""
    title = (
        f"Model{spec.of_label}: "
        f"{'' if spec.label is None else counted(len(names), 'class', 'classes') + ', '}"
        f"{counted(len(spec.pool), 'block')} of {counted(len(spec.features), 'column')}{rows}; "
        f"id {model_id[:12]}"
    )
    counts = priors["count"].to_pylist()  # not whole with a half-life
    classes = {
        "class": names,
        "prior": priors["prior"].to_pylist(),
        "rows" if spec.weight is None and all(map(float.is_integer, counts)) else "weight": [
            int(count) if count.is_integer() else count for count in counts
        ],
    }
    return [
        title,
        *_log_loss(training),
        *([f"Half-life: {half_life_text(aging)}."] if (aging := training.get("half_life")) else []),
        *([] if spec.label is None else [TablePart(classes)]),
        _blocks(spec, postfit.get("block_weights")),
        [*spec.notes, *training.get("notes", ()), *_notes(postfit)],
    ]


def _log_loss(training: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about the log loss, if fitting the block weights has measured it."""
    fitted = training.get("block_weights") or {}
    if {"rows", "log_loss", "prior_log_loss"} <= fitted.keys():
        groups = fitted.get("groups")
        by = f", each predicted by blocks that did not see its group of {groups}" if groups else ""
        yield (
            f"Log loss {fitted['log_loss']:.4f} on the {fitted['rows']:,} training rows of the "
            f"block weights{by}; prior alone {fitted['prior_log_loss']:.4f}."
        )


def half_life_text(values: Mapping[str, Any]) -> str:
    """The half-life of a training, and what else was tried."""
    partitions = values["partitions"]
    text = "none" if partitions is None else counted(partitions, "partition")
    if "log_loss" in values:
        tried = ", ".join(f"{name} {loss:.4f}" for name, loss in values["log_loss"].items())
        text += (
            f"; log loss of the {values['predicted']} latest groups of partitions, each predicted "
            f"from those before it, by half-life: {tried}"
        )
    return text


def _blocks(spec: ModelSpec, block_weights: pa.Table | None) -> TablePart:
    """The blocks, those that matter most first if their weights are known."""
    blocks = {str(block.name): block for block in spec.pool}
    weighed: dict[str, list[Any]] = {}
    if block_weights is not None:
        ranked = ranked_blocks(block_weights)
        blocks = {name: blocks[name] for name in ranked["block"].to_pylist()}
        weighed["weight"] = ranked["weight"].to_pylist()
        if spec.fits_weights:
            weighed["importance"] = ranked["importance"].to_pylist()
    described = {
        "block": [*blocks],
        "estimator": [block.estimator for block in blocks.values()],
        "columns": [_columns(block) for block in blocks.values()],
    }
    return TablePart({**described, **weighed})


def _columns(block: Block) -> str:
    columns = ", ".join(block.columns)
    return f"{columns} given {', '.join(block.given)}" if block.given else columns


def _notes(postfit: Mapping[str, pa.Table]) -> Iterator[str]:
    if "calibration" in postfit:
        yield "The posterior is calibrated."
    if "density_quantiles" in postfit:
        yield "It says how rare a row is."
