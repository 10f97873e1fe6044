"""Sufficient statistics of a whole model, merged from any number of parts.

``fit`` is ``finalize(merge(map(summarize, units)))``. A `Statistics` value is a summary of some
rows: counts by class, and one Arrow table per block. It is raw: nothing in it is smoothed, floored
or normalized, so the parts of any split of the rows merge to the same statistics. Estimators with
the attribute ``passes`` may ask for another summary of the same rows under other options, see
`refine`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pac

from probclass_core.arguments import checks_arguments
from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.arrow.bundle import from_ipc, to_ipc
from probclass_core.arrow.parts import common_time_zones, feature_schema, select, with_time_zones
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import common_type
from probclass_core.display import Part, Report, TablePart, counted
from probclass_core.errors import (
    DataError,
    PluginError,
    ProbClassError,
    SpecError,
    StoreError,
    expect,
    one_of,
    shown,
)
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.kinds.kind import Kind
from probclass_core.estimation.kinds.sample import Sample, rows_that_may_remain
from probclass_core.estimation.kinds.summary import (
    ClassCounts,
    Profile,
    check_classes,
    profile_values,
)
from probclass_core.estimation.tidy import scaled
from probclass_core.spec.model_spec import Block, ModelSpec

LARGEST_ROW_WEIGHT = 100.0
"""Largest average weight that counts as a number of rows; see `Statistics.row_weight`."""

STATISTICS_HINT = "compute it by summarize(source, spec)"
"""How to fix a call that passes something else instead of statistics."""

PROFILE = "_columns"
"""Name of the table `Statistics.columns`; no block can have it, because of the underscore."""

_MOST_TABLES = 64
"""Tables of consecutive batches that are merged at once, the previous result included."""

_MOST_BYTES = 1 << 23
"""Memory of such tables that are merged at once, because bins and cells take much."""

_MOST_STATISTICS = 257
"""Statistics of units that are merged at once, the previous result included."""

_MOST_SAMPLED = 1 << 19
"""Rows of their samples, which take most of the memory if the units are large."""

Merged = TypeVar("Merged")


@dataclass(frozen=True, repr=False)
class Statistics(Report):
    """Sufficient statistics of some rows.

    Attributes:
        spec: the model that they are for.
        features: the feature columns with their canonical types, in block order.
        tables: all tables by name: ``classes``, those of the blocks, the profile, and ``sample``.
        rows: number of rows read.
        null_labels: number of rows left out because their label is null.
    """

    spec: ModelSpec
    features: pa.Schema
    tables: Mapping[str, pa.Table]
    rows: int
    null_labels: int

    @property
    def classes(self) -> pa.Table:
        """One row per class, ascending: class, rows, count (Σ w)."""
        return self.tables["classes"]

    @cached_property
    def blocks(self) -> Mapping[str, pa.Table]:
        """Block name to the estimator's table; a block without rows is absent."""
        names = (str(block.name) for block in self.spec.blocks)
        return {name: self.tables[name] for name in names if name in self.tables}

    @property
    def columns(self) -> pa.Table:
        """What these rows have in each column, see `kinds.summary`; not part of the content id."""
        return self.tables[PROFILE]

    @property
    def sample(self) -> pa.Table | None:
        """Sample of the labeled rows, see `kinds.sample`, if the spec `takes_sample`.

        Its columns are the spec's `sampled_columns`.
        """
        return self.tables.get("sample")

    @property
    def labeled_rows(self) -> int:
        """Number of rows with a label and a weight above 0."""
        return int(self.classes["rows"].to_numpy().sum())

    @property
    def row_weight(self) -> float:
        """Average weight of a row if weights are too large to be numbers of rows, else 1.

        A weight of 2 counts as two rows. But an average weight above `LARGEST_ROW_WEIGHT` is a
        scale, as in a survey whose weights sum to the population, and no evidence for fine models.
        """
        rows, count = self.labeled_rows, float(self.classes["count"].to_numpy().sum())
        return count / rows if count > LARGEST_ROW_WEIGHT * rows else 1.0

    @property
    def column_values(self) -> dict[str, dict[str, Any]]:
        """`columns` as JSON values: rows, nulls, min and max by feature."""
        return profile_values(self.columns, self.features)

    def _report(self) -> list[Part]:
        """The classes and the blocks."""
        blocks = self.spec.blocks
        classes = self.classes.to_pydict()
        if self.spec.weight is None:
            del classes["count"]
        title = (
            f"Statistics of {counted(self.rows, 'row')}  for a model{self.spec.of_label}: "
            f"{counted(self.classes.num_rows, 'class', 'classes')}, "
            f"{counted(len(blocks), 'block')} of {counted(len(self.spec.features), 'column')}; "
            f"{counted(self.null_labels, 'row')} without a label"
        )
        return [
            title,
            TablePart(classes),
            TablePart(
                {
                    "block": [block.name for block in blocks],
                    "estimator": [block.estimator for block in blocks],
                    "columns": [", ".join(block.inputs) for block in blocks],
                }
            ),
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tables as Arrow IPC, on the way to another process."""
        tables = {name: to_ipc(table) for name, table in self.tables.items()}
        return _unpickle, (self.spec, self.features, tables, self.rows, self.null_labels)

    def of_spec(self, spec: ModelSpec) -> Statistics:
        """The statistics of some of the blocks.

        Args:
            spec: these blocks.
        """
        features = pa.schema(map(self.features.field, spec.features), self.features.metadata)
        names = {"classes", PROFILE, *(block.name for block in spec.blocks)}
        names |= {"sample"} if spec.takes_sample else set()
        tables = {name: table for name, table in self.tables.items() if name in names}
        left = pac.is_in(self.columns["column"], pa.array(features.names, pa.string()))
        tables[PROFILE] = self.columns.filter(left)
        return dataclasses.replace(self, spec=spec, features=features, tables=tables)

    def check(self, where: str = "the statistics") -> None:
        """Check statistics that were read from a store; checksums do not say that they are right.

        Args:
            where: what they are called in messages, in the plural.

        Raises:
            StoreError: naming the table, the column and what is wrong.
        """
        with _invalid(where):
            self._check_tables()

    def _check_tables(self) -> None:
        spec, classes = self.spec, self.classes
        labels = classes.schema.field("class").type
        of_label = {} if spec.label is None else {spec.label: labels}
        known = of_label | dict(zip(self.features.names, self.features.types, strict=True))
        sampled = []
        if self.sample is not None:
            fields = map(self.sample.schema.field, spec.sampled_columns)
            sampled = [(field.name, known.get(field.name, field.type)) for field in fields]
        kinds = _kinds(spec, self.features, labels, pa.schema(sampled))
        names = kinds.keys() if classes.num_rows else {"classes", PROFILE}
        if self.tables.keys() != names:
            raise StoreError(f"the tables are {one_of(self.tables)} instead of {one_of(names)}.")
        if not 0 <= self.null_labels <= self.rows - self.labeled_rows:
            raise StoreError(f"{self.labeled_rows} labeled rows of {self.rows}.")
        if spec.weight is None and self.labeled_rows != self.rows - self.null_labels:
            raise StoreError("rows without a weight are neither labeled nor without a label.")
        for name, table in self.tables.items():
            kind = kinds[name]
            try:
                check = kind.check_statistics if isinstance(kind, Estimator) else kind.check
                check(table, classes)
            except StoreError as error:
                raise StoreError(f"table {name!r}: {error}") from error


@contextmanager
def _invalid(where: str) -> Iterator[None]:
    """Raise a StoreError for any error, since damaged values can cause any."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, ProbClassError) else repr(error)
        raise StoreError(f"{where} are not valid: {reason.rstrip('.')}.") from error


def _unpickle(
    spec: ModelSpec,
    features: pa.Schema,
    tables: Mapping[str, bytes],
    rows: int,
    null_labels: int,
) -> Statistics:
    read = {name: from_ipc(table) for name, table in tables.items()}
    return Statistics(spec, features, read, rows, null_labels)


class Accumulator(Generic[Merged]):
    """Collects parts in order and merges them whenever enough have come, to bound memory.

    The parts alone decide which of them are merged together. Floating-point sums depend on that
    grouping, and so do the ids of models: changing it changes the last digits of a fit.

    Args:
        merge: merges parts into one.
        is_due: whether to merge these parts now; the first is the previous result, if any.

    Attributes:
        parts: parts that are not merged yet, the previous result first.
    """

    def __init__(
        self,
        merge: Callable[[Sequence[Merged]], Merged],
        is_due: Callable[[Sequence[Merged]], bool],
    ) -> None:
        self.parts: list[Merged] = []
        self._merge = merge
        self._is_due = is_due

    def add(self, part: Merged) -> None:
        self.parts.append(part)
        if self._is_due(self.parts):
            self.parts = [self.result()]

    def result(self) -> Merged:
        """All parts merged."""
        return self.parts[0] if len(self.parts) == 1 else self._merge(self.parts)


def summarize_batches(
    spec: ModelSpec,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    on_rows: Callable[[int], None] = lambda rows: None,
    most_rows: int | None = None,
) -> Statistics:
    """Statistics of a stream of batches, in bounded memory (see `Estimator.state_grows`).

    Args:
        spec: the model.
        schema: schema of the batches: label, weight if any, and the columns of the features.
        batches: read once, in order.
        on_rows: called after each batch with its number of rows; an exception stops the summary.
        most_rows: largest number of rows that the training can have, or None if unknown; see
            `check_classes`.

    Raises:
        DataError: if a column is missing or contains an invalid value, or there are too many
            classes.
        SpecError: if an estimator refuses a column's type, an option or given columns, or a column
            does not have the part that a feature is.
        PluginError: if an estimator is unknown.
    """
    arrays.check_columns(schema, spec.label_and_weight)
    sampled = feature_schema(schema, spec.sampled_columns if spec.takes_sample else ())
    _check_groups(spec, sampled)
    features = feature_schema(schema, spec.features)
    kinds = _kinds(spec, features, arrays.type_of_classes(schema, spec.label), sampled)
    growing = {block.name for block in spec.blocks if block.state_grows}
    parts = {
        name: Accumulator(kind.merge, _never if name in growing else _is_many_or_large)
        for name, kind in kinds.items()
    }
    rows = null_labels = 0
    for batch in batches:
        batch_rows = batch.num_rows
        rows += batch_rows
        labels = arrays.class_labels(batch, spec.label)
        null_labels += labels.null_count
        weights = None if spec.weight is None else arrays.weight_vector(batch, spec.weight)
        mask = _training_rows(labels, weights)
        if mask is not None:
            selected = pa.array(mask)
            batch, labels = batch.filter(selected), labels.filter(selected)
            weights = None if weights is None else weights[mask]
        if batch.num_rows:
            view = Rows(select(batch, sampled.names or (*spec.label_columns, *spec.features)))
            for name, kind in kinds.items():
                parts[name].add(kind.summarize(view, labels, weights))
                if name == "classes":  # the first, before any work on the features
                    check_classes(parts[name].parts[-1], spec, most_rows)
        on_rows(batch_rows)
    if not parts["classes"].parts:
        for name in ("classes", PROFILE):
            parts[name].add(kinds[name].merge([]))
    tables = {name: each.result() for name, each in parts.items() if each.parts}
    return Statistics(spec, features, tables, rows, null_labels)


def _kinds(
    spec: ModelSpec, features: pa.Schema, label_type: pa.DataType, sampled: pa.Schema
) -> dict[str, Kind | Estimator]:
    """What makes each table of `Statistics`, the classes first.

    Args:
        spec: the model.
        features: the feature columns and their types.
        label_type: type of the labels.
        sampled: the columns of the sample.
    """
    return {
        "classes": ClassCounts(spec, label_type),
        **bind(spec, features),
        **({"sample": Sample(sampled)} if spec.takes_sample else {}),
        PROFILE: Profile(spec.features),
    }


def scale(statistics: Statistics, factor: float) -> Statistics:
    """Statistics of the same rows with their weights multiplied by a factor above 0.

    Raises:
        NotSupportedError: if an estimator cannot do it; see `Estimator.scale`.
    """
    if factor == 1.0:
        return statistics
    kinds = _kinds(statistics.spec, statistics.features, pa.null(), pa.schema([]))
    tables = {
        name: kind.scale(table, factor)
        if isinstance(kind := kinds[name], Estimator)
        else scaled(table, kind.sums, factor)
        for name, table in statistics.tables.items()
    }
    return dataclasses.replace(statistics, tables=tables)


def accumulator() -> Accumulator[Statistics]:
    """Collects statistics of parts and merges them in bounded memory."""

    def is_due(pending: Sequence[Statistics]) -> bool:
        sampled = sum(0 if part.sample is None else len(part.sample) for part in pending)
        return len(pending) >= _MOST_STATISTICS or sampled >= _MOST_SAMPLED

    return Accumulator(merge, is_due)


def merge(parts: Sequence[Statistics]) -> Statistics:
    """Statistics of the rows of all parts: associative and commutative up to rounding.

    Args:
        parts: at least one, all of one spec.

    Raises:
        DataError: if there are no parts, their specs differ, or a column has different types.
    """
    parts = list(parts)
    if not parts:
        raise DataError("there are no statistics to merge; give at least one.")
    for part in parts:
        expect(part, Statistics, STATISTICS_HINT)
    spec = parts[0].spec
    for part in parts:
        if part.spec != spec:
            raise DataError(
                "statistics of different model specs do not merge: "
                f"digest {spec.digest[:12]} and {part.spec.digest[:12]}."
            )
    features = parts[0].features
    for part in parts[1:]:
        if part.features is not features and part.features != features:
            features = _common_schema(features, part.features)
    distinct = {id(part.features): part.features for part in parts}.values()
    features = with_time_zones(features, common_time_zones(distinct))
    with_rows = [part for part in parts if part.rows]
    if len(with_rows) == 1 and with_rows[0].features == features:
        return with_rows[0]
    labels = {part.classes.schema.field("class").type for part in parts if part.classes.num_rows}
    if len(labels) > 1:
        listed = " and ".join(sorted(str(kind) for kind in labels))
        raise DataError(f"label {spec.label!r} is {listed} in different parts; cast it to one.")
    label_type = labels.pop() if labels else parts[0].classes.schema.field("class").type
    merged = {}
    for name, kind in _kinds(spec, features, label_type, pa.schema([])).items():
        if own := [part.tables[name] for part in parts if name in part.tables]:
            merged[name] = own[0] if len(own) == 1 else kind.merge(own)
    rows, null_labels = (sum(getattr(part, n) for part in parts) for n in ("rows", "null_labels"))
    return Statistics(spec, features, merged, rows, null_labels)


def merge_groups(groups: Sequence[Accumulator[Statistics]]) -> list[Statistics]:
    """The merged statistics of each group, with the rows of the sample of all groups.

    A group's own sample would have as many rows alone, of which most are of no use.
    """
    parts = [part for group in groups for part in group.parts]
    samples = [part.tables["sample"] for part in parts if "sample" in part.tables]
    if len(groups) > 1 and samples:
        remaining = iter(rows_that_may_remain(samples))
        for group in groups:
            group.parts = [
                dataclasses.replace(part, tables={**part.tables, "sample": next(remaining)})
                if "sample" in part.tables
                else part
                for part in group.parts
            ]
    return [group.result() for group in groups]


@checks_arguments
def refine(statistics: Statistics, *, passes: int = 1) -> ModelSpec | None:
    """The spec of another pass over the same rows, or None if these statistics are enough.

    Most estimators need one pass. Those with more `Estimator.passes` may ask for them: each pass
    is a summary under the spec that this function returns, and `finalize` takes the last one's
    statistics.

    Args:
        statistics: statistics of all rows.
        passes: number of passes made so far; an estimator that allows no more is not asked.

    Raises:
        PluginError: if an estimator is unknown, or asks for something other than options.
        SpecError: if an estimator refuses the options that it asked for.
    """
    expect(statistics, Statistics, STATISTICS_HINT)
    due = {block.name for block in statistics.spec.blocks if passes < block.estimator_class.passes}
    if not due:
        return None
    classes = statistics.classes["class"].combine_chunks()
    estimators = bind(statistics.spec, statistics.features, statistics.row_weight)
    blocks, refined = [], False
    for block in statistics.spec.blocks:
        name = str(block.name)
        if name in statistics.blocks and name in due:
            options = estimators[name].refine(statistics.blocks[name], classes)
            if not isinstance(options, Mapping | None):
                raise PluginError(
                    f"{block.estimator} asks for another pass by {shown(options)}; return its "
                    "options by name, or None."
                )
            if options is not None:
                refined = True
                block = Block(
                    block.estimator,
                    block.columns,
                    name,
                    given=block.given,
                    **{**block.options, **options},
                )
        blocks.append(block)
    if not refined:
        return None
    spec = dataclasses.replace(statistics.spec, blocks=tuple(blocks))
    bind(spec, statistics.features)  # refuses options that the estimator does not know
    return spec


def bind(spec: ModelSpec, features: pa.Schema, row_weight: float = 1.0) -> dict[str, Estimator]:
    """The spec's estimators by block name, constructed for these columns and their options.

    Args:
        spec: the model.
        features: the feature columns and their types.
        row_weight: see `Statistics.row_weight`.

    Raises:
        PluginError: if an estimator is unknown.
        SpecError: if an estimator refuses a column's type, an option or given columns.
    """
    estimators: dict[str, Estimator] = {}
    refused: list[str] = []
    for block in spec.blocks:
        try:
            estimators[str(block.name)] = bind_block(block, features)
        except SpecError as error:
            refused.append(str(error))
    if refused:
        more = f" The same in {len(refused) - 5} more blocks." if len(refused) > 5 else ""
        raise SpecError(" ".join(refused[:5]) + more)
    for estimator in estimators.values():
        estimator.on_scarce, estimator.row_weight = spec.on_scarce, row_weight
    return estimators


def bind_block(block: Block, features: pa.Schema) -> Estimator:
    """The estimator of one block; ``features`` includes its columns. Raises like `bind`."""
    columns, given = (
        features
        if len(names) == len(features) and list(names) == features.names
        else pa.schema(map(features.field, names))
        for names in (block.columns, block.given)
    )
    schemas = [columns, given] if block.given else [columns]
    bound: Estimator = block.estimator_class(*schemas, block.options)
    return bound


def _check_groups(spec: ModelSpec, sampled: pa.Schema) -> None:
    """Refuse columns of groups whose values cannot be told apart and put in order."""
    for name in spec.group_columns if spec.takes_sample else ():
        kind = sampled.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise DataError(
                f"groups: column {name!r} is {kind}; name a column of text, numbers or dates."
            )


def _common_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The types that the features of both parts can be read as."""
    fields = []
    for name in left.names:
        kinds = left.field(name).type, right.field(name).type
        kind = common_type(kinds)
        if kind is None:
            raise DataError(
                f"column {name!r} is {kinds[0]} in one part and {kinds[1]} in another; cast it to "
                "one type."
            )
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _training_rows(labels: pa.DictionaryArray, weights: FloatArray | None) -> BoolArray | None:
    """Mask of the rows that count, ``(n,)``: with a label and a positive weight; None for all."""
    mask: BoolArray | None = None
    if labels.null_count:
        mask = labels.is_valid().to_numpy(zero_copy_only=False)
    if weights is not None and not weights.all():
        mask = (weights > 0.0) if mask is None else mask & (weights > 0.0)
    return mask


def _never(tables: Sequence[pa.Table]) -> bool:
    """Statistics that grow with the rows are merged once: sooner would only copy them."""
    return False


def _is_many_or_large(tables: Sequence[pa.Table]) -> bool:
    """Whether tables are many, or new ones are as large as the previous result, or larger."""
    if len(tables) < 2:
        return False
    new_bytes = sum(table.nbytes for table in tables[1:])
    return len(tables) >= _MOST_TABLES or new_bytes >= max(_MOST_BYTES, tables[0].nbytes)
