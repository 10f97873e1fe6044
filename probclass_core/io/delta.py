"""Delta Lake tables: read one version, write a partition, list what killed writers left.

A partition is replaced or appended to by one entry of the log.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.table import MAX_SUPPORTED_READER_VERSION, SUPPORTED_READER_FEATURES
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from probclass_core.errors import TableError, TableMismatchError, one_line, one_of
from probclass_core.io.commit.log_sink import LogSink, NewFile, PartitionFile, partition_key
from probclass_core.io.commit.parquet import COMMIT_KEY, DATA_FILE
from probclass_core.io.filesystem import Location, is_file
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.discovery import hive_folder
from probclass_core.io.parquet.files import ColumnMatch, StoredColumn, field_id, partition_condition
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.storage_options import deltalake_options
from probclass_core.spec.model_spec import category_text

_READ_FEATURES = SUPPORTED_READER_FEATURES | (
    {"columnMapping", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"}
    if hasattr(DeltaTable, "deletion_vectors")  # not in older versions of deltalake
    else set()
)
"""Features of tables that can be read; those of `SUPPORTED_READER_FEATURES` can be written, too."""

_READ_OPTIONS = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
"""Reads times that Spark wrote as the table has them; nanoseconds end in the year 2262."""

_CONSTRAINT = "delta.constraints."

_CONFIGURATION = {"delta.checkpointInterval": "10"}
"""Properties of a new table. Ten is the default of Spark, that of the library is 100: each commit
reads the log since the last checkpoint, which took most of the time of many small commits."""

_LOG = "_delta_log"

# On a local disk delta-rs appends '#' and a number to the name until the file is complete.
_OURS = re.compile(rf"{DATA_FILE}(?:#\d+)?|{_LOG}/[^/]+#\d+")


class DeltaFiles(DatasetTable):
    """The files of a Delta table at the version that a reference names, or at its newest.

    Files never change, so their paths and their deleted rows identify the state of the input.

    Args:
        ref: the table.

    Raises:
        TableError: if there is no such table or version, or it uses a feature that cannot be read.
    """

    def __init__(self, ref: TableRef) -> None:
        with _translate_errors(ref):
            table = open_delta(ref)
            self._fields = _schema(table)
            self._mapping = _column_mapping(table)
            self._deleted = _deleted_rows(table, ref)
            dataset = _dataset(table, ref)
        super().__init__(
            dataset,
            uri=ref.uri,
            location=Location(dataset.filesystem, "", ref.uri, remote="://" in ref.uri),
            partition_columns=list(table.metadata().partition_columns),
            version=table.version(),
        )

    def _match(self, file_schema: pa.Schema) -> tuple[StoredColumn, ...]:
        mode = self._mapping
        if mode == "id" and all(field_id(field) is None for field in file_schema):
            mode = "name"  # as delta-rs reads files without ids
        return _MATCHES[mode].columns(self._fields, file_schema)

    def _deleted_positions(self, path: str) -> pa.Int64Array | None:
        return self._deleted.get(path)

    def _deletions(self, path: str) -> Sequence[str]:
        positions = self._deleted.get(path)
        return [] if positions is None else [hashlib.sha256(positions.to_numpy()).hexdigest()]


def _mapped_name(field: pa.Field) -> str:
    return str(field.metadata[b"delta.columnMapping.physicalName"], "utf-8")


def _mapped_id(field: pa.Field) -> int:
    return int(field.metadata[b"delta.columnMapping.id"])


_MATCHES = {
    "none": ColumnMatch(lambda field: field.name, lambda field: field.name),
    "name": ColumnMatch(_mapped_name, lambda field: field.name),
    "id": ColumnMatch(_mapped_id, field_id),
}
"""How columns are found in files, by the mode of column mapping."""


def _schema(table: DeltaTable) -> pa.Schema:
    """Return the columns of a table; the metadata of the fields has their column mapping."""
    return pa.schema(table.schema().to_arrow())


def _column_mapping(table: DeltaTable) -> str:
    return table.metadata().configuration.get("delta.columnMapping.mode", "none")


def _reader_features(table: DeltaTable) -> set[str]:
    """Return the features that a reader must know; column mapping has none in older tables."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ())}
    if protocol.min_reader_version > MAX_SUPPORTED_READER_VERSION:
        features.add(f"reader version {protocol.min_reader_version}")
    return features | ({"columnMapping"} if _column_mapping(table) != "none" else set())


