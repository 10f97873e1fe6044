"""The contract of a sink. Read this first if you write one.

A sink is one partition of a table, or a whole table without partitions. Its rows are replaced in
two steps, so that workers can write and one process commits::

    stage    schema, commit record -> files that no reader sees
    publish  staged files          -> the partition: the commit

These laws hold, which the test kit checks (`probclass_core.testing.tables`):

1. **Old or new.** At every instant every reader finds all rows of the old partition or all of the
   new one, also if the writer is killed at any step.
2. **Once.** Published rows are there once. The commit record is stored with them, so that a rerun
   recognizes its own commit; rows that are added are added once, however often they are tried.
3. **Nothing stale.** A replacement by fewer rows leaves none of the rows before.
4. **Nothing without a commit.** Leaving ``stage`` without ``publish`` changes nothing.
5. **One winner.** Of two writers that replace a partition at the same time one remains, as a
   whole. Where the medium can compare, the other is refused.

A class of a sink derives from `Sink` and has `exists`, `location` and `stage`; one of a single
local file derives from `io.commit.file_sink.FileSink`, which stages and renames. What a sink cannot
do has a default: its partitions have no commit records, nothing can be added to or removed from
them, and any columns may be written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from probclass_core.errors import TableError, TableMismatchError, one_of
from probclass_core.io.references import TableRef

CommitRecord = Mapping[str, Any]
"""Model, input and configuration of a commit, with its digest ``commit_id`` and its ``rows``."""


class StagedPart(ABC):
    """The rows of a staged partition, in one file.

    Until rows are written it can be pickled: a copy in another process writes the rows and calls
    `finish`, and the original adopts the result.

    Attributes:
        rows: number of rows written so far.
    """

    rows: int

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            TableError: if this batch or an earlier one cannot be written.
        """

    @abstractmethod
    def finish(self, summary: Mapping[str, Any] | None = None) -> Any:
        """Finish the file and return the metadata that `adopt` needs; it can be pickled.

        Args:
            summary: further entries of the commit record, which are known once the rows are.

        Raises:
            TableError: if the file does not contain the rows written.
        """

    @abstractmethod
    def adopt(self, finished: Any) -> None:
        """Take the file that a copy finished as this part's own; `rows` counts its rows."""

    @abstractmethod
    def close(self) -> None:
        """Close the file, whether or not it is finished."""


class StagedPartition(ABC):
    """A partition that is being written; no reader sees it until it is published.

    Attributes:
        part: the file that the rows go to.
    """

    part: StagedPart

    @property
    def rows(self) -> int:
        """Number of rows written so far."""
        return self.part.rows

    def close(self) -> None:
        """Close the file, whether or not it is finished."""
        self.part.close()

    @abstractmethod
    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        """Check the staged file and make it the partition in one step: the commit.

        Args:
            summary: further entries of the commit record, which the file was finished with, for a
                format that has commit records elsewhere, too.

        Raises:
            TableError: if the file does not contain the rows written, the partition cannot be
                replaced, or another writer has replaced it since `Sink.stage`.
        """


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


class Sink(ABC):
    """A partition to write, or a whole unpartitioned table.

    Args:
        ref: address of the table, which need not exist yet.
        partition: values of the partition columns, outermost first; empty for a whole table.

    Raises:
        TableError: if the location cannot hold such a table.

    Attributes:
        appends: whether rows can be added to a partition.
    """

    appends: ClassVar[bool] = False

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        self.ref = ref
        self.partition = dict(partition)

    @property
    @abstractmethod
    def location(self) -> str:
        """Path or URI of the partition, for messages."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether the partition exists already."""

    @abstractmethod
    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> AbstractContextManager[StagedPartition]:
        """Stage rows that are to replace the partition, or to be added to it.

        Leaving the block without `StagedPartition.publish` changes nothing.

        Args:
            schema: schema of the rows, without the partition columns.
            commit: record to store with the rows.
            append: whether the rows are added; only if the sink `appends`. Publishing them then
                does nothing if the partition already has a commit with this ``commit_id``.

        Raises:
            TableError: if the location cannot be written, or rows cannot be added to it.
        """

    def commits(self) -> Sequence[CommitRecord | None]:
        """Records of the commits that the existing rows come from, in the order of their files.

        Each has its ``rows``; None stands for rows of another writer, or of a part of a commit. If
        another writer has put rows of several commits into one file, their records may follow.
        """
        return ()

    @property
    def commit_record(self) -> CommitRecord | None:
        """The record of the commit that wrote the whole existing partition.

        None if there is no partition, or not all of its rows come from one commit.
        """
        commits = self.commits()
        return commits[0] if len(commits) == 1 else None

    @property
    def commit_records(self) -> Sequence[CommitRecord]:
        """The records that `commits` knows."""
        return [record for record in self.commits() if record is not None]

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        """Check that rows of a schema fit the columns of the table.

        Args:
            schema: schema of the rows, without the partition columns.
            replaced: partitions that will be replaced, whose columns do not matter.

        Returns:
            How the columns differ; not at all unless the sink is `evolving`.

        Raises:
            TableError: if the table has other columns, or types that do not go together.
        """
        return ColumnChanges()

    def evolving(self, columns: Collection[str]) -> Self:
        """Return this sink, which may add columns to its table in the commit of a partition.

        Columns of the table that the rows lack are then null in them, and numbers are written in
        the types of the table, which never change.

        Args:
            columns: columns that may be added.
        """
        return self

    def sibling(self, partition: Mapping[str, Any]) -> Self:
        """Return the sink of another partition of the table.

        Siblings may share what was read of the table, so that thousands of them are planned
        quickly: to each other they show one version of it. A commit checks the newest version.

        Args:
            partition: values of the partition columns, outermost first.

        Raises:
            TableError: as opening the sink.
        """
        return type(self)(self.ref, partition)

    def remove(self) -> None:
        """Remove the partition in one step, if it exists; readers see all of its rows or none.

        Raises:
            TableError: if it cannot be removed, or another writer replaced it meanwhile.
        """
        raise TableMismatchError(
            f"{self.location}: partitions of this format cannot be removed; remove it by other "
            "means, or score with deleted='keep'."
        )


def conflict(location: str, change: str = "was replaced") -> TableError:
    """Return the error of a commit that another writer came before.

    Args:
        location: path or URI that the other writer changed.
        change: what happened to it.
    """
    return TableError(
        f"{location} {change} by another writer during this run, which changed nothing; run it "
        "again."
    )


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
