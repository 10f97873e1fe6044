"""The interface of a table: plan fragments, read record batches; stage rows, publish them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BATCH_ROWS, check_columns, in_slices
from probclass_core.execution.threads import ahead
from probclass_core.io.filters import Where, expression
from probclass_core.io.footers import KnownFooters


class Fragment(Protocol):
    """A part of a table that one worker reads on its own."""

    @property
    def digest(self) -> str | None:
        """Names its batches: equal digests, equal batches; none where nothing can vouch for it."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Its rows, in order, in batches of at most `arrays.read_rows`."""
        ...


@dataclass(frozen=True)
class Plan:
    """What is to be read.

    Attributes:
        schema: of the batches, the columns asked for.
        fragments: in a fixed order, the same for the same input.
        rows: how many rows they hold before any row filter; none where nobody knows.
        snapshot: digest of the input's state; none where it has no identity to speak of.
        version: of the table, where its format counts them.
        sizes: rows of each fragment before any row filter; empty where nobody knows.
    """

    schema: pa.Schema
    fragments: Sequence[Fragment]
    rows: int | None
    snapshot: str | None
    version: int | None = None
    sizes: Sequence[int] = ()

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """All rows, fragment by fragment; files are read a little ahead, in a thread of their own.

        Args:
            rows: of a batch, at most.

        What has no snapshot may be bound to the thread it comes from, as a cursor of a database is.
        """
        batches = chain.from_iterable(fragment.read() for fragment in self.fragments)
        return in_slices(batches if self.snapshot is None else ahead(batches), rows)

    def parts(self, most: int) -> list[Plan]:
        """Plans of consecutive fragments, of about as many rows each, that make up this one.

        Args:
            most: how many at most; fragments are not cut, and their sizes must be known.
        """
        if most == 1:
            return [self]
        runs: dict[int, list[int]] = {}
        for number, part in enumerate(shares(self.sizes, most)):
            runs.setdefault(part, []).append(number)
        return [self.between(run[0], run[-1] + 1) for run in runs.values()]

    def between(self, first: int, stop: int) -> Plan:
        """The plan of consecutive fragments alone; of none, where it has no such ones."""
        sizes = self.sizes[first:stop]
        rows = sum(sizes) if self.sizes else None
        return replace(self, fragments=self.fragments[first:stop], sizes=sizes, rows=rows)


