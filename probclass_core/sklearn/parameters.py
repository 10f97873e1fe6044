"""The parameters of a `ProbClassifier` as a `ModelSpec`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pyarrow as pa

from probclass_core.errors import SpecError, nearest, one_of, shown
from probclass_core.estimation.statistics import bind_block
from probclass_core.plugins.manager import registry
from probclass_core.spec.model_spec import Block, Effort, ModelSpec
from probclass_core.structure.columns import columns_of
from probclass_core.structure.parts import parts_by_types

Blocks = str | ModelSpec | Mapping[str, str | Sequence[str]] | Sequence[Block | Mapping[str, Any]]
"""Forms of the parameter ``estimator``; see `ProbClassifier`."""

AUTO = "auto"

EFFORTS = get_args(Effort)
"""Values of ``estimator`` for blocks that `ModelSpec.auto` derives from the rows."""


def model_spec(
    estimator: Blocks, schema: pa.Schema, label: str, given: Mapping[str, Any]
) -> ModelSpec:
    """The `ModelSpec` of a classifier's parameters, without a weight column.

    Args:
        estimator: see `ProbClassifier`.
        schema: schema of the features.
        label: name of the label, unless `estimator` is a `ModelSpec`.
        given: the other parameters of the classifier: options that override those of the blocks,
            and values that override those of a `ModelSpec` unless they are None.

    Raises:
        SpecError: if the parameters are invalid or do not fit the schema.
    """
    spec = _spec(estimator, schema, label)
    blocks = tuple(_with_options(spec.blocks, given["options"]))
    names = ("prior", "block_weights", "on_scarce", "max_classes")
    changed = {name: given[name] for name in names if given[name] is not None}
    return dataclasses.replace(spec, weight=None, blocks=blocks, **changed)


def _spec(estimator: Blocks, schema: pa.Schema, label: str) -> ModelSpec:
    if isinstance(estimator, ModelSpec):
        return estimator
    if isinstance(estimator, str):
        return _named_spec(estimator, schema, label)
    if isinstance(estimator, (Mapping, Sequence)) and not isinstance(estimator, str):
        return ModelSpec(label=label, blocks=estimator)
    raise SpecError(
        "estimator must be 'default', 'fast', 'best' or 'auto', an estimator's name, columns by "
        f"estimator, a list of blocks or a ModelSpec, got {shown(estimator)}."
    )


def _named_spec(name: str, schema: pa.Schema, label: str) -> ModelSpec:
    if name == AUTO:
        return ModelSpec(label=label, blocks=_blocks_by_types(schema))
    if name in EFFORTS:
        return ModelSpec.auto(schema.append(pa.field(label, pa.string())), label)
    if name not in registry().estimators and (hint := nearest(name, (AUTO, *EFFORTS))):
        raise SpecError(f"estimator {name!r} is unknown.{hint}")
    return ModelSpec(label=label, blocks=[Block(name, schema.names)])


def _blocks_by_types(schema: pa.Schema) -> list[Block]:
    """A block of all numbers, one of all categories, and one for each column of terms.

    Raises:
        SpecError: if a column is of another type.
    """
    columns = parts_by_types(columns_of(schema, ()))
    for reason, names in columns.left_out.items():
        raise SpecError(
            f"column {names[0]!r} has no default estimator: {reason}; drop it, or list the blocks."
        )
    by_kind = {
        kind: [column.name for column in columns.used if column.kind == kind]
        for kind in ("number", "category", "terms")
    }
    return [
        *([Block("gaussian_diagonal", by_kind["number"])] if by_kind["number"] else []),
        *([Block("categorical", by_kind["category"])] if by_kind["category"] else []),
        *(Block("multinomial", name) for name in by_kind["terms"]),
    ]


def _with_options(blocks: Sequence[Block], options: Mapping[str, Any] | None) -> list[Block]:
    """The blocks, their options overridden."""
    if options is not None and not isinstance(options, Mapping):
        raise SpecError(f"options must be a table, got {options!r}.")
    by_block = dict(options or {})
    names = [str(block.name) for block in blocks]
    for name in names:
        if not isinstance(by_block.get(name, {}), Mapping):
            raise SpecError(f"options of block {name!r} must be a table, got {by_block[name]!r}.")
    if len(names) == 1:
        direct = {key: value for key, value in by_block.items() if key not in names}
        by_block = {names[0]: {**direct, **by_block.get(names[0], {})}}
    for name in by_block:
        if name not in names:
            alike = [str(block.name) for block in blocks if block.estimator == name]
            hint = f" Blocks of this estimator: {one_of(alike)}." if alike else ""
            raise SpecError(
                f"options name the block {name!r}; the model has {one_of(names)}."
                + (hint or nearest(str(name), names))
            )
    return [
        Block.from_dict({**block.to_dict(), **by_block.get(str(block.name), {})})
        for block in blocks
    ]


def models_floats(block: Block) -> bool:
    """Whether the block's estimator models numbers with fractions; otherwise it models categories.

    Raises:
        PluginError: if the estimator is unknown.
    """
    # Floats can be categories, namely whole numbers; decimals are always numbers.
    return _models(block, pa.decimal128(3, 1))


def models_counts(estimator: Blocks) -> bool:
    """Whether the parameter names an estimator of terms, which can model a sparse matrix."""
    if not _is_name(estimator):
        return False
    try:
        block = Block(str(estimator), ["x"], vocabulary=["a"])
    except SpecError:
        return False
    return _models(block, pa.map_(pa.string(), pa.float64()))


def only_categories(estimator: Blocks) -> bool:
    """Whether all columns must be categories; scikit-learn asks this before it has columns."""
    return _is_name(estimator) and not models_floats(Block(str(estimator), ["x"]))


def _is_name(estimator: Blocks) -> bool:
    return isinstance(estimator, str) and estimator in registry().estimators


def _models(block: Block, kind: pa.DataType) -> bool:
    try:
        bind_block(block, pa.schema([(column, kind) for column in block.inputs]))
    except SpecError:
        return False
    return True