def _deleted_rows(table: DeltaTable, ref: TableRef) -> dict[str, pa.Int64Array]:
    """Return the positions of the deleted rows of each file that has any, by path.

    Raises:
        TableError: if the file of a deletion vector cannot be told.
    """
    if "deletionVectors" not in _reader_features(table):
        return {}
    paths = _added_files(table)
    deleted: dict[str, pa.Int64Array] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for uri, kept in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            path = unquote(uri.removeprefix(table.table_uri))
            if path not in paths:
                raise TableMismatchError(
                    f"{ref.uri} has deleted rows in {uri}, which is outside its folder, so it "
                    "cannot be read; purge the deleted rows (REORG TABLE … APPLY (PURGE))."
                )
            deleted[path] = pc.indices_nonzero(pc.invert(kept.values)).cast(pa.int64())
    return deleted


def _added_files(table: DeltaTable) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the size and the partition of each file, by its path, which is encoded in the log."""
    actions = pa.table(table.get_add_actions())
    partitioned = bool(table.metadata().partition_columns)
    partitions = actions["partition"].to_pylist() if partitioned else [{}] * actions.num_rows
    paths = map(unquote, actions["path"].to_pylist())
    values = zip(actions["size_bytes"].to_pylist(), partitions, strict=True)
    return dict(zip(paths, values, strict=True))


def _dataset(table: DeltaTable, ref: TableRef) -> ds.Dataset:
    """Return the files of a table as a dataset, each with the condition of its partition.

    The minima and maxima in the log are not used: a writer may leave them out, and those in the
    footers say the same of each row group.
    """
    schema = pa.schema([field.remove_metadata() for field in _schema(table)])
    files, parquet = _added_files(table), ds.ParquetFileFormat(_READ_OPTIONS)
    filesystem = _filesystem(ref, {path: size for path, (size, _) in files.items()})
    fragments = [
        parquet.make_fragment(path, filesystem, partition_condition(partition, schema))
        for path, (_, partition) in files.items()
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def open_delta(ref: TableRef) -> DeltaTable:
    """Open the table with its own library; call it within `_translate_errors`.

    Raises:
        TableError: if it uses a feature that cannot be read.
    """
    table = DeltaTable(ref.uri, storage_options=deltalake_options(ref.uri, ref.options))
    if ref.version is not None and ref.version > table.version():
        raise TableError(
            f"{ref.uri} has no version {ref.version}; the newest is {table.version()}."
        )
    if ref.version is not None:
        table.load_as_version(ref.version)
    _check_features(ref, table, _READ_FEATURES, "read or write")
    return table


def _check_writable(ref: TableRef, table: DeltaTable) -> None:
    """Check that a table uses no feature that cannot be written; call it as `open_delta`.

    Raises:
        TableError: if it does.
    """
    _check_features(ref, table, SUPPORTED_READER_FEATURES, "write")


def _check_features(ref: TableRef, table: DeltaTable, known: Collection[str], action: str) -> None:
    unknown = _reader_features(table).difference(known)
    if unknown:
        raise TableMismatchError(
            f"{ref.uri} at version {table.version()} uses {one_of(unknown)}, which probclass "
            f"cannot {action}; drop the feature with an engine that has it (in Spark, ALTER TABLE "
            "… DROP FEATURE), or copy the rows into a table without it."
        )


def _filesystem(ref: TableRef, sizes: dict[str, int] | None = None) -> PyFileSystem:
    """Return the storage of a table, with paths relative to the table.

    Args:
        ref: the table.
        sizes: sizes of files that are known, so that none is looked up.
    """
    options = deltalake_options(ref.uri, ref.options)
    return PyFileSystem(DeltaStorageHandler(ref.uri, options, sizes))


@contextmanager
def _translate_errors(ref: TableRef) -> Iterator[None]:
    """Raise TableError for an error of the Delta library."""
    try:
        yield
    except TableNotFoundError as error:
        raise TableError(f"{ref.uri} is not a Delta table.") from error
    except (DeltaError, OSError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        version = "" if ref.version is None else f" at version {ref.version}"
        raise TableError(
            f"cannot read the Delta table {ref.uri}{version}: {one_line(error)}."
        ) from error


def delta_leftovers(ref: TableRef) -> list[Leftover]:
    """List files that writers of ours created and did not commit, running writers included.

    This includes unfinished entries of the log, which delta-rs writes under names that no reader
    looks at. Files of any version that can still be read stay, and so do files that the log lists
    as removed: ``VACUUM`` deletes those.

    Raises:
        TableError: if the table does not exist or cannot be read.
    """
    with _translate_errors(ref):
        table = open_delta(ref)
        _check_writable(ref, table)
        location = _location(ref)

        def named() -> set[str]:
            table.update_incremental()
            # The newest version may be older than any entry still in the log.
            return {*_added_files(table), *_files_in_log(location)}

        return location.unnamed_files(_OURS, named)


def _files_in_log(location: Location) -> Iterator[str]:
    """Yield the files that the entries of the log add or remove: those of all earlier versions."""
    for info in location.entries(_LOG):
        if is_file(info) and info.path.endswith(".json"):
            for line in filter(None, bytes(location.read(info.path)).splitlines()):
                action = json.loads(line)
                for kind in ("add", "remove"):
                    if kind in action:
                        yield unquote(action[kind]["path"])


def _location(ref: TableRef) -> Location:
    """Return the table's storage; a local disk as it is, for delta-rs hides unfinished files."""
    remote = "://" in ref.uri
    local = SubTreeFileSystem(str(Path(ref.uri).resolve()), LocalFileSystem())
    filesystem = _filesystem(ref) if remote else local
    return Location(filesystem, "", ref.uri.rstrip("/"), remote=remote)


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
        with _translate_errors(self.ref):
            try:
                table = open_delta(self.ref)
            except TableNotFoundError:
                self._check_folder()
                return None
            _check_writable(self.ref, table)
        self._check_constraints(table)
        return table

    def _check_folder(self) -> None:
        """Refuse a folder with files of another table: readers of files would read both."""
        for info in _location(self.ref).entries("", recursive=True):
            path = info.path
            is_other = path.endswith(".parquet") and not re.fullmatch(DATA_FILE, path)
            if is_other and is_file(info):
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
            with _translate_errors(self.ref):
                seen.table.update_incremental()
                _check_writable(self.ref, seen.table)
            self._check_constraints(seen.table)
        seen.entry = None if seen.table is None else self._log_entry(seen.table)
        return seen.table

    def _log_entry(self, table: DeltaTable) -> tuple[int, int]:
        """Size and time of the file of the log that made the version of a table."""
        with _translate_errors(self.ref):
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
        for path, (_, partition) in _added_files(table).items():
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
        with suppress(CommitFailedError), _translate_errors(self.ref):
            table.alter.add_columns(fields)
        return True

    def local_path(self, file: NewFile) -> Path | None:
        return None if "://" in self.uri else Path(self.uri) / file.path

    @cached_property
    def filesystem(self) -> PyFileSystem:
        """The storage of the table, with paths relative to the table."""
        if "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        return _filesystem(self.ref)

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
