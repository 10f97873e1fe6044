"""Write a partition of a Delta table: replace it or append to it by one entry of the log."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSystem, PyFileSystem

from probclass_core.errors import TableError, TableMismatchError, one_line, one_of
from probclass_core.io.commit.log_sink import LogSink, NewFile, PartitionFile, partition_key
from probclass_core.io.commit.parquet_writer import COMMIT_KEY
from probclass_core.io.commit.schemas import portable_schema
from probclass_core.io.delta.table import (
    check_writable,
    delta_filesystem,
    open_delta,
    translate_delta_errors,
)
from probclass_core.io.parquet.partitions import hive_folder
from probclass_core.io.references import TableRef
from probclass_core.io.storage_options import deltalake_options
from probclass_core.spec.model_spec import category_text

_CONSTRAINT = "delta.constraints."

_CONFIGURATION = {"delta.checkpointInterval": "10"}
"""Properties of a new table. Ten is the default of Spark, that of the library is 100: each commit
reads the log since the last checkpoint, which took most of the time of many small commits."""

_DEFAULT_COLUMNS = 32

_LONGEST_TEXT = 32

_LAST_CHARACTER = "\U0010ffff"

_MILLISECOND = dt.timedelta(milliseconds=1)


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
                return None
            check_writable(self.ref, table)
        self._check_constraints(table)
        return table

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
        actions = pa.table(table.get_add_actions(flatten=True))
        if not actions.num_rows:
            return {}
        names = self.partition_columns(table)
        columns = [actions[f"partition.{name}"].to_pylist() for name in names]
        files: dict[frozenset[Any], list[str]] = {}
        for path, *values in zip(actions["path"].to_pylist(), *columns, strict=True):
            key = partition_key(dict(zip(names, values, strict=True)))
            files.setdefault(key, []).append(unquote(path))
        return {key: sorted(paths) for key, paths in files.items()}

    def locate(self, table: DeltaTable | None, name: str) -> tuple[str, FileSystem]:
        return name, self.filesystem

    def portable(self, schema: pa.Schema) -> pa.Schema:
        return portable_schema(schema)

    def columns(self, table: DeltaTable) -> pa.Schema:
        return portable_schema(pa.schema(table.schema().to_arrow()))

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
        schema = files[0].file.schema if table is None else self.columns(table)
        if files and table is not None and self._add_columns(table, files[0].file.schema):
            return None
        names = [name for name in schema.names if name not in self.partition]
        indexed = indexed_columns(names, configuration)
        added = [self._add_action(file, indexed) for file in files]
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

    def _add_action(self, file: PartitionFile, indexed: Sequence[str]) -> AddAction:
        return AddAction(
            file.file.name,
            file.bytes,
            self._partition_texts,
            int(time.time() * 1000),
            True,
            file_statistics(file, indexed),
        )


def _keeps_rows(entry: Mapping[str, Any]) -> bool:
    """Whether a log entry of another engine is of a kind that removes no rows."""
    appends = entry.get("operationParameters", {}).get("mode") == "Append"
    return appends or str(entry.get("operation")).startswith(("OPTIMIZE", "VACUUM", "ADD", "SET"))


def indexed_columns(names: Sequence[str], configuration: Mapping[str, str]) -> Sequence[str]:
    """Return the columns of a table that have statistics: by default the first 32.

    Args:
        names: columns of the table, in order, without the partition columns.
        configuration: properties of the table; ``delta.dataSkippingNumIndexedCols`` is the number
            of columns with statistics, or -1 for all.
    """
    limit = int(configuration.get("delta.dataSkippingNumIndexedCols", _DEFAULT_COLUMNS))
    return names if limit < 0 else names[:limit]


def file_statistics(file: PartitionFile, indexed: Container[str]) -> str:
    """Return the ``stats`` of an add action, as JSON, by which readers skip files.

    The bounds of a column enclose every value of the file, in every reader's order. Some readers
    sort NaN after infinity and others never match it, so the maximum of a column with a NaN is
    infinity. A file has bounds for all of its columns or for none: deltalake's own dataset would
    skip a file that has bounds for some columns only, for any condition on the others.

    Null counts and bounds are of columns of plain types; binary columns have no bounds.

    Args:
        file: the file to add.
        indexed: names of the columns with statistics; see `indexed_columns`.
    """
    null_counts: dict[str, int] = {}
    bounds: dict[str, tuple[Any, Any]] = {}
    complete = True
    leaf = 0
    for column in file.file.schema:
        if column.name in indexed and not pa.types.is_nested(column.type):
            chunks = _column_chunks(file.footer, leaf)
            if all(chunk is not None and chunk.has_null_count for chunk in chunks):
                null_counts[column.name] = sum(chunk.null_count for chunk in chunks)
            found = _bounds(chunks, has_nan=column.name in file.nan_columns)
            if found is not None:
                bounds[column.name] = found
            elif null_counts.get(column.name) != file.footer.num_rows:
                complete = complete and pa.types.is_binary(column.type)
        leaf += _leaves(column.type)
    statistics: dict[str, Any] = {"numRecords": file.footer.num_rows}
    if complete:
        statistics["minValues"] = {name: least for name, (least, _) in bounds.items()}
        statistics["maxValues"] = {name: greatest for name, (_, greatest) in bounds.items()}
    return json.dumps({**statistics, "nullCount": null_counts}, allow_nan=False)


def _column_chunks(footer: pq.FileMetaData, leaf: int) -> list[pq.Statistics]:
    """Return the statistics of a Parquet column in each row group; None if it has none."""
    groups = range(footer.num_row_groups)
    return [footer.row_group(group).column(leaf).statistics for group in groups]


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet columns that store an Arrow column."""
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))
    return 1


def _bounds(chunks: Sequence[pq.Statistics], *, has_nan: bool) -> tuple[Any, Any] | None:
    """Return bounds of all values, in types of JSON; None if unknown or if there are no values."""
    try:
        extremes = _extremes(chunks)
        if has_nan:
            extremes = (extremes[0] if extremes else -math.inf), math.inf
        bounds = extremes and (_lower_bound(extremes[0]), _upper_bound(extremes[1]))
    except OverflowError:  # dates and times that Python cannot represent
        return None
    return None if bounds is None or None in bounds else bounds


def _extremes(chunks: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return the least and the greatest value, NaN ignored; None if unknown."""
    if any(chunk is None for chunk in chunks):
        return None
    filled = [chunk for chunk in chunks if chunk.num_values]
    if not filled or not all(chunk.has_min_max for chunk in filled):
        return None
    return min(chunk.min for chunk in filled), max(chunk.max for chunk in filled)


def _lower_bound(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]  # a prefix sorts before the text
    return _exact(value)


def _upper_bound(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        sorts_after = value[_LONGEST_TEXT] < _LAST_CHARACTER
        return value[:_LONGEST_TEXT] + _LAST_CHARACTER if sorts_after else None
    if isinstance(value, dt.datetime) and value.microsecond % 1000:
        value += _MILLISECOND  # rounded up, for the log has milliseconds
    return _exact(value)


def _exact(value: Any) -> Any:
    """Return the value in a type of JSON; None if that would change it."""
    if isinstance(value, float):
        # JSON has no infinities; Spark stores them as these texts.
        return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else None
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return value if isinstance(value, (bool, int, str)) else None
