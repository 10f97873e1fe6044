"""The interfaces of tables: plan and read units; stage a partition and publish it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import (
    BATCH_ROWS,
    check_columns,
    in_slices,
)
from probclass_core.errors import one_of
from probclass_core.execution.threads import prefetch
from probclass_core.io.filters import Where, expression
from probclass_core.io.footers import Footer


class Unit(Protocol):
    """A part of a table that one worker reads, and that statistics are computed and kept of.

    Small files of one partition are one unit, large files are several. Where a unit ends depends
    on its own files alone, so that a table which gains or loses files keeps its other units.
    """

    @property
    def digest(self) -> str | None:
        """Digest of the rows: equal digests mean equal batches. None if they may change."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows in order, in batches of at most `arrays.read_rows` rows."""
        ...


@dataclass(frozen=True)
class Plan:
    """The units that answer a query.

    Attributes:
        schema: schema of the batches: the requested columns.
        units: units in a fixed order, the same for the same input.
        rows: number of rows before any row filter, or None if unknown.
        snapshot: digest of the state of the input, or None if it has no stable identity.
        version: version of the table, or None if its format has no versions.
        unit_rows: number of rows of each unit before any row filter; empty if unknown.
        footers: footers to cache with the statistics of each unit; that of a file of several units
            is with the first. Empty unless the table has a footer cache.
        from_cache: digests of those files of each unit whose footers are from the cache; empty
            unless the table has one.
        missing: number of rows in files without one of the columns, where they are null, by column.
    """

    schema: pa.Schema
    units: Sequence[Unit]
    rows: int | None
    snapshot: str | None
    version: int | None = None
    unit_rows: Sequence[int] = ()
    footers: Sequence[Sequence[Footer]] = field(default=(), repr=False)
    missing: Mapping[str, int] = field(default_factory=dict)
    from_cache: Sequence[Collection[str]] = field(default=(), repr=False)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Read all rows, unit by unit; a background thread reads files slightly ahead.

        Args:
            rows: maximum number of rows of a batch.
        """
        batches = chain.from_iterable(unit.read() for unit in self.units)
        # An input without a snapshot may be bound to its thread, as a database cursor is.
        return in_slices(batches if self.snapshot is None else prefetch(batches), rows)

    def split(self, count: int) -> list[Plan]:
        """Split into plans of consecutive units with about the same number of rows.

        Args:
            count: maximum number of plans. Units are not split, and `unit_rows` must be
                known if it is more than 1.
        """
        if count == 1:
            return [self]
        parts: dict[int, list[int]] = {}
        for number, part in enumerate(balanced_parts(self.unit_rows, count)):
            parts.setdefault(part, []).append(number)
        return [self.slice(numbers[0], numbers[-1] + 1) for numbers in parts.values()]

    def slice(self, start: int, stop: int) -> Plan:
        """Return the plan of units ``start`` to ``stop - 1``; empty if there are none."""
        unit_rows = self.unit_rows[start:stop]
        return replace(
            self,
            units=self.units[start:stop],
            unit_rows=unit_rows,
            footers=self.footers[start:stop],
            from_cache=self.from_cache[start:stop],
            rows=sum(unit_rows) if self.unit_rows else None,
        )


def balanced_parts(unit_rows: Sequence[int], count: int) -> list[int]:
    """Assign consecutive units to parts with about the same number of rows.

    A unit goes to the part that its middle row falls into.

    Args:
        unit_rows: number of rows of each unit; their sum is positive.
        count: number of parts.

    Returns:
        The number of its part for each unit, ascending.
    """
    total, rows_before = sum(unit_rows), 0
    parts = []
    for rows in unit_rows:
        parts.append(min(count - 1, (2 * rows_before + rows) * count // (2 * total)))
        rows_before += rows
    return parts


@runtime_checkable
class Table(Protocol):
    """A source of rows."""

    @property
    def schema(self) -> pa.Schema:
        """All columns, partition columns included."""
        ...

    @property
    def uri(self) -> str | None:
        """Path or URI, for provenance; None for a table in memory."""
        ...

    @property
    def partition_columns(self) -> Sequence[str]:
        """Names of the columns that the table is partitioned by, outermost first."""
        ...

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        """List the partitions in order, as values of the partition columns."""
        ...

    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        allow_dictionaries: bool = False,
    ) -> Plan:
        """Plan which units to read.

        Args:
            columns: columns to read, in order; all by default.
            partition: values of partition columns; at least one row must have them.
            where: filter of the rows; see `filters.expression`.
            allow_dictionaries: whether text columns may be dictionary-encoded where that is
                cheaper to read.

        Raises:
            DataError: if a column does not exist, or files disagree about its type.
            TableError: if the partition does not exist, or files cannot be read.
        """
        ...


class StagedPart(Protocol):
    """Some rows of a staged partition, in one file.

    Until rows are written it can be pickled: a copy in another process writes the rows and calls
    `finish`, and the original adopts the result.
    """

    @property
    def rows(self) -> int:
        """Number of rows written so far."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            TableError: if this batch or an earlier one cannot be written.
        """
        ...

    def finish(self, summary: Mapping[str, Any] | None = None) -> Any:
        """Finish the file and return the metadata that `adopt` needs; it can be pickled.

        Args:
            summary: further entries of the commit record, which are known once the rows are; only
                for the single part of a partition.

        Raises:
            TableError: if the file does not contain the rows written.
        """
        ...

    def adopt(self, finished: Any) -> None:
        """Take the file that a copy finished as this part's own; `rows` counts its rows."""
        ...

    def close(self) -> None:
        """Close the file, whether or not it is finished."""
        ...


