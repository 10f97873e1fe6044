"""A partition of a Delta table, replaced by one entry of its log.

The rows go into one new Parquet file, which no reader sees before the log names it. The commit adds
that file and removes those of the partition. Where another writer came first, the log refuses; if
it left this partition alone, the commit is tried again on what stands there now.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import PyFileSystem

from probclass_core.errors import TableError, one_of
from probclass_core.spec import category_text
from probclass_core.table_format import TableRef
from probclass_core.tables.delta import opened, said_by_delta
from probclass_core.tables.hive import hive_segment
from probclass_core.tables.lasting import lasting_schema
from probclass_core.tables.parquet_file import RowsToParquet, cannot_write, commit_record

_COMMIT_KEY = "probclass.commit"
_TRIES = 8


class DeltaSink:
    """Where one partition (or a whole unpartitioned Delta table) is to stand.

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
            columns = list(table.metadata().partition_columns)
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
        files = self.standing_files(self.table())
        if len(files) != 1:
            return None
        try:
            return commit_record(files[0], self.filesystem)
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedFile]:
        with closing(StagedFile(self, schema, commit)) as staged:
            yield staged

    def table(self) -> DeltaTable | None:
        """The table as it is now; none where there is none yet."""
        with said_by_delta(self.ref):
            try:
                return opened(self.ref)
            except TableNotFoundError:
                return None

    def standing_files(self, table: DeltaTable | None) -> list[str]:
        """Paths of the partition's files, relative to the table."""
        if table is None:
            return []
        actions = pa.table(table.get_add_actions(flatten=True))
        paths: list[str] = []
        for row in actions.to_pylist():
            values = {name: row.get(f"partition.{name}") for name in self.partition}
            if values == self.partition:
                paths.append(unquote(row["path"]))
        return sorted(paths)

    @cached_property
    def filesystem(self) -> PyFileSystem:
        """The storage of the table, its root the table's own."""
        if "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        return PyFileSystem(DeltaStorageHandler(self.uri, dict(self.ref.options) or None))


class StagedFile:
    """A partition in the making: a Parquet file that the log does not name yet."""

    def __init__(self, sink: DeltaSink, schema: pa.Schema, commit: Mapping[str, Any]) -> None:
        self._sink = sink
        self._commit = dict(commit)
        self._replaced = sink.standing_files(sink.table())
        self._schema = lasting_schema(schema)
        # The log says what a file holds, but some readers believe its directories.
        directories = [hive_segment(*item) for item in sink.partition.items()]
        self._path = "/".join([*directories, f"part-{uuid.uuid4().hex}.parquet"])
        self._published = False
        with cannot_write(sink.place):
            filesystem = sink.filesystem
        self._file = RowsToParquet(
            self._path, self._schema, commit, place=sink.place, filesystem=filesystem
        )

    @property
    def rows(self) -> int:
        return self._file.rows

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            rows = batch.cast(self._schema)
        except pa.ArrowInvalid as error:
            raise TableError(
                f"cannot write {self._sink.place}: a value has no place in the table's types: "
                f"{' '.join(str(error).split())}."
            ) from error
        self._file.write(rows)

    def publish(self) -> None:
        self._file.finish()
        for attempt in range(_TRIES):
            table = self._sink.table()
            if self._sink.standing_files(table) != self._replaced:
                raise TableError(
                    f"{self._sink.place} was replaced by another writer meanwhile; nothing was "
                    "changed by this one: run it again."
                )
            try:
                self._commit_to(table)
            except DeltaError as error:
                # Another writer's commit came first, or it made the table first.
                made_meanwhile = table is None and self._sink.table() is not None
                if not isinstance(error, CommitFailedError) and not made_meanwhile:
                    raise TableError(
                        f"cannot write {self._sink.place}: {' '.join(str(error).split())}; what "
                        "stood there is unchanged."
                    ) from error
                time.sleep(random.uniform(0.0, 0.05 * 2**attempt))  # and not when others try
            else:
                self._published = True
                return
        raise TableError(
            f"{self._sink.place}: other writers came first {_TRIES} times; run it again later."
        )

    def close(self) -> None:
        """Let go of the file, and remove it unless the log names it."""
        self._file.close()
        if not self._published:
            # A commit may have succeeded and its answer been lost: ask the log, and when in doubt
            # leave the file, which no reader sees without the log.
            with suppress(OSError, TableError):
                if self._path not in self._sink.standing_files(self._sink.table()):
                    self._sink.filesystem.delete_file(self._path)

    def _commit_to(self, table: DeltaTable | None) -> None:
        sink = self._sink
        metadata = {_COMMIT_KEY: json.dumps(self._commit, sort_keys=True)}
        if table is None:
            create_table_with_add_actions(
                sink.uri,
                Schema.from_arrow(self._table_schema),
                [self._added()],
                mode="error",
                partition_by=list(sink.partition),
                storage_options=dict(sink.ref.options) or None,
                commit_properties=CommitProperties(custom_metadata=metadata),
            )
            return
        self._check_schema(table)
        table.create_write_transaction(
            [self._added()],
            mode="overwrite",
            schema=table.schema(),
            partition_by=list(sink.partition),
            partition_filters=[
                (name, "=", "" if value is None else category_text(value))
                for name, value in sink.partition.items()
            ],
            commit_properties=CommitProperties(custom_metadata=metadata),
        )

    def _added(self) -> AddAction:
        (info,) = self._sink.filesystem.get_file_info([self._path])
        values = {
            name: None if value is None else category_text(value)
            for name, value in self._sink.partition.items()
        }
        stats = json.dumps({"numRecords": self.rows})
        return AddAction(self._path, info.size, values, int(time.time() * 1000), True, stats)

    @property
    def _table_schema(self) -> pa.Schema:
        partition = [
            pa.field(name, pa.string() if value is None else pa.scalar(value).type)
            for name, value in self._sink.partition.items()
        ]
        return pa.schema([*self._schema, *partition])

    def _check_schema(self, table: DeltaTable) -> None:
        """Refuse rows of other columns than the table has."""
        held = lasting_schema(pa.schema(table.schema().to_arrow()))
        for column in self._schema:
            if column.name not in held.names:
                raise TableError(
                    f"{self._sink.uri} has no column {column.name!r}; it has "
                    f"{one_of(held.names)}: write another table, or add the column."
                )
            kind = held.field(column.name).type
            if kind != column.type:
                raise TableError(
                    f"column {column.name!r} is {column.type} here and {kind} in {self._sink.uri}; "
                    "cast it, or write another table."
                )
        ours = {*self._schema.names, *self._sink.partition}
        missing = [name for name in held.names if name not in ours]
        if missing:
            raise TableError(
                f"{self._sink.uri} also has {one_of(missing)}, which these rows lack; write "
                "another table."
            )
