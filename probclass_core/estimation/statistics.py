"""Sufficient statistics of a whole model: the monoid that training is made of.

``fit`` is ``finalize(merge(map(summarize, fragments)))``. A `Statistics` value holds what
``summarize`` saw of some rows: counts by class, and one Arrow table per block. It is raw: nothing
in it is smoothed, floored or normalized, so any split of the rows merges to the same whole.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    FloatArray,
    check_columns,
    class_labels,
    class_type,
    select,
    weight_vector,
)
from probclass_core.arrow.bundle import Bundle, from_ipc, to_ipc
from probclass_core.arrow.types import value_type
from probclass_core.errors import DataError, StoreError
from probclass_core.estimation.contract import LikelihoodEstimator
from probclass_core.plugins.manager import find_estimator
from probclass_core.spec import ModelSpec, category_text

MAX_CLASSES = 10_000
"""More distinct labels than this are taken for a key or a measurement, not for classes."""

_ENCODED = "arrow-schema:"
"""Before a type that Arrow could not read back from its name."""

_MERGE_EVERY = 64
"""Batches after which partial statistics are merged, so that memory does not grow with rows."""

_MERGE_ROWS = 500_000
"""Rows of partial statistics after which they are merged sooner: bins and cells have many."""


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of some rows.

    Attributes:
        spec: the model they are for.
        features: the feature columns with their canonical types, in block order.
        classes: one row per class seen, ascending: class, rows, count (Σ w).
        blocks: block name to the estimator's statistics; a block without rows is absent.
        rows: rows read.
        null_labels: rows left out because their label is null.
    """

    spec: ModelSpec
    features: pa.Schema
    classes: pa.Table
    blocks: Mapping[str, pa.Table]
    rows: int
    null_labels: int

    def __reduce__(self) -> tuple[Any, ...]:
        """To another process they go as Arrow IPC."""
        tables = {name: to_ipc(table) for name, table in self.blocks.items()}
        parts = (self.features, to_ipc(self.classes), tables, self.rows, self.null_labels)
        return _received, (self.spec, *parts)

    def to_bundle(self) -> Bundle:
        """The statistics as Arrow tables and plain values."""
        return Bundle(
            kind="statistics",
            content={
                "spec": self.spec.to_dict(),
                "features": type_names(self.features),
                "rows": self.rows,
                "null_labels": self.null_labels,
            },
            tables={"classes": self.classes, **self.blocks},
            provenance={},
        )

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Statistics:
        """The inverse of `to_bundle`.

        Raises:
            StoreError: the bundle holds something else.
        """
        if bundle.kind != "statistics":
            raise StoreError(f"the bundle holds a {bundle.kind}, not statistics.")
        content, tables = bundle.content, dict(bundle.tables)
        return cls(
            spec=ModelSpec.from_dict(content["spec"]),
            features=schema_of(content["features"]),
            classes=tables.pop("classes"),
            blocks=tables,
            rows=content["rows"],
            null_labels=content["null_labels"],
        )


def _received(
    spec: ModelSpec,
    features: pa.Schema,
    classes: bytes,
    blocks: Mapping[str, bytes],
    rows: int,
    null_labels: int,
) -> Statistics:
    tables = {name: from_ipc(sent) for name, sent in blocks.items()}
    return Statistics(spec, features, from_ipc(classes), tables, rows, null_labels)


