"""A partition of a Delta table, replaced or added to by one entry of its log."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSystem, PyFileSystem

from probclass_core.errors import TableError, one_line, one_of
from probclass_core.io.commit.log_sink import LogSink, NewFile
from probclass_core.io.commit.parquet_writer import COMMIT_KEY
from probclass_core.io.commit.portable_types import lasting_schema
from probclass_core.io.delta.table import opened, said_by_delta
from probclass_core.io.parquet.hive import hive_folder
from probclass_core.spec import category_text

_CONSTRAINT = "delta.constraints."


class DeltaSink(LogSink[DeltaTable]):
    """Where one partition (or a whole unpartitioned Delta table) is to stand."""

    def table(self) -> DeltaTable | None:
        with said_by_delta(self.ref):
            try:
                table = opened(self.ref)
            except TableNotFoundError:
                return None
        rules = [key for key in table.metadata().configuration if key.startswith(_CONSTRAINT)]
        rules += [
            f"{column.name}: {key}"
            for column in table.schema().fields
            for key in column.metadata
            if key.startswith("delta.")
        ]
        if rules:
            raise TableError(
                f"{self.uri} has rules for its rows that cannot be checked here: {one_of(rules)}; "
                "drop them, or write another table."
            )
        return table

    def partition_columns(self, table: DeltaTable) -> list[str]:
        return list(table.metadata().partition_columns)

    def standing_files(self, table: DeltaTable | None) -> list[str]:
        if table is None:
            return []
        held = self.columns(table)
        wanted = {name: self.typed(name, held.field(name).type) for name in self.partition}
        actions = pa.table(table.get_add_actions(flatten=True))
        return sorted(
            unquote(row["path"])
            for row in actions.to_pylist()
            if all(row.get(f"partition.{name}") == value for name, value in wanted.items())
        )

    def located(self, table: DeltaTable | None, name: str) -> tuple[str, FileSystem]:
        return name, self.filesystem

    def lasting(self, schema: pa.Schema) -> pa.Schema:
        return lasting_schema(schema)

    def columns(self, table: DeltaTable) -> pa.Schema:
        return lasting_schema(pa.schema(table.schema().to_arrow()))

    def new_file(self, table: DeltaTable | None, schema: pa.Schema, name: str) -> NewFile:
        # The log says what a file holds, but some readers believe its directories.
        path = f"{hive_folder(self.partition)}/{name}".lstrip("/")
        return NewFile(path, path, self.filesystem, schema)

    def logged(self, table: DeltaTable) -> list[dict[str, Any] | None]:
        return [
            json.loads(entry[COMMIT_KEY]) if COMMIT_KEY in entry else None
            for entry in table.history()[::-1]  # they come newest first
            if COMMIT_KEY in entry or not _keeps_rows(entry)
        ]

    def put(
        self,
        table: DeltaTable | None,
        files: Sequence[tuple[NewFile, pq.FileMetaData]],
        commit: Mapping[str, Any],
        *,
        more: bool,
    ) -> bool:
        added = [self._added(file, footer.num_rows) for file, footer in files]
        record = {COMMIT_KEY: json.dumps(dict(commit), sort_keys=True)}
        if table is not None and not more and self.standing_files(table):
            self._refuse_append_only(table)
        # Whether to try again is for the caller to say, who looks at the partition first.
        properties = CommitProperties(custom_metadata=record, max_commit_retries=0)
        try:
            if table is None:
                create_table_with_add_actions(
                    self.uri,
                    Schema.from_arrow(pa.schema([*files[0][0].schema, *self.partition_fields])),
                    added,
                    mode="error",
                    partition_by=list(self.partition),
                    storage_options=dict(self.ref.options) or None,
                    commit_properties=properties,
                )
            else:
                table.create_write_transaction(
                    [*added],
                    mode="append" if more else "overwrite",
                    schema=table.schema(),
                    partition_by=list(self.partition),
                    partition_filters=None if more else self._partition_filters,
                    commit_properties=properties,
                )
        except DeltaError as error:
            # Another writer's commit came first, or it made the table first.
            made_meanwhile = table is None and self.table() is not None
            if isinstance(error, CommitFailedError) or made_meanwhile:
                return False
            raise TableError(
                f"cannot write {self.location}: {one_line(error)}; the existing data is unchanged."
            ) from error
        return True

    def _refuse_append_only(self, table: DeltaTable) -> None:
        if table.metadata().configuration.get("delta.appendOnly") == "true":
            raise TableError(
                f"{self.location} is in a table that is only added to (delta.appendOnly); score "
                "with overwrite='append', or write another table."
            )

    @cached_property
    def filesystem(self) -> PyFileSystem:
        """The storage of the table, its root the table's own."""
        if "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        return PyFileSystem(DeltaStorageHandler(self.uri, dict(self.ref.options) or None))

    @property
    def _partition_texts(self) -> dict[str, str | None]:
        """Values of the partition as the log has them."""
        return {
            name: None if value is None else category_text(value)
            for name, value in self.partition.items()
        }

    @property
    def _partition_filters(self) -> list[tuple[str, str, str]]:
        return [(name, "=", value or "") for name, value in self._partition_texts.items()]

    def _added(self, file: NewFile, rows: int) -> AddAction:
        (info,) = file.filesystem.get_file_info([file.path])
        stats = json.dumps({"numRecords": rows})
        values = self._partition_texts
        return AddAction(file.name, info.size, values, int(time.time() * 1000), True, stats)


def _keeps_rows(entry: Mapping[str, Any]) -> bool:
    """Whether another's entry of the log is of a kind that takes no row out."""
    appends = entry.get("operationParameters", {}).get("mode") == "Append"
    return appends or str(entry.get("operation")).startswith(("OPTIMIZE", "VACUUM", "ADD", "SET"))
