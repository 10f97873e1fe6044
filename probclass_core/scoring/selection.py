"""Which partitions of a source and its sink a scoring considers, and the commits of a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import pyarrow.compute as pc

from probclass_core.arguments import checked_number, checks_arguments, from_fields
from probclass_core.arrow.bundle import as_json
from probclass_core.errors import SpecError, TableError, check_known, one_of
from probclass_core.io.filters import Condition, Where, parse_where, typed_partition
from probclass_core.io.open import open_sink, open_table
from probclass_core.io.references import TableRef
from probclass_core.io.sink import Sink, TypedPartition
from probclass_core.io.table import Source
from probclass_core.spec.model_spec import category_text


@dataclass(frozen=True)
class Partitions:
    """Which partitions to consider; all by default.

    Attributes:
        where: conditions on partition columns, such as ``"month >= '2014-01'"``, or a list of
            partitions, such as ``[{"month": "2014-01"}]``; of a table by region and month, this is
            each region of the month.
        first: first partition in the order of their values.
        last: last partition in this order, which is included.
        catch_up: number of partitions before the given one that are scored as well if they are
            missing in the sink, such as those of runs that failed; needs a list of one partition,
            by the value of one column, such as a month with all its regions. Partitions before the
            first one of the sink are not missing. With a store, partitions that such a run failed
            to score are tried again, however old, until they are scored or have no rows in the
            source.
        scored_by: versions of models, as content ids or ``name@id``; only partitions that one of
            them scored, such as those of a version that was rolled back.
        limit: largest number of partitions to score now.

    Raises:
        SpecError: if a number is too small.
    """

    where: Where | Sequence[Mapping[str, Any]] = None
    first: Mapping[str, Any] | None = None
    last: Mapping[str, Any] | None = None
    catch_up: int = 0
    scored_by: Sequence[str] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("catch_up", 0), ("limit", 1)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_number(name, value, least, whole=True))
        if isinstance(self.scored_by, str):
            object.__setattr__(self, "scored_by", [self.scored_by])

    @classmethod
    def parse(cls, partitions: Any) -> Partitions:
        """Partitions from conditions, a list of partitions, or a mapping of the fields.

        Raises:
            SpecError: if a key is unknown, or a number is too small.
        """
        if isinstance(partitions, cls):
            return partitions
        if not isinstance(partitions, Mapping):
            return cls(partitions)
        return from_fields(cls, partitions, "partitions")

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set as plain JSON values, for `parse`."""
        default = Partitions()
        values = {name: value for name, value in vars(self).items() if value != vars(default)[name]}
        plain: dict[str, Any] = as_json(values)
        return plain


PartitionOption: TypeAlias = Mapping[str, Any] | Partitions | str | Sequence[Any] | None
"""One partition by the values of its columns, or what `Partitions.parse` reads as several."""

Key = tuple[tuple[str, str | None], ...]
"""Names and texts of a partition's values, sorted by name."""