def summarize_batches(
    spec: ModelSpec,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Statistics:
    """Statistics of a stream of batches, in bounded memory (see `Traits.state_grows`).

    Args:
        spec: the model.
        schema: of the batches; it must have the spec's training columns.
        batches: read once, in order.
        on_rows: told after each batch how many rows it had; what it raises ends the work.

    Raises:
        DataError: a column is missing or holds what it must not.
        SpecError: an estimator refuses a column's type or an option.
        PluginError: an estimator is unknown.
    """
    check_columns(schema, spec.training_columns)
    features = canonical_schema(schema, spec.features)
    estimators = bind(spec, features)
    class_parts: list[pa.Table] = []
    block_parts: dict[str, list[pa.Table]] = {str(block.name): [] for block in spec.blocks}
    kind = class_type(value_type(schema.field(spec.label).type))
    rows = null_labels = 0
    for batch in batches:
        read = batch.num_rows
        rows += read
        labels, weights, kept = _labeled(spec, batch)
        null_labels += labels.null_count
        if kept is not None:
            mask = pa.array(kept)
            batch, labels = batch.filter(mask), labels.filter(mask)
            weights = None if weights is None else weights[kept]
        if batch.num_rows:
            class_parts.append(_class_counts(labels, weights))
            if len(class_parts) >= _MERGE_EVERY:
                class_parts = [_merged_classes(class_parts, kind)]
            for block in spec.blocks:
                parts, estimator = block_parts[str(block.name)], estimators[str(block.name)]
                parts.append(estimator.summarize(select(batch, block.columns), labels, weights))
                if _merge_now(parts) and not _state_grows(block.estimator):
                    parts[:] = [estimator.merge(parts)]
        on_rows(read)
    classes = _merged_classes(class_parts, kind)
    blocks = {name: estimators[name].merge(parts) for name, parts in block_parts.items() if parts}
    return Statistics(spec, features, classes, blocks, rows, null_labels)


def merge(parts: Sequence[Statistics]) -> Statistics:
    """Statistics of the union of the parts' rows: associative, commutative, up to rounding.

    Args:
        parts: at least one; all of one spec.

    Raises:
        DataError: nothing to merge, other specs, or a column of other type.
    """
    parts = list(parts)
    if not parts:
        raise DataError("there are no statistics to merge.")
    spec = parts[0].spec
    for part in parts:
        if part.spec != spec:
            raise DataError(
                "statistics of different model specs do not merge: "
                f"digest {spec.digest[:12]} and {part.spec.digest[:12]}."
            )
    features = parts[0].features
    for part in parts[1:]:
        if part.features != features:
            features = _common_schema(features, part.features)
    held = [part for part in parts if part.rows]
    if len(held) == 1 and held[0].features == features:
        return held[0]
    kinds = {part.classes.schema.field("class").type for part in parts if part.classes.num_rows}
    if len(kinds) > 1:
        listed = " and ".join(sorted(str(kind) for kind in kinds))
        raise DataError(f"label {spec.label!r} is {listed} in different parts; cast it to one.")
    kind = kinds.pop() if kinds else parts[0].classes.schema.field("class").type
    classes = _merged_classes([part.classes for part in parts if part.classes.num_rows], kind)
    blocks = {}
    for name, estimator in bind(spec, features).items():
        tables = [part.blocks[name] for part in parts if name in part.blocks]
        if tables:
            blocks[name] = estimator.merge(tables)
    return Statistics(
        spec=spec,
        features=features,
        classes=classes,
        blocks=blocks,
        rows=sum(part.rows for part in parts),
        null_labels=sum(part.null_labels for part in parts),
    )


def bind(spec: ModelSpec, features: pa.Schema) -> dict[str, LikelihoodEstimator]:
    """The spec's estimators, one per block, told their columns and options.

    Raises:
        PluginError: an estimator is unknown.
        SpecError: it refuses a column's type or an option.
    """
    return {
        str(block.name): find_estimator(block.estimator).factory(
            pa.schema([features.field(column) for column in block.columns]), block.options
        )
        for block in spec.blocks
    }


def canonical_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Columns with the type they count as: float64, int64, bool, string, or their own.

    Lists, and maps, are lists and maps of these.
    """
    return pa.schema([pa.field(name, _canonical(schema.field(name).type)) for name in columns])


def type_names(schema: pa.Schema) -> list[list[str]]:
    """A canonical schema as plain values: pairs of column and type."""
    return [[field.name, _type_name(field.type)] for field in schema]


def schema_of(names: Sequence[Sequence[str]]) -> pa.Schema:
    """The inverse of `type_names`."""
    return pa.schema([(name, _type_named(kind)) for name, kind in names])


def _type_name(kind: pa.DataType) -> str:
    """Arrow's name of a type, or its encoded schema where Arrow could not read the name back."""
    try:
        if pa.type_for_alias(str(kind)) == kind:
            return str(kind)
    except ValueError:
        pass  # nested types and times of a zone have no alias
    schema: bytes = pa.schema([("", kind)]).serialize().to_pybytes()
    return _ENCODED + base64.b64encode(schema).decode()


def _type_named(name: str) -> pa.DataType:
    if not name.startswith(_ENCODED):
        return pa.type_for_alias(name)
    schema = base64.b64decode(name.removeprefix(_ENCODED))
    return pa.ipc.read_schema(pa.py_buffer(schema)).field(0).type


def _canonical(kind: pa.DataType) -> pa.DataType:
    kind = value_type(kind)
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_canonical(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_canonical(kind.key_type), _canonical(kind.item_type))
    return kind


def _common_schema(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The types both parts can be read as: a number beside a float is a float."""
    fields = []
    for name in one.names:
        left, right = one.field(name).type, other.field(name).type
        kind = _common_type(left, right)
        if kind is None:
            raise DataError(
                f"column {name!r} is {left} in one part and {right} in another; cast it to one."
            )
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Of two canonical types; none where there is none."""
    kinds = {left, right} - {pa.null()}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else pa.null()
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(left) and pa.types.is_list(right):
        values = _common_type(left.value_type, right.value_type)
        return None if values is None else pa.list_(values)
    if pa.types.is_map(left) and pa.types.is_map(right) and left.key_type == right.key_type:
        items = _common_type(left.item_type, right.item_type)
        return None if items is None else pa.map_(left.key_type, items)
    return None


def _labeled(
    spec: ModelSpec, batch: pa.RecordBatch
) -> tuple[pa.DictionaryArray, FloatArray | None, np.ndarray | None]:
    """Labels, weights, and which rows count (none: all of them)."""
    labels = class_labels(batch, spec.label)
    weights = None if spec.weight is None else weight_vector(batch, spec.weight)
    kept = None
    if labels.null_count:
        kept = labels.is_valid().to_numpy(zero_copy_only=False)
    if weights is not None and not weights.all():
        kept = (weights > 0.0) if kept is None else kept & (weights > 0.0)
    return labels, weights, kept


def _class_counts(labels: pa.DictionaryArray, weights: FloatArray | None) -> pa.Table:
    codes = labels.indices.to_numpy(zero_copy_only=False)
    size = len(labels.dictionary)
    rows = np.bincount(codes, minlength=size)
    counts = rows if weights is None else np.bincount(codes, weights, minlength=size)
    present = np.flatnonzero(rows)
    return _few(
        pa.table(
            {
                "class": labels.dictionary.take(pa.array(present)),
                "rows": rows[present],
                "count": counts[present].astype(np.float64),
            }
        )
    )


def _merged_classes(parts: Sequence[pa.Table], kind: pa.DataType) -> pa.Table:
    schema = pa.schema([("class", kind), ("rows", pa.int64()), ("count", pa.float64())])
    if not parts:
        return schema.empty_table()
    grouped = pa.concat_tables(parts).group_by("class", use_threads=False)
    merged = grouped.aggregate([("rows", "sum"), ("count", "sum")])
    return _few(merged.rename_columns(schema.names).sort_by("class").cast(schema))


def _few(classes: pa.Table) -> pa.Table:
    """Refuse a key or a measurement for a label before an estimator makes room for its values."""
    if classes.num_rows > MAX_CLASSES:
        some = ", ".join(repr(category_text(value.as_py())) for value in classes["class"][:3])
        raise DataError(
            f"the label has more than {MAX_CLASSES:,} distinct values ({some}, …); "
            "a class is one of a few: cut it into classes first."
        )
    return classes


def _merge_now(parts: Sequence[pa.Table]) -> bool:
    """Whether there are many parts, or they are large beside the first, the last merge's result."""
    recent = sum(part.num_rows for part in parts[1:])
    return len(parts) >= _MERGE_EVERY or recent >= max(_MERGE_ROWS, parts[0].num_rows)


def _state_grows(estimator: str) -> bool:
    return find_estimator(estimator).traits.state_grows
