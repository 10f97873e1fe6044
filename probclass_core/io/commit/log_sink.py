"""Write a partition of a table that has a log: replace it or append to it in one commit.

The rows go into new Parquet files, which no reader sees until the log names them. The commit adds
these files and, for a replacement, removes the previous files of the partition. If another writer
commits first, the log rejects the commit. It is then tried again on the new version of the table,
provided that the other writer left this partition alone or that the rows are only appended.
"""

from __future__ import annotations

import json
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from probclass_core.arrow.bundle import as_json
from probclass_core.errors import TableError, TableMismatchError, one_line
from probclass_core.io.commit.parquet import (
    COMMIT_KEY,
    EvolvingSink,
    ParquetPart,
    cast_exactly,
    portable_schema,
    read_commit_record,
)
from probclass_core.io.failures import (
    CONTENDED_ATTEMPTS,
    contended_attempts,
    translate_write_errors,
)
from probclass_core.io.local_files import sync, sync_names
from probclass_core.io.references import TableRef
from probclass_core.io.sink import (
    ColumnChanges,
    CommitRecord,
    StagedPartition,
    conflict,
    partition_schema,
)

LogTable = TypeVar("LogTable")
"""The table object of a format's own library, at one version."""


@dataclass(frozen=True)
class NewFile:
    """A data file that the log does not name yet.

    Attributes:
        name: path or URI of the file in the log.
        path: path of the file in its file system.
        filesystem: file system of the file.
        schema: schema of the file; the partition columns come last if the format stores them in
            its files.
    """

    name: str
    path: str
    filesystem: FileSystem
    schema: pa.Schema


@dataclass
class _Version(Generic[LogTable]):
    """One version of a table, with what sinks of its partitions read of it once.

    Attributes:
        table: the table; None if it does not exist.
        files: names of the data and delete files of each partition, by its `partition_key`; None
            if only those of one partition are needed.
        log: what `LogSink.log_records` returns, or None if it was not read.
    """

    table: LogTable | None
    files: Mapping[frozenset[Any], Sequence[str]] | None = None
    log: Sequence[CommitRecord | None] | None = None


def partition_key(values: Mapping[str, Any]) -> frozenset[Any]:
    """Return a key for a partition, whatever the order of its columns."""
    return frozenset(values.items())