class StagedPartition(Protocol):
    """A partition that is being written; no reader sees it until it is published."""

    @property
    def rows(self) -> int:
        """Number of rows written so far, in all parts."""
        ...

    def parts(self, count: int) -> Sequence[StagedPart]:
        """Open the files that the rows go to, in order. Call it once.

        Args:
            count: number of parts; a partition that can only be one file returns one part.

        Raises:
            TableError: if the location cannot be written.
        """
        ...

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        """Check the staged files and make them the partition in one step: the commit.

        Args:
            summary: further entries of the commit record, the same that a single part was finished
                with. A format without commit records ignores them.

        Raises:
            TableError: if the files do not contain the rows written, the partition cannot be
                replaced, or another writer has replaced it since `Sink.stage`.
        """
        ...


class Sink(Protocol):
    """A partition to write, or a whole unpartitioned table."""

    @property
    def location(self) -> str:
        """Path or URI of the partition, for messages."""
        ...

    @property
    def partition(self) -> Mapping[str, Any]:
        """Values of the partition columns, outermost first."""
        ...

    @property
    def exists(self) -> bool:
        """Whether the partition exists already."""
        ...

    @property
    def commit_record(self) -> Mapping[str, Any] | None:
        """The record of the commit that wrote the existing partition, with its ``rows``.

        None if there is no partition, or not all of its rows come from one commit.
        """
        ...

    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> AbstractContextManager[StagedPartition]:
        """Stage rows that are to replace the partition.

        Leaving the block without `StagedPartition.publish` changes nothing.

        Args:
            schema: schema of the rows, without the partition columns.
            commit: record to store with the rows.

        Raises:
            TableError: if the location cannot be written.
        """
        ...


@runtime_checkable
class AppendableSink(Protocol):
    """The methods of a `Sink` whose partition rows can be added to."""

    def commit_records(self) -> Sequence[Mapping[str, Any]]:
        """Records of the commits that the existing rows come from, in the order of their files.

        Each has its ``rows``.
        """
        ...

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        """Check that rows of a schema fit the columns of the table.

        Args:
            schema: schema of the rows, without the partition columns.
            replaced: partitions that will be replaced, whose columns do not matter.

        Returns:
            How the columns differ; not at all unless the sink is `EvolvingSink.evolving`.

        Raises:
            TableError: if the table has other columns, or types that do not go together.
        """
        ...

    def stage_append(
        self, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> AbstractContextManager[StagedPartition]:
        """Stage rows that are to be added to the partition; arguments as for `Sink.stage`.

        Publishing them does nothing if the partition already has a commit with this ``commit_id``.

        Raises:
            TableError: if the location cannot be written, or rows cannot be added to it.
        """
        ...


@dataclass(frozen=True)
class ColumnChanges:
    """How the columns of rows differ from those of the table that they are written to.

    Attributes:
        added: columns that the table gains; they are null in its other rows.
        absent: columns of the table that the rows lack; they are null in these rows.
    """

    added: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """The absent columns as a sentence."""
        if not self.absent:
            return []
        names = one_of(self.absent)
        return [f"The scored table has {names}, which the rows lack: null in what is scored now."]

    def to_dict(self) -> dict[str, list[str]]:
        """The columns as plain JSON values, of reports."""
        return {"added_columns": list(self.added), "absent_columns": list(self.absent)}


@runtime_checkable
class EvolvingSink(Protocol):
    """The methods of a `Sink` whose table can gain columns."""

    def evolving(self, columns: Collection[str]) -> Sink:
        """Return this sink, which may add columns to its table in the commit of a partition.

        Columns of the table that the rows lack are then null in them, and numbers are written in
        the types of the table, which never change.

        Args:
            columns: columns that may be added.
        """
        ...


@runtime_checkable
class PartitionedSink(Protocol):
    """The methods of a `Sink` that may be one partition of many."""

    def sibling(self, partition: Mapping[str, Any]) -> Sink:
        """Return the sink of another partition of the table.

        Siblings share what was read of the table, so that thousands of them are planned quickly: to
        each other they show one version of it. A commit checks the newest version.

        Args:
            partition: values of the partition columns, outermost first.

        Raises:
            TableError: as opening the sink.
        """
        ...

    def remove(self) -> None:
        """Remove the partition in one step, if it exists; readers see all of its rows or none.

        Raises:
            TableError: if it cannot be removed, or another writer replaced it meanwhile.
        """
        ...


class TypedPartition(dict[str, Any]):
    """Values of the partition columns, outermost first, with the types of those columns.

    A new table takes the types of its partition columns from here: a null value has no type.

    Args:
        values: value by column.
        schema: a schema that contains these columns.
    """

    def __init__(self, values: Mapping[str, Any], schema: pa.Schema) -> None:
        super().__init__(values)
        self.schema = pa.schema([schema.field(name) for name in values])


def partition_schema(partition: Mapping[str, Any]) -> pa.Schema:
    """Return the types of partition columns: of a `TypedPartition` its own, else of the values.

    A null of unknown type is text, as in a directory name.
    """
    known = partition.schema if isinstance(partition, TypedPartition) else None
    types = {
        name: pa.scalar(value).type if known is None else known.field(name).type
        for name, value in partition.items()
    }
    return pa.schema(
        [(name, pa.string() if pa.types.is_null(kind) else kind) for name, kind in types.items()]
    )


def columns_and_filter(
    schema: pa.Schema,
    columns: Sequence[str] | None,
    partition: Mapping[str, Any] | None,
    where: Where,
) -> tuple[list[str], pc.Expression | None]:
    """Resolve the arguments of `Table.plan` to the columns to read and a filter of the rows.

    Raises:
        DataError, TableError: as `Table.plan`.
    """
    columns = [columns] if isinstance(columns, str) else columns
    names = schema.names if columns is None else list(columns)
    check_columns(schema, names)
    return names, expression(schema, partition, where)