class SelectedPartitions:
    """The partitions of a source and of its sink that are considered.

    Attributes:
        columns: partition columns of the source.
        named: the partitions if they are listed; None if they are not.
        required: those of them that must have rows.

    Args:
        table: source.
        sink: scored table, which need not exist.
        partitions: which partitions.
        where: conditions on the rows, which may leave out whole partitions.
        model_ids: content ids of ``partitions.scored_by``.
        failed: partitions that earlier runs could not score, for ``partitions.catch_up``.

    Raises:
        SpecError: if the table has no partitions, a condition is on another column, or `catch_up`
            is not with one value of a partition column.
        TableError: if a column does not exist, or commits cannot be read.
    """

    def __init__(
        self,
        table: Source,
        sink: TableRef,
        partitions: Partitions,
        where: Where,
        model_ids: Set[str] | None,
        failed: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._table = table
        self.columns = table.partition_columns
        self._where = where
        chosen, first, last = partitions.where, partitions.first, partitions.last
        if not self.columns and any(one is not None for one in (chosen, first, last)):
            raise SpecError(
                f"{table.uri or 'the source'} has no partitions to choose from; leave them out."
            )
        self.named: list[Mapping[str, Any]] | None = None
        self._conditions: Where = None
        self._partial: Sequence[Mapping[str, Any]] = ()
        if _are_partitions(chosen):
            given = [self._typed_part(one) for one in chosen]
            self._partial = [one for one in given if len(one) < len(self.columns)]
            self.named = self._expanded(given)
        else:
            self._conditions = self._checked(parse_where(chosen))
        self._keys: Set[Key] | None = None
        self._first = None if first is None else _sort_key(self._typed(first))
        self._last = None if last is None else _sort_key(self._typed(last))
        if self.named is not None:
            self.named = [one for one in self.named if self._is_in_range(one)]
        self.required: list[Mapping[str, Any]] = []
        if partitions.catch_up:
            self._add_missed(chosen, sink, partitions.catch_up, failed)
        if model_ids is not None:
            scored = (one["partition"] for one in commits(sink) if one["model_id"] in model_ids)
            self._keys = keys = {key_of(self._typed(one)) for one in scored}
            if self.named is not None:
                self.named = [one for one in self.named if key_of(one) in keys]

    def in_source(self) -> list[Mapping[str, Any]]:
        """The partitions of the source, in its order; one without columns if it has none."""
        if not self.columns:
            return [{}] if self._keys is None or key_of({}) in self._keys else []
        return self._select(self._table)

    def with_rows(self) -> set[Key] | None:
        """The partitions that may have rows of the filter; None for all."""
        if self._where is None or not self.columns:
            return None
        return {key_of(one) for one in self._table.partitions(self._where)}

    def in_sink(self, sink: Source) -> list[Mapping[str, Any]]:
        """The partitions of the sink; none if it is partitioned by other columns."""
        return self._select(sink) if {*sink.partition_columns} == {*self.columns} else []

    def typed(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values of a partition of the sink, which may guess their types, as the source has them.

        Values that the source cannot have are left as they are.
        """
        try:
            return typed_partition(self._table.schema, values)
        except SpecError:
            return values

    def _add_missed(
        self, chosen: Any, sink: TableRef, count: int, failed: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add those of the partitions before the named value that are missing in the sink."""
        if self.named is None or len(chosen) != 1 or len(chosen[0]) != 1:
            raise SpecError(
                "catch_up needs the value of one partition column, such as {'day': '2014-01-31'}; "
                "partitions that are missing are scored in any case if none is named."
            )
        ((column, last),) = self._typed_part(chosen[0]).items()
        try:
            scored = [self.typed(one) for one in open_table(sink).partitions()]
        except TableError:  # there is no sink yet
            scored = []
        keys = {key_of(one) for one in scored}
        listed = [one for one in self._table.partitions() if one[column] is not None]
        before = sorted({one[column] for one in listed if one[column] < last})[-count:]
        values = [one[column] for one in scored if one.get(column) is not None]
        first = min(values, default=last)
        missed = [one for one in listed if one[column] in before and one[column] >= first]
        exists, oldest = {key_of(one) for one in listed}, min(before, default=last)
        tried = [
            one
            for one in self._expanded([self._typed_part(one) for one in failed])
            if one.get(column) is not None
            and one[column] < last
            and (key_of(one) in exists or one[column] >= oldest)
        ]
        earlier = {key_of(one): one for one in (*missed, *tried) if key_of(one) not in keys}
        required = {key_of(one) for one in (*tried, *self.named) if one[column] >= oldest}
        self.named[:0] = sorted(earlier.values(), key=lambda one: (one[column], _sort_key(one)))
        self.required = [one for one in self.named if key_of(one) in required]

    def _expanded(self, given: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The partitions, and in place of values of some columns those of the source with them."""
        found: dict[Key, Mapping[str, Any]] = {}
        for one in given:
            members = [one]
            if len(one) < len(self.columns):
                members = [
                    {name: each[name] for name in self.columns}
                    for each in self._table.partitions()
                    if one.items() <= each.items()
                ] or [one]
            found |= {key_of(each): each for each in members}
        return [*found.values()]

    def _typed(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        typed = self._typed_part(partition)
        if len(typed) < len(self.columns):
            raise SpecError(
                f"partition {dict(partition)} does not have a value for each of the partition "
                f"columns of {self._table.uri}: {one_of(self.columns)}."
            )
        return typed

    def _typed_part(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """Values of some partition columns, or of all."""
        typed = typed_partition(self._table.schema, partition)
        if not {*typed} <= {*self.columns}:
            raise SpecError(
                f"partition {dict(partition)} needs values of partition columns of "
                f"{self._table.uri}, which has {one_of(self.columns)}."
            )
        return {name: typed[name] for name in self.columns if name in typed}

    def _checked(self, conditions: Sequence[Condition] | pc.Expression | None) -> Where:
        if isinstance(conditions, pc.Expression):
            raise SpecError("partitions must be text, conditions or partitions, not an expression.")
        named = [column for column, *_ in conditions or ()]
        has = "conditions on rows go to where=; it has"
        check_known(named, self.columns, f"{self._table.uri} has no partition column", has)
        return conditions

    def _is_in_range(self, values: Mapping[str, Any]) -> bool:
        key = _sort_key(values)
        return (self._first is None or self._first <= key) and (
            self._last is None or key <= self._last
        )

    def _select(self, table: Source) -> list[Mapping[str, Any]]:
        listed: list[Mapping[str, Any]] = [
            {name: one[name] for name in self.columns} for one in table.partitions(self._conditions)
        ]
        if self.named is not None:
            wanted = {key_as(table, one) for one in self.named}
            parts = [{*key_as(table, one)} for one in self._partial]
            listed = [
                one
                for one in listed
                if (key := key_of(one)) in wanted or any(part <= {*key} for part in parts)
            ]
        if self._keys is not None:
            keys = self._keys
            listed = [one for one in listed if key_as(self._table, one) in keys]
        if self._first is not None or self._last is not None:
            listed = [one for one in listed if self._is_in_range(self.typed(one))]
        return listed


def key_of(values: Mapping[str, Any]) -> Key:
    """What identifies a partition, whatever the order of its columns."""
    return tuple(
        (name, None if values[name] is None else category_text(values[name]))
        for name in sorted(values)
    )


def key_as(table: Source, values: Mapping[str, Any]) -> Key:
    """The key of a partition whose values have the types that another table gives them.

    A directory of Parquet files has integers where the source may have text such as ``"01"``.
    """
    try:
        return key_of(typed_partition(table.schema, values))
    except SpecError:
        return key_of(values)


def in_order(partitions: Sequence[Mapping[str, Any]]) -> list[int]:
    """Positions of partitions in the order of their values, column by column, null first."""
    return sorted(range(len(partitions)), key=lambda position: _sort_key(partitions[position]))


def _sort_key(values: Mapping[str, Any]) -> tuple[tuple[bool, str, Any], ...]:
    return tuple((value is not None, type(value).__name__, value) for value in values.values())


def _are_partitions(
    partitions: Where | Sequence[Mapping[str, Any]],
) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    """Whether it is a list of partitions, and not conditions."""
    if isinstance(partitions, str) or not isinstance(partitions, Sequence):
        return False
    return all(isinstance(one, Mapping) for one in partitions)


@checks_arguments
def commits(
    sink: str | Path | TableRef,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> list[Mapping[str, Any]]:
    """List the commits that the rows of a scored table come from, without reading the rows.

    Args:
        sink: the scored table, as for `pipeline.score`.
        partition: partition to look at; by default all of them in order.
        where: conditions on partition columns, such as ``"month >= '2014-01'"``.

    Returns:
        Commit records in the order of the partitions: commit_id, model_id, partition, rows, source,
        input (digest of its files), input_version, the configuration, and ``health`` if it was
        recorded; see `Health.from_dict`. Rows of other writers have none, nor has a CSV file.

    Raises:
        TableError: if the table or partition does not exist or cannot be read.
    """
    ref = TableRef.parse(sink)
    table = open_table(ref)
    partitions = [partition or {}]
    if not partition and table.partition_columns:
        partitions = list(table.partitions(parse_where(where)))
    found: list[Mapping[str, Any]] = []
    opened: Sink | None = None
    for values in partitions:
        typed = TypedPartition(typed_partition(table.schema, values), table.schema)
        opened = open_sink(ref, typed) if opened is None else opened.sibling(typed)
        found += opened.commit_records
    return found