def shares(sizes: Sequence[int], count: int) -> list[int]:
    """To which of so many parts of about as many rows each fragment goes.

    It is the part that the middle row of the fragment falls into.

    Args:
        sizes: rows of the fragments, not all of them 0.
        count: of the parts.
    """
    total, before = sum(sizes), 0
    found = []
    for rows in sizes:
        found.append(min(count - 1, (2 * before + rows) * count // (2 * total)))
        before += rows
    return found


@runtime_checkable
class Table(Protocol):
    """A source of rows."""

    @property
    def schema(self) -> pa.Schema:
        """All columns, partition columns included."""
        ...

    @property
    def uri(self) -> str | None:
        """Where it lies, for provenance; none in memory."""
        ...

    @property
    def partition_columns(self) -> Sequence[str]:
        """The columns that its directories spell out, outermost first."""
        ...

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        """The partitions there are, in order."""
        ...

    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        coded: bool = False,
    ) -> Plan:
        """Fragments to read.

        Args:
            columns: which ones, in order; all by default.
            partition: values of partition columns; it must be there.
            where: rows to keep; see `filters.expression`.
            coded: text columns may come as dictionaries, where that is less work.

        Raises:
            DataError: a column is not there, or of types that do not go together.
            TableError: the partition is not there, or files cannot be read.
        """
        ...


class StagedPart(Protocol):
    """Some of the rows of a partition in the making, in a file of their own.

    Until rows are written it pickles. A copy in another process writes them all and hands over;
    the one that was copied takes over.
    """

    @property
    def rows(self) -> int:
        """How many were written so far."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            TableError: the disk is full or the like; it may be told of at a later call.
        """
        ...

    def hand_over(self) -> Any:
        """Finish the rows, and tell what another has to know of them; it pickles.

        Raises:
            TableError: it is not what was written.
        """
        ...

    def take_over(self, written: Any) -> None:
        """Go on with what a copy has written; `rows` counts it."""
        ...

    def close(self) -> None:
        """Let go of the file, whatever has become of it."""
        ...


class Staged(Protocol):
    """A partition in the making, which no reader sees."""

    @property
    def rows(self) -> int:
        """How many were written so far, in all parts."""
        ...

    def parts(self, count: int) -> Sequence[StagedPart]:
        """Where the rows go: so many parts, in order; or one, where they can be one file only.

        To be called once.

        Raises:
            TableError: the place cannot be written.
        """
        ...

    def publish(self) -> None:
        """Check what was written and put it in place in one step: the commit.

        Raises:
            TableError: it is not what was written, the place cannot be taken, or another writer
                has taken it meanwhile.
        """
        ...


class Sink(Protocol):
    """Where one partition (or one whole unpartitioned table) is to stand."""

    @property
    def place(self) -> str:
        """Of the partition, for messages."""
        ...

    @property
    def partition(self) -> Mapping[str, Any]:
        """Values of the partition columns, outermost first."""
        ...

    @property
    def occupied(self) -> bool:
        """Whether something stands there."""
        ...

    @property
    def commit(self) -> Mapping[str, Any] | None:
        """The record of what stands there, with its ``rows``; none where others made it."""
        ...

    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> AbstractContextManager[Staged]:
        """Write aside; leaving the block without `Staged.publish` leaves everything as it was.

        Args:
            schema: of the rows, without the partition columns.
            commit: the record to keep with them.

        Raises:
            TableError: the place cannot be written.
        """
        ...


@runtime_checkable
class AppendableSink(Protocol):
    """What a `Sink` also has where rows can be added to those that stand there."""

    def commits(self) -> Sequence[Mapping[str, Any]]:
        """The records of what stands there, each with its ``rows``, in the order of their files."""
        ...

    def check_columns(self, schema: pa.Schema, leaving: Sequence[Mapping[str, Any]]) -> None:
        """Whether rows of such a schema, without the partition columns, go with the table's own.

        Args:
            schema: of the rows.
            leaving: partitions that are about to be replaced, whose columns do not count.

        Raises:
            TableError: the table has other columns, or of types that do not go together.
        """
        ...

    def stage_more(
        self, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> AbstractContextManager[Staged]:
        """Like `Sink.stage`, but for rows to be added to those that stand there.

        To publish them does nothing where a commit of the same ``commit_id`` stands there by then.

        Raises:
            TableError: the place cannot be written, or not be added to.
        """
        ...


class TypedPartition(dict[str, Any]):
    """Values of the partition columns, outermost first, with the types of those columns.

    A table that is made with its first partition takes its types from here: a null tells none.

    Args:
        values: by column.
        schema: which has these columns.
    """

    def __init__(self, values: Mapping[str, Any], schema: pa.Schema) -> None:
        super().__init__(values)
        self.schema = pa.schema([schema.field(name) for name in values])


def partition_schema(partition: Mapping[str, Any]) -> pa.Schema:
    """The types of partition columns: as they are known, or else as the values have them.

    A null of no known type is text, as in the name of a directory.
    """
    known = partition.schema if isinstance(partition, TypedPartition) else None
    kinds = {
        name: pa.scalar(value).type if known is None else known.field(name).type
        for name, value in partition.items()
    }
    return pa.schema(
        [(name, pa.string() if pa.types.is_null(kind) else kind) for name, kind in kinds.items()]
    )


def knowing(table: Table, footers: KnownFooters) -> Table:
    """The table, whose plans open no file whose footer is known; itself, where they open them all.

    Asked of its class: what wraps a table, and hands on all that it has not itself, is no such one.
    """
    informed = getattr(type(table), "knowing", None)
    return table if informed is None else informed(table, footers)


def asked_for(
    schema: pa.Schema,
    columns: Sequence[str] | None,
    partition: Mapping[str, Any] | None,
    where: Where,
) -> tuple[list[str], pc.Expression | None]:
    """The columns and the filter of a `Table.plan`, checked against a schema; raises as it does."""
    names = schema.names if columns is None else list(columns)
    check_columns(schema, names)
    return names, expression(schema, partition, where)
