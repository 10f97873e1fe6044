"""The contract of a source of rows. Read this first if you write one.

A source plans the units that answer a query, and a unit reads its rows. Everything that reads a
table (training, scoring, evaluation, plots) is nothing else than these two calls::

    plan   columns, partition, filter -> units in a fixed order, with a digest of their rows
    read   unit                       -> record batches

A class of a source derives from `Source` and has a `schema` and the method `plan`. Rows in memory
need no class of their own: return ``pc.open_table(rows)``. What a source cannot do has a default:
it has no partitions, no Parquet files to inspect, and no footers to cache.

How rows are written is in `io.sink`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BATCH_ROWS, check_columns, in_slices
from probclass_core.arrow.bundle import json_digest
from probclass_core.execution.threads import prefetch
from probclass_core.io.filters import Where, expression

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class Unit(ABC):
    """A part of a table that one worker reads, and that statistics are computed and kept of.

    Small files of one partition are one unit, large files are several. Where a unit ends depends
    on its own files alone, so that a table which gains or loses files keeps its other units. If
    workers are other processes, units are pickled.

    Attributes:
        digest: digest of the rows: equal digests mean equal batches. None if they may change.
    """

    digest: str | None

    @abstractmethod
    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows in order, in batches of at most `arrays.read_rows` rows."""


@dataclass(frozen=True)
class Footer:
    """What a plan needs to know of the footer of a Parquet file, so that it need not open the file.

    Footers are saved with the statistics of a unit, and a later plan of `Source.with_footer_cache`
    finds them. Nothing shows that a cached footer is the file's, so it only finds statistics: to
    read rows, remove it from the cache, and plan again.

    Attributes:
        file: digest of the location of the table, the name of the file and its state.
        schema: schema of the columns as stored.
        rows: number of rows of each row group.
    """

    file: str
    schema: pa.Schema
    rows: tuple[int, ...]


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
        partitions: values of the partition columns, outermost first, that all rows of a unit have,
            by unit; empty if the table is not partitioned.
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
    partitions: Sequence[tuple[Any, ...]] = ()
    footers: Sequence[Sequence[Footer]] = field(default=(), repr=False)
    missing: Mapping[str, int] = field(default_factory=dict)
    from_cache: Sequence[Collection[str]] = field(default=(), repr=False)

    @property
    def inputs(self) -> str | None:
        """Digest of what the units contain, or None if one of them has no digest."""
        digests = [unit.digest for unit in self.units]
        return None if not digests or None in digests else json_digest(digests)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Read all rows, unit by unit; a background thread reads files slightly ahead.

        Args:
            rows: maximum number of rows of a batch.
        """
        batches = chain.from_iterable(unit.read() for unit in self.units)
        # An input without a snapshot may be bound to its thread, as a database cursor is.
        return in_slices(batches if self.snapshot is None else prefetch(batches), rows)

    def slice(self, start: int, stop: int) -> Plan:
        """Return the plan of units ``start`` to ``stop - 1``; empty if there are none."""
        unit_rows = self.unit_rows[start:stop]
        return replace(
            self,
            units=self.units[start:stop],
            unit_rows=unit_rows,
            partitions=self.partitions[start:stop],
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


class Source(ABC):
    """A table to read.

    Attributes:
        uri: path or URI, for provenance; None for a table in memory.
        partition_columns: names of the columns that the table is partitioned by, outermost first.
        read_once: whether its rows can be read only once.
    """

    uri: str | None = None
    read_once: bool = False
    partition_columns: Sequence[str] = ()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns, partition columns included."""

    @abstractmethod
    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        allow_dictionaries: bool | Collection[str] = False,
    ) -> Plan:
        """Plan which units to read.

        Args:
            columns: columns to read, in order; all by default.
            partition: values of partition columns; at least one row must have them.
            where: filter of the rows; see `filters.expression`.
            allow_dictionaries: whether text columns, or which of them, may be dictionary-encoded
                where that is cheaper to read.

        Raises:
            DataError: if a column does not exist, or files disagree about its type.
            TableError: if the partition does not exist, or files cannot be read.
        """

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        """List the partitions in order, as values of the partition columns."""
        return ()

    def parquet_files(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> Sequence[tuple[str, ds.Fragment]] | None:
        """Path or URI and fragment of each file that may contain such rows, in order.

        Returns:
            The files, with their footers in memory; None for tables that are not Parquet files.

        Raises:
            TableError: if there is no such file, or a footer cannot be read.
        """
        return None

    def with_footer_cache(self, cache: Mapping[str, Footer]) -> Source:
        """Return the same table with plans that open no file whose footer is in the cache.

        Args:
            cache: footers by the digest of their file.
        """
        return self


class Query(TypedDict, total=False):
    """The rows that `Source.plan` is asked for, and whether text may be dictionaries."""

    partition: Mapping[str, Any] | None
    where: Where
    allow_dictionaries: bool | Collection[str]


def columns_and_filter(
    schema: pa.Schema, columns: Sequence[str] | None, query: Query
) -> tuple[list[str], pc.Expression | None]:
    """Resolve the arguments of `Source.plan` to the columns to read and a filter of the rows.

    Args:
        schema: columns of the table.
        columns: names of the columns to read, or None for all.
        query: conditions of the read, as `Source.plan` gets them.

    Raises:
        DataError, TableError: as `Source.plan`.
    """
    columns = [columns] if isinstance(columns, str) else columns
    names = schema.names if columns is None else list(columns)
    check_columns(schema, names)
    return names, expression(schema, query.get("partition"), query.get("where"))
