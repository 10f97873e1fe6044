"""A partition of a table that keeps a log, replaced or added to by one commit.

The rows go into new Parquet files, which no reader sees before the log names them. The commit adds
these files and removes those of the partition, unless they are to stay. Where another writer came
first, the log refuses; if it left this partition alone, or rows are only added to it, the commit is
tried again on what stands there now.
"""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from probclass_core.errors import TableError, one_line
from probclass_core.io.commit.agreement import refuse_other_columns
from probclass_core.io.commit.parquet_writer import (
    RowsToParquet,
    StagedParquet,
    commit_record,
    unique_names,
    whole_commits,
)
from probclass_core.io.errors import translate_write_errors
from probclass_core.io.references import TableRef
from probclass_core.io.table import partition_schema

Log = TypeVar("Log")
"""A format's own table, as it was at one moment."""

_TRIES = 20
"""Of a commit, where other writers come first."""

_LONGEST_WAIT = 2.0
"""Seconds between two of them."""


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
        self._schema_of_partition = partition_schema(partition)
        self._records: dict[str, Mapping[str, Any] | None] = {}
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
    def location(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return f"{self.uri} ({named})" if named else self.uri

    @property
    def exists(self) -> bool:
        return bool(self.standing_files(self.table()))

    @property
    def commit_record(self) -> dict[str, Any] | None:
        table = self.table()
        records = self._whole_commits(table, self.standing_files(table))
        return records[0] if len(records) == 1 else None

    def commit_records(self) -> list[Mapping[str, Any]]:
        return self.commit_records_in(self.table())

    def commit_records_in(self, table: Log | None) -> list[Mapping[str, Any]]:
        """The records of what stands in the partition.

        They are in the footers of its files. Where another engine has compacted them, the log still
        tells what was added since the partition was last replaced.
        """
        files = self.standing_files(table)
        found = self._whole_commits(table, files)
        records: dict[str, Mapping[str, Any]] = {
            one["commit_id"]: one for one in found if one is not None
        }
        if table is not None and None in found:
            for one in self._added_since(self.logged(table)):
                records.setdefault(one["commit_id"], one)
        return list(records.values())

    def _whole_commits(
        self, table: Log | None, files: Sequence[str]
    ) -> list[dict[str, Any] | None]:
        """See `whole_commits`; parts that had no rows have no files, as the log tells."""
        records = [self._record(table, name) for name in files]
        found = whole_commits(records)
        parted = {one["commit_id"]: one for one in records if one is not None and "parts" in one}
        if table is None or None not in found or not parted:
            return found
        logged = {one["commit_id"]: one for one in self.logged(table) if one is not None}
        without_rows = [
            {**record, "part": number, "rows": 0}
            for commit_id, record in parted.items()
            for number in logged.get(commit_id, {}).get("without_rows", ())
        ]
        return whole_commits([*records, *without_rows])

    def _added_since(self, logged: Iterable[Mapping[str, Any] | None]) -> list[Mapping[str, Any]]:
        """Of the log's records, those of the partition since it was last replaced."""
        partition = json.loads(json.dumps(self.partition, default=str))
        since: list[Mapping[str, Any]] = []
        for record in logged:
            if record is None:
                since = []  # perhaps from here
            elif record.get("partition") == partition:
                since = [*(since if record.get("appended") else []), record]
        return since

    def _record(self, table: Log | None, name: str) -> Mapping[str, Any] | None:
        """The commit record in a file's footer; files never change."""
        if name not in self._records:
            try:
                self._records[name] = commit_record(*self.located(table, name))
            except (OSError, KeyError, ValueError, pa.ArrowException):
                self._records[name] = None
        return self._records[name]

    def check_columns(self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]) -> None:
        self.refuse_other_columns(self.table(), self.lasting(schema))

    def refuse_other_columns(self, table: Log | None, schema: pa.Schema) -> None:
        """Refuse rows of other columns than the table has; the schema is a lasting one."""
        if table is not None:
            held = self.columns(table)
            refuse_other_columns(self.uri, schema, held, partition=self.partition, exactly=True)

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedFiles[Log]]:
        with closing(StagedFiles(self, schema, commit)) as staged:
            yield staged

    @contextmanager
    def stage_append(
        self, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> Iterator[StagedFiles[Log]]:
        with closing(StagedFiles(self, schema, commit, more=True)) as staged:
            yield staged

    @property
    def partition_fields(self) -> list[pa.Field]:
        """The partition columns of a table that is new."""
        return list(self.lasting(self._schema_of_partition))

    def typed(self, name: str, kind: pa.DataType) -> Any:
        """The value of a partition column as the table has it.

        Raises:
            TableError: the table's type has no such value.
        """
        value = self.partition[name]
        try:
            typed = pa.scalar(value).cast(kind).as_py()
        except (pa.ArrowException, TypeError, ValueError):
            typed = None
        if typed != value:
            raise TableError(
                f"partition column {name!r} is {kind} in {self.uri}, where {value!r} has no place; "
                "cast it, or write another table."
            )
        return typed

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
    def new_file(self, table: Log | None, schema: pa.Schema, name: str) -> NewFile:
        """A place for rows of such a schema, in a file of that name."""

    @abstractmethod
    def logged(self, table: Log) -> Iterable[Mapping[str, Any] | None]:
        """The commit records that the log keeps, oldest first; none where others took rows out."""

    @abstractmethod
    def put(
        self,
        table: Log | None,
        files: Sequence[tuple[NewFile, pq.FileMetaData]],
        commit: Mapping[str, Any],
        *,
        more: bool,
    ) -> bool:
        """Commit to the table as it was: the files in, what stood in the partition out.

        Args:
            table: as it was looked at.
            files: that are written, of one schema, with their footers.
            commit: the record for the log.
            more: what stood in the partition stays.

        Returns:
            Whether it was done; false where the table has changed since, and nothing was done.

        Raises:
            TableError: the log cannot be written.
        """


class RowsOfPartition(RowsToParquet):
    """Rows on their way into one file, as the table has them: in its types, with the partition.

    Args:
        file: that is new.
        partition: values of the partition columns.
        commit: a record of plain values for the file's footer.
        place: of the partition, for messages.
        part: see `RowsToParquet`.
    """

    def __init__(
        self,
        file: NewFile,
        partition: Mapping[str, Any],
        commit: Mapping[str, Any],
        *,
        place: str,
        part: tuple[int, int],
    ) -> None:
        super().__init__(
            file.path, file.schema, commit, place=place, filesystem=file.filesystem, part=part
        )
        self.file = file
        self._partition = dict(partition)

    def write(self, batch: pa.RecordBatch) -> None:
        schema = self.file.schema
        values = [self._partition[name] for name in schema.names[batch.num_columns :]]
        try:
            held = [
                pa.repeat(pa.scalar(value, kind), batch.num_rows)
                for value, kind in zip(values, schema.types[batch.num_columns :], strict=True)
            ]
            rows = pa.record_batch([*batch.columns, *held], names=schema.names).cast(schema)
        except ValueError as error:
            raise TableError(
                f"cannot write {self._place}: a value has no place in the table's types: "
                f"{one_line(error)}."
            ) from error
        super().write(rows)


class StagedFiles(StagedParquet, Generic[Log]):
    """A partition in the making: Parquet files that the log does not name yet."""

    _parts: Sequence[RowsOfPartition] = ()

    def __init__(
        self,
        sink: LogSink[Log],
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        more: bool = False,
    ) -> None:
        self._sink = sink
        self._commit = dict(commit)
        self._more = more
        self._table = sink.table()
        self._replaced = sink.standing_files(self._table)
        self._schema = sink.lasting(schema)
        sink.refuse_other_columns(self._table, self._schema)
        self._may_be_named = False

    def parts(self, count: int) -> Sequence[RowsOfPartition]:
        sink = self._sink
        with translate_write_errors(sink.location):
            files = [
                sink.new_file(self._table, self._schema, f"part-{name}.parquet")
                for name in unique_names(count)
            ]
        self._parts = [
            RowsOfPartition(
                file, sink.partition, self._commit, place=sink.location, part=(number, count)
            )
            for number, file in enumerate(files)
        ]
        return self._parts

    def publish(self) -> None:
        sink = self._sink
        files = [(part.file, part.finish_file()) for part in self._parts if part.rows]
        record = {**self._commit, "rows": self.rows, "appended": self._more}
        if len(files) < len(self._parts):
            record["without_rows"] = [part.number for part in self._parts if not part.rows]
        for attempt in range(_TRIES):
            table = sink.table()
            if self._more:
                if self._commit["commit_id"] in {
                    c["commit_id"] for c in sink.commit_records_in(table)
                }:
                    return  # an equal attempt came first
            elif sink.standing_files(table) != self._replaced:
                raise TableError(
                    f"{sink.location} was replaced by another writer meanwhile; nothing was "
                    "changed by this one: run it again."
                )
            sink.refuse_other_columns(table, self._schema)
            self._may_be_named = True
            if sink.put(table, files, record, more=self._more):
                return
            self._may_be_named = False
            # Not when the others try again.
            time.sleep(random.uniform(0.0, min(0.05 * 2**attempt, _LONGEST_WAIT)))
        raise TableError(
            f"{sink.location}: other writers came first {_TRIES} times; run it again later."
        )

    def close(self) -> None:
        """Let go of the files, and remove them unless the log may name them.

        A commit may succeed and its answer be lost. Then the files stay: without the log no reader
        sees them, and without them none could read the table.
        """
        super().close()
        for part in () if self._may_be_named else self._parts:
            with suppress(OSError):
                part.file.filesystem.delete_file(part.file.path)
