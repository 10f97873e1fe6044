"""Read a Delta Lake table at one version."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.table import MAX_SUPPORTED_READER_VERSION, SUPPORTED_READER_FEATURES
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from probclass_core.errors import TableError, TableMismatchError, one_line, one_of
from probclass_core.io.commit.parquet_writer import DATA_FILE
from probclass_core.io.filesystem import Location, is_file
from probclass_core.io.parquet.columns import ColumnMatch, StoredColumn, field_id
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.files import partition_condition
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.storage_options import deltalake_options

READ_FEATURES = SUPPORTED_READER_FEATURES | (
    {"columnMapping", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"}
    if hasattr(DeltaTable, "deletion_vectors")  # not in older versions of deltalake
    else set()
)
"""Features of tables that can be read; those of `SUPPORTED_READER_FEATURES` can be written, too."""

_READ_OPTIONS = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
"""Reads times that Spark wrote as the table has them; nanoseconds end in the year 2262."""

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
        with translate_delta_errors(ref):
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
    paths = added_files(table)
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


def added_files(table: DeltaTable) -> dict[str, tuple[int, dict[str, Any]]]:
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
    files, parquet = added_files(table), ds.ParquetFileFormat(_READ_OPTIONS)
    filesystem = delta_filesystem(ref, {path: size for path, (size, _) in files.items()})
    fragments = [
        parquet.make_fragment(path, filesystem, partition_condition(partition, schema))
        for path, (_, partition) in files.items()
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def open_delta(ref: TableRef) -> DeltaTable:
    """Open the table with its own library; call it within `translate_delta_errors`.

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
    _check_features(ref, table, READ_FEATURES, "read or write")
    return table


def check_writable(ref: TableRef, table: DeltaTable) -> None:
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


def delta_filesystem(ref: TableRef, sizes: dict[str, int] | None = None) -> PyFileSystem:
    """Return the storage of a table, with paths relative to the table.

    Args:
        ref: the table.
        sizes: sizes of files that are known, so that none is looked up.
    """
    options = deltalake_options(ref.uri, ref.options)
    return PyFileSystem(DeltaStorageHandler(ref.uri, options, sizes))


@contextmanager
def translate_delta_errors(ref: TableRef) -> Iterator[None]:
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
    with translate_delta_errors(ref):
        table = open_delta(ref)
        check_writable(ref, table)
        location = _location(ref)

        def named() -> set[str]:
            table.update_incremental()
            # The newest version may be older than any entry still in the log.
            return {*added_files(table), *_files_in_log(location)}

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


def parquet_files(ref: TableRef) -> Iterator[str]:
    """Yield the paths of all Parquet files in the folder, of which a table need not know."""
    for info in _location(ref).entries("", recursive=True):
        if is_file(info) and info.path.endswith(".parquet"):
            yield info.path


def _location(ref: TableRef) -> Location:
    """Return the table's storage; a local disk as it is, for delta-rs hides unfinished files."""
    remote = "://" in ref.uri
    local = SubTreeFileSystem(str(Path(ref.uri).resolve()), LocalFileSystem())
    filesystem = delta_filesystem(ref) if remote else local
    return Location(filesystem, "", ref.uri.rstrip("/"), remote=remote)
