"""A partition of a table that keeps a log, replaced: one new file, and one commit that names it.

The rows go into one new Parquet file, which no reader sees before the log names it. The commit adds
that file and removes those of the partition. Where another writer came first, the log refuses; if
it left this partition alone, the commit is tried again on what stands there now.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from probclass_core.errors import TableError, one_of
from probclass_core.table_format import TableRef
from probclass_core.tables.parquet_file import RowsToParquet, cannot_write, commit_record

Log = TypeVar("Log")
"""A format's own table, as it was at one moment."""

_TRIES = 20
_LONGEST_WAIT = 2.0


@dataclass(frozen=True)
class NewFile:
    """A data file that the log does not name yet.

    Attributes:
        name: that the log is to call it by.
        path: that its file system calls it by.
        filesystem: where it lies.
        schema: of its rows, partition columns last where the format keeps them in its files.
    """

    name: str
    path: str
    filesystem: FileSystem
    schema: pa.Schema


class LogSink(ABC, Generic[Log]):
    """Where one partition (or a whole unpartitioned table) is to stand; formats fill in the rest.

    Args:
        ref: the table; it need not exist yet.
        partition: values of all its partition columns; none replaces the whole table.

    Raises:
        TableError: the table is partitioned by other columns, or cannot be read.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        self.ref = ref
        self.partition = dict(partition)
        table = self.table()
        if table is not None:
            columns = self.partition_columns(table)
            if sorted(columns) != sorted(self.partition):
                given = ", ".join(self.partition) or "none"
                raise TableError(
                    f"{ref.uri} is partitioned by {', '.join(columns) or 'nothing'}; a partition "
                    f"to replace names just these columns, and here it names {given}."
                )

    @property
    def uri(self) -> str:
        return self.ref.uri

    @property
    def place(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return f"{self.uri} ({named})" if named else self.uri

    @property
    def occupied(self) -> bool:
        return bool(self.standing_files(self.table()))

    @property
    def commit(self) -> dict[str, Any] | None:
        table = self.table()
        files = self.standing_files(table)
        if len(files) != 1:
            return None
        try:
            return commit_record(*self.located(table, files[0]))
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedFile[Log]]:
        with closing(StagedFile(self, schema, commit)) as staged:
            yield staged

    @abstractmethod
    def table(self) -> Log | None:
        """The table as it is now; none where there is none yet."""

    @abstractmethod
    def partition_columns(self, table: Log) -> Sequence[str]:
        """That the table is partitioned by, outermost first."""

    @abstractmethod
    def standing_files(self, table: Log | None) -> Sequence[str]:
        """Names of the partition's files, those that delete rows of others included, in order."""

    @abstractmethod
    def located(self, table: Log | None, name: str) -> tuple[str, FileSystem]:
        """Path and file system of a file that the log names."""

    @abstractmethod
    def lasting(self, schema: pa.Schema) -> pa.Schema:
        """The schema in types that the format and its readers share; see `lasting_schema`."""

    @abstractmethod
    def columns(self, table: Log) -> pa.Schema:
        """Of the table, partition columns included, in such types."""

    @abstractmethod
    def new_file(self, table: Log | None, schema: pa.Schema) -> NewFile:
        """A place for rows of such a schema, under a name that nobody else has."""

    @abstractmethod
    def replace(
        self,
        table: Log | None,
        file: NewFile,
        footer: pq.FileMetaData,
        commit: Mapping[str, Any],
    ) -> bool:
        """Commit to the table as it was: the file in, what stood in the partition out.

        Returns:
            Whether it was done; false where the table has changed since, and nothing was done.

        Raises:
            TableError: the log cannot be written.
        """


class StagedFile(Generic[Log]):
    """A partition in the making: a Parquet file that the log does not name yet."""

    def __init__(self, sink: LogSink[Log], schema: pa.Schema, commit: Mapping[str, Any]) -> None:
        self._sink = sink
        self._commit = dict(commit)
        table = sink.table()
        self._replaced = sink.standing_files(table)
        self._schema = sink.lasting(schema)
        self._check_columns(table)
        with cannot_write(sink.place):
            self._named = sink.new_file(table, self._schema)
        self._may_be_named = False
        self._file = RowsToParquet(
            self._named.path,
            self._named.schema,
            commit,
            place=sink.place,
            filesystem=self._named.filesystem,
        )

    @property
    def rows(self) -> int:
        return self._file.rows

    def write(self, batch: pa.RecordBatch) -> None:
        schema = self._named.schema
        values = [self._sink.partition[name] for name in schema.names[batch.num_columns :]]
        try:
            held = [
                pa.repeat(pa.scalar(value, kind), batch.num_rows)
                for value, kind in zip(values, schema.types[batch.num_columns :], strict=True)
            ]
            rows = pa.record_batch([*batch.columns, *held], names=schema.names).cast(schema)
        except ValueError as error:
            raise TableError(
                f"cannot write {self._sink.place}: a value has no place in the table's types: "
                f"{' '.join(str(error).split())}."
            ) from error
        self._file.write(rows)

    def publish(self) -> None:
        footer = self._file.finish()
        for attempt in range(_TRIES):
            table = self._sink.table()
            if self._sink.standing_files(table) != self._replaced:
                raise TableError(
                    f"{self._sink.place} was replaced by another writer meanwhile; nothing was "
                    "changed by this one: run it again."
                )
            self._check_columns(table)
            self._may_be_named = True
            if self._sink.replace(table, self._named, footer, self._commit):
                return
            self._may_be_named = False
            # Not when the others try again.
            time.sleep(random.uniform(0.0, min(0.05 * 2**attempt, _LONGEST_WAIT)))
        raise TableError(
            f"{self._sink.place}: other writers came first {_TRIES} times; run it again later."
        )

    def close(self) -> None:
        """Let go of the file, and remove it unless the log may name it.

        A commit may succeed and its answer be lost. Then the file stays: without the log no reader
        sees it, and without the file none could read the table.
        """
        self._file.close()
        if not self._may_be_named:
            with suppress(OSError):
                self._named.filesystem.delete_file(self._named.path)

    def _check_columns(self, table: Log | None) -> None:
        """Refuse rows of other columns than the table has."""
        if table is None:
            return
        sink, held = self._sink, self._sink.columns(table)
        for column in self._schema:
            if column.name not in held.names:
                raise TableError(
                    f"{sink.uri} has no column {column.name!r}; it has "
                    f"{one_of(held.names)}: write another table, or add the column."
                )
            kind = held.field(column.name).type
            if kind != column.type:
                raise TableError(
                    f"column {column.name!r} is {column.type} here and {kind} in {sink.uri}; "
                    "cast it, or write another table."
                )
        ours = {*self._schema.names, *sink.partition}
        missing = [name for name in held.names if name not in ours]
        if missing:
            raise TableError(
                f"{sink.uri} also has {one_of(missing)}, which these rows lack; write "
                "another table."
            )