class LogSink(EvolvingSink, Generic[LogTable]):
    """A `Sink` for one partition, or a whole unpartitioned table, of a format with a log.

    Args:
        ref: the table; it need not exist yet.
        partition: value of every partition column; empty for the whole table.

    Raises:
        TableError: if the table has other partition columns, or cannot be read.

    Attributes:
        narrowest_int: bits of the narrowest integer type of the format.
    """

    narrowest_int: ClassVar[int] = 8

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        super().__init__(ref, partition)
        self._records: dict[str, Mapping[str, Any] | None] = {}
        self._planned = _Version(self.load())
        self._open(partition)

    def _open(self, partition: Mapping[str, Any]) -> None:
        self.partition, table = dict(partition), self._planned.table
        self._partition_schema = partition_schema(partition)
        if table is not None:
            columns = self.partition_columns(table)
            if sorted(columns) != sorted(self.partition):
                raise TableMismatchError(
                    f"{self.uri} is partitioned by {', '.join(columns) or 'no columns'}; expected "
                    "a partition with a value for each of these columns, got one of "
                    f"{', '.join(self.partition) or 'no columns'}."
                )

    def sibling(self, partition: Mapping[str, Any]) -> Self:
        planned = self._planned
        if planned.files is None and planned.table is not None:
            planned.files = self.files_by_partition(planned.table)
        return super().sibling(partition)

    @property
    def uri(self) -> str:
        return self.ref.uri

    @property
    def location(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.partition.items())
        return f"{self.uri} ({values})" if values else self.uri

    @property
    def exists(self) -> bool:
        return bool(self.current_files(self._planned.table))

    def commits(self) -> Sequence[CommitRecord | None]:
        return self.commits_in(self._planned.table)

    def commits_in(self, table: LogTable | None) -> Sequence[CommitRecord | None]:
        """See `commits`; records are read from the footers of files, and if need be from the log.

        If another engine has compacted files, the log has the records of the commits since the
        partition was last replaced.
        """
        commits = [self._file_record(table, name) for name in self.current_files(table)]
        if None in commits:
            known = {record["commit_id"] for record in commits if record is not None}
            logged = _by_commit(self._since_replacement(self._log_of(table)))
            commits += [logged[commit_id] for commit_id in logged if commit_id not in known]
        return commits

    def _log_of(self, table: LogTable | None) -> Sequence[CommitRecord | None]:
        """The records of the log; siblings share those of their version."""
        version = self._planned if self._planned.table is table else _Version(table)
        if version.log is None:
            version.log = [] if table is None else list(self.log_records(table))
        return version.log

    def _since_replacement(
        self, logged: Iterable[Mapping[str, Any] | None]
    ) -> list[Mapping[str, Any]]:
        """Return the log's records of this partition since it was last replaced."""
        partition = as_json(self.partition)
        records: list[Mapping[str, Any]] = []
        for record in logged:
            if record is None or (record.get("removed") and record["partition"] == partition):
                records = []  # the removed rows may be of this partition
            elif record.get("partition") == partition:
                records = [*(records if record.get("appended") else []), record]
        return records

    def _file_record(self, table: LogTable | None, name: str) -> Mapping[str, Any] | None:
        """Return the commit record of a file; cached, for files never change."""
        if name not in self._records:
            try:
                self._records[name] = read_commit_record(*self.locate(table, name))
            except (OSError, ValueError):  # the table or its storage does not exist
                self._records[name] = None
        return self._records[name]

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        return self._changes(self._planned.table, self.portable(schema))

    def stored_schema(self, table: LogTable | None, schema: pa.Schema) -> pa.Schema:
        """The schema in which rows of a portable schema are stored: in the types of the table.

        Raises:
            TableError: if the table cannot take the rows.
        """
        if table is None:
            return schema
        self._changes(table, schema)
        columns = self.columns(table)
        return pa.schema(
            [
                field.with_type(columns.field(field.name).type)
                if field.name in columns.names
                else field
                for field in schema
            ]
        )

    def _changes(self, table: LogTable | None, schema: pa.Schema) -> ColumnChanges:
        """How rows of a portable schema differ from the table, if it exists."""
        return self.compare_columns(
            self.uri, schema, None if table is None else self.columns(table)
        )

    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> AbstractContextManager[StagedFiles[LogTable]]:
        return closing(StagedFiles(self, schema, commit, append=append))

    def remove(self) -> None:
        table = self.load()
        if table is None or not self.current_files(table):
            return
        partition = as_json(self.partition)
        record = {"commit_id": None, "partition": partition, "removed": True}
        columns = [field for field in self.columns(table) if field.name not in self.partition]
        with closing(StagedFiles(self, pa.schema(columns), record, append=False)) as staged:
            staged.publish()

    @property
    def partition_fields(self) -> list[pa.Field]:
        """The partition columns of a table that does not exist yet."""
        return list(self.portable(self._partition_schema))

    def partition_values(self, schema: pa.Schema) -> dict[str, Any]:
        """Return the partition values in the types of the table's schema.

        Raises:
            TableError: if a type cannot represent its value.
        """
        return {name: self._cast(name, schema.field(name).type) for name in self.partition}

    def _cast(self, name: str, kind: pa.DataType) -> Any:
        value = self.partition[name]
        try:
            cast = pa.scalar(value).cast(kind).as_py()
        except (pa.ArrowException, TypeError, ValueError):
            cast = None
        if cast != value:
            raise TableMismatchError(
                f"partition column {name!r} is {kind} in {self.uri}, which cannot represent "
                f"{value!r}; cast it, or write another table."
            )
        return cast

    @abstractmethod
    def load(self) -> LogTable | None:
        """Load the newest version of the table; None if the table does not exist."""

    def newest(self) -> LogTable | None:
        """Load the newest version like `load`; the next call may change what this one returned."""
        return self.load()

    @abstractmethod
    def partition_columns(self, table: LogTable) -> Sequence[str]:
        """Return the names of the partition columns, outermost first."""

    def current_files(self, table: LogTable | None) -> Sequence[str]:
        """Return the names of the partition's data and delete files, sorted."""
        if table is None:
            return []
        if self._planned.table is table and self._planned.files is not None:
            return self._planned.files.get(self._key(table), [])
        return self.files_of_partition(table)

    def files_of_partition(self, table: LogTable) -> Sequence[str]:
        """Return the same of a table whose files were not read before."""
        return self.files_by_partition(table).get(self._key(table), [])

    def _key(self, table: LogTable) -> frozenset[Any]:
        return partition_key(self.partition_values(self.columns(table)))

    @abstractmethod
    def files_by_partition(self, table: LogTable) -> Mapping[frozenset[Any], Sequence[str]]:
        """Return what `files_of_partition` returns, for each partition by its `partition_key`."""

    @abstractmethod
    def locate(self, table: LogTable | None, name: str) -> tuple[str, FileSystem]:
        """Return the path and the file system of a file that the log names.

        Raises:
            FileNotFoundError: if the table does not exist.
        """

    def portable(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema in the types that the format can store; see `portable_schema`."""
        return portable_schema(schema, narrowest_int=self.narrowest_int)

    @abstractmethod
    def columns(self, table: LogTable) -> pa.Schema:
        """Return the portable schema of the table, partition columns included."""

    @abstractmethod
    def new_file(self, table: LogTable | None, schema: pa.Schema, name: str) -> NewFile:
        """Choose the location of a new file for rows of a portable schema."""

    def local_path(self, file: NewFile) -> Path | None:
        """Return the path of a new file on a local disk; None if it is elsewhere."""
        return Path(file.path) if isinstance(file.filesystem, LocalFileSystem) else None

    @abstractmethod
    def log_records(self, table: LogTable) -> Iterable[Mapping[str, Any] | None]:
        """Return the commit records in the log, oldest first.

        None means a commit of another engine that may have removed rows.
        """

    @abstractmethod
    def try_commit(
        self,
        table: LogTable | None,
        files: Sequence[PartitionFile],
        properties: Mapping[str, str],
        *,
        append: bool,
    ) -> Sequence[Path] | None:
        """Commit files to a version of the table, once.

        Args:
            table: the version that the commit was prepared for.
            files: finished files to add, all with the same schema.
            properties: texts to store with the commit in the log.
            append: whether the previous files of the partition stay.

        Returns:
            The files on a local disk that the commit added to the log; None if another commit came
            first, or the table only gained columns, so that the commit has to be prepared for the
            newest version.

        Raises:
            TableError: if the log cannot be written.
        """


def _by_commit(logged: Iterable[CommitRecord | None]) -> dict[str, dict[str, Any]]:
    """Records of a log by their commit."""
    return {
        record["commit_id"]: {key: record[key] for key in record if key != "appended"}
        for record in logged
        if record is not None
    }


def _sync(paths: Iterable[Path]) -> None:
    """Make files survive a power cut, with their names."""
    existing = [path for path in paths if path.exists()]
    for path in existing:
        sync(path)
    sync_names(*existing)


class PartitionFile(ParquetPart):
    """One data file of a partition, in the types of the table.

    Args:
        file: location and schema of the file.
        partition: values of the partition columns.
        commit: record of plain values for the footer of the file.
        location: path or URI of the partition, for messages.

    Attributes:
        file: name and location of the file.
    """

    def __init__(
        self,
        file: NewFile,
        partition: Mapping[str, Any],
        commit: Mapping[str, Any],
        *,
        location: str,
    ) -> None:
        super().__init__(
            file.path, file.schema, commit, location=location, filesystem=file.filesystem
        )
        self.file = file
        self._partition = dict(partition)

    def write(self, batch: pa.RecordBatch) -> None:
        schema = self.file.schema
        partition = list(schema)[batch.num_columns :]
        columns = [
            cast_exactly(column, field, self._location)
            for column, field in zip(batch.columns, schema, strict=False)
        ]
        for field in partition:
            value = pa.scalar(self._partition[field.name], field.type)
            columns.append(pa.repeat(value, batch.num_rows))
        super().write(pa.record_batch(columns, schema=schema))

    def finish(self, summary: Mapping[str, Any] | None = None) -> pq.FileMetaData | None:
        """Finish the file; without rows there is none, for Iceberg shows no empty file."""
        return super().finish(summary) if self.rows else None

    def adopt(self, finished: pq.FileMetaData | None) -> None:
        if finished is not None:
            super().adopt(finished)

    @property
    def bytes(self) -> int:
        """Size of the file, which is finished."""
        (info,) = self.file.filesystem.get_file_info([self.file.path])
        return int(info.size)


class StagedFiles(StagedPartition, Generic[LogTable]):
    """Staged rows of a partition, in a Parquet file that the log does not name yet."""

    part: PartitionFile

    def __init__(
        self,
        sink: LogSink[LogTable],
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        append: bool,
    ) -> None:
        self._sink = sink
        self._commit = dict(commit)
        self._append = append
        self._table = sink.newest()
        self._files_before = sink.current_files(self._table)
        self._schema = sink.stored_schema(self._table, sink.portable(schema))
        self._may_be_committed = False
        with translate_write_errors(sink.location):
            file = sink.new_file(self._table, self._schema, f"part-{uuid.uuid4().hex}.parquet")
        self.part = PartitionFile(file, sink.partition, self._commit, location=sink.location)

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        sink = self._sink
        files = [self.part] if self.rows else []
        record = {**self._commit, **(summary or {}), "rows": self.rows, "appended": self._append}
        properties = {COMMIT_KEY: json.dumps(record, sort_keys=True)}
        with translate_write_errors(sink.location):
            for file in files:
                file.finish()
            _sync(path for file in files if (path := sink.local_path(file.file)) is not None)
        for _ in contended_attempts():
            table = sink.newest()
            if self._append:
                committed = {one["commit_id"] for one in sink.commits_in(table) if one is not None}
                if self._commit["commit_id"] in committed:
                    return  # another attempt at this commit came first
            elif sink.current_files(table) != self._files_before:
                raise conflict(sink.location)
            if sink.stored_schema(table, self._schema) != self._schema:
                raise conflict(sink.location, "got other types")
            self._may_be_committed = True
            added = sink.try_commit(table, files, properties, append=self._append)
            if added is not None:
                self._sync_log(added)
                return
            self._may_be_committed = False
        raise TableError(
            f"{sink.location}: other writers committed first {CONTENDED_ATTEMPTS} times; run it "
            "again later."
        )

    def _sync_log(self, added: Sequence[Path]) -> None:
        """Make a commit survive a power cut; delta-rs and pyiceberg do not sync files."""
        try:
            _sync(added)
        except OSError as error:
            raise TableError(
                f"{self._sink.location} is committed, but the disk does not confirm it: "
                f"{one_line(error)}; check the disk and the table."
            ) from error

    def close(self) -> None:
        """Close the file, and remove it unless the log may name it.

        If a commit failed with an error, it may still have succeeded. The file then stays: a
        reader ignores files that the log does not name, but cannot read a table without those that
        it does.
        """
        super().close()
        if not self._may_be_committed:
            with suppress(OSError):
                self.part.file.filesystem.delete_file(self.part.file.path)
