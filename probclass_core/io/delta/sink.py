"""Write a partition of a Delta table: replace it or append to it by one entry of the log."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSystem, PyFileSystem

from probclass_core.errors import TableError, TableMismatchError, one_line, one_of
from probclass_core.io.commit.log_sink import LogSink, NewFile, PartitionFile, partition_key
from probclass_core.io.commit.parquet_writer import COMMIT_KEY, DATA_FILE
from probclass_core.io.delta.table import (
    added_files,
    check_writable,
    delta_filesystem,
    open_delta,
    parquet_files,
    translate_delta_errors,
)
from probclass_core.io.parquet.discovery import hive_folder
from probclass_core.io.references import TableRef
from probclass_core.io.storage_options import deltalake_options
from probclass_core.spec.model_spec import category_text

_CONSTRAINT = "delta.constraints."

_CONFIGURATION = {"delta.checkpointInterval": "10"}
"""Properties of a new table. Ten is the default of Spark, that of the library is 100: each commit
reads the log since the last checkpoint, which took most of the time of many small commits."""


@dataclass
class _Newest:
    """The newest version of a table that a sink and its siblings have seen.

    Attributes:
        table: the table; None before it was opened.
        entry: size and time of the file of the log that made this version.
    """

    table: DeltaTable | None = None
    entry: tuple[int, int] | None = None


class DeltaSink(LogSink[DeltaTable]):
    """A sink for one partition, or a whole unpartitioned Delta table.

    Args:
        ref: the table; it need not exist yet.
        partition: value of every partition column; empty for the whole table.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        self._newest = _Newest()
        super().__init__(ref, partition)

    def load(self) -> DeltaTable | None:
        with translate_delta_errors(self.ref):
            try:
                table = open_delta(self.ref)
            except TableNotFoundError:
                self._check_folder()
                return None
            check_writable(self.ref, table)
        self._check_constraints(table)
        return table

    def _check_folder(self) -> None:
        """Refuse a folder with files of another table: readers of files would read both."""
        for path in parquet_files(self.ref):
            if not re.fullmatch(DATA_FILE, path):
                raise TableMismatchError(
                    f"{self.uri} is not a Delta table, and has files such as {path!r}; write to "
                    "another folder, or convert it by deltalake.convert_to_deltalake."
                )

    def newest(self) -> DeltaTable | None:
        # Opening a table replays its log since the last checkpoint; an update reads what is new.
        # If the entry of the version changed, another table took the place of the one seen.
        seen = self._newest
        if seen.table is None or seen.entry != self._log_entry(seen.table):
            seen.table = self.load()
        else:
            with translate_delta_errors(self.ref):
                seen.table.update_incremental()
                check_writable(self.ref, seen.table)
            self._check_constraints(seen.table)
        seen.entry = None if seen.table is None else self._log_entry(seen.table)
        return seen.table

    def _log_entry(self, table: DeltaTable) -> tuple[int, int]:
        """Size and time of the file of the log that made the version of a table."""
        with translate_delta_errors(self.ref):
            path = f"_delta_log/{table.version():020}.json"
            (info,) = self.filesystem.get_file_info([path])
            return info.size or 0, info.mtime_ns or 0

    def _check_constraints(self, table: DeltaTable) -> None:
        constraints = [key for key in table.metadata().configuration if key.startswith(_CONSTRAINT)]
        constraints += [
            f"{column.name}: {key}"
            for column in table.schema().fields
            for key in column.metadata
            if key.startswith("delta.")
        ]
        if constraints:
            raise TableMismatchError(
                f"{self.uri} has constraints on its rows that probclass cannot check: "
                f"{one_of(constraints)}; drop them, or write another table."
            )

    def partition_columns(self, table: DeltaTable) -> list[str]:
        return list(table.metadata().partition_columns)

    def files_by_partition(self, table: DeltaTable) -> dict[frozenset[Any], list[str]]:
        files: dict[frozenset[Any], list[str]] = {}
        for path, (_, partition) in added_files(table).items():
            files.setdefault(partition_key(partition), []).append(path)
        return {key: sorted(paths) for key, paths in files.items()}

    def locate(self, table: DeltaTable | None, name: str) -> tuple[str, FileSystem]:
        return name, self.filesystem

    def columns(self, table: DeltaTable) -> pa.Schema:
        return self.portable(pa.schema(table.schema().to_arrow()))

    def new_file(self, table: DeltaTable | None, schema: pa.Schema, name: str) -> NewFile:
        # The log has the partition values of a file, but some readers take them from its path.
        path = f"{hive_folder(self.partition)}/{name}".lstrip("/")
        return NewFile(path, path, self.filesystem, schema)

    def log_records(self, table: DeltaTable) -> list[dict[str, Any] | None]:
        return [
            json.loads(entry[COMMIT_KEY]) if COMMIT_KEY in entry else None
            for entry in reversed(table.history())  # newest first
            if COMMIT_KEY in entry or not _keeps_rows(entry)
        ]

    def try_commit(
        self,
        table: DeltaTable | None,
        files: Sequence[PartitionFile],
        properties: Mapping[str, str],
        *,
        append: bool,
    ) -> list[Path] | None:
        configuration = {} if table is None else table.metadata().configuration
        append_only = configuration.get("delta.appendOnly") == "true"
        if append_only and not append and self.current_files(table):
            raise TableMismatchError(
                f"cannot replace {self.location}: the table only accepts appended rows "
                "(delta.appendOnly); score with overwrite='append', or write another table."
            )
        if files and table is not None and self._add_columns(table, files[0].file.schema):
            return None
        added = [self._add_action(file) for file in files]
        version = -1 if table is None else table.version()
        # Never retried by the library: the caller first looks at the partition again.
        commit = CommitProperties(custom_metadata=dict(properties), max_commit_retries=0)
        try:
            if table is None:
                create_table_with_add_actions(
                    self.uri,
                    Schema.from_arrow(pa.schema([*files[0].file.schema, *self.partition_fields])),
                    added,
                    mode="error",
                    partition_by=list(self.partition),
                    configuration=_CONFIGURATION,
                    storage_options=deltalake_options(self.uri, self.ref.options),
                    commit_properties=commit,
                )
            else:
                table.create_write_transaction(
                    [*added],
                    mode="append" if append else "overwrite",
                    schema=table.schema(),
                    partition_by=list(self.partition),
                    partition_filters=None if append else self._partition_filters,
                    commit_properties=commit,
                )
        except DeltaError as error:
            created_by_other = table is None and self.load() is not None
            if isinstance(error, CommitFailedError) or created_by_other:
                return None
            raise TableError(
                f"cannot write {self.location}: {one_line(error)}; the existing data is unchanged."
            ) from error
        return [] if "://" in self.uri else self._log_files(version)

    def _log_files(self, version: int) -> list[Path]:
        """What a commit on a version may have added to the log, and what led to that version.

        Columns are added by an entry of its own; a checkpoint follows some entries.
        """
        log = Path(self.uri) / "_delta_log"
        entries = [log / f"{number:020}.json" for number in (version, version + 1)]
        return [*entries, log / f"{version + 1:020}.checkpoint.parquet", log / "_last_checkpoint"]

    def _add_columns(self, table: DeltaTable, rows: pa.Schema) -> bool:
        """Add columns that the table lacks, by an entry of the log; False if it has all of them.

        An entry that adds files cannot also enable the table features that a type needs.
        """
        columns = [field for field in rows if field.name not in self.columns(table).names]
        if not columns:
            return False
        fields = Schema.from_arrow(pa.schema(columns).remove_metadata()).fields
        with suppress(CommitFailedError), translate_delta_errors(self.ref):
            table.alter.add_columns(fields)
        return True

    def local_path(self, file: NewFile) -> Path | None:
        return None if "://" in self.uri else Path(self.uri) / file.path

    @cached_property
    def filesystem(self) -> PyFileSystem:
        """The storage of the table, with paths relative to the table."""
        if "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        return delta_filesystem(self.ref)

    @property
    def _partition_texts(self) -> dict[str, str | None]:
        """Partition values as the log stores them."""
        return {
            name: None if value is None else category_text(value)
            for name, value in self.partition.items()
        }

    @property
    def _partition_filters(self) -> list[tuple[str, str, str]]:
        return [(name, "=", value or "") for name, value in self._partition_texts.items()]

    def _add_action(self, file: PartitionFile) -> AddAction:
        return AddAction(
            file.file.name,
            file.bytes,
            self._partition_texts,
            int(time.time() * 1000),
            True,
            json.dumps({"numRecords": file.rows}),  # readers skip row groups by the footers
        )


def _keeps_rows(entry: Mapping[str, Any]) -> bool:
    """Whether a log entry of another engine is of a kind that removes no rows."""
    appends = entry.get("operationParameters", {}).get("mode") == "Append"
    return appends or str(entry.get("operation")).startswith(("OPTIMIZE", "VACUUM", "ADD", "SET"))
