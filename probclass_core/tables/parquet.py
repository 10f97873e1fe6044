"""Parquet files and Hive-partitioned directories, found by their path or URI."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileInfo, FileType, PyFileSystem

from probclass_core.arrays import schema_without_views
from probclass_core.errors import TableError
from probclass_core.retries import patiently
from probclass_core.storage import Storage, storage_of
from probclass_core.table_format import TableRef
from probclass_core.tables.dataset import DatasetTable, readable
from probclass_core.tables.manifests import data_files


def parquet_table(ref: TableRef) -> DatasetTable:
    """A Parquet file, or a directory of them, Hive partitions included.

    Files and directories whose names begin with ``_`` or ``.`` are not data. A partition with a
    manifest consists of the files that it names.

    Raises:
        TableError: there is no such place, no Parquet file below it, or one that cannot be read.
    """
    storage = storage_of(ref)
    files = data_files(storage)
    if not files:
        there = storage.info(storage.path).type != FileType.NotFound
        raise TableError(
            f"{storage.uri} {'holds no Parquet files' if there else 'does not exist'}."
        )
    states = {str(info.path): _state(storage, info) for info in files}
    return DatasetTable(
        _dataset(storage, files),
        uri=storage.uri,
        storage=storage,
        identity=lambda piece: states[piece.path],
    )


def _dataset(storage: Storage, files: Sequence[FileInfo]) -> ds.Dataset:
    paths = [info.path for info in files]
    options = ds.FileSystemFactoryOptions()
    if paths != [storage.path]:
        options.partition_base_dir = storage.path
        options.partitioning_factory = ds.HivePartitioning.discover()
    with readable(storage.uri):
        factory = ds.FileSystemDatasetFactory(
            storage.filesystem, paths, ds.ParquetFileFormat(), options
        )
        stored, *spelled = patiently(factory.inspect_schemas)
        # What directories spell out may stand in the files as well, and those know its type.
        more = [column for names in spelled for column in names if column.name not in stored.names]
        schema = pa.schema([*stored, *more], metadata=stored.metadata)
        return patiently(lambda: factory.finish(schema_without_views(schema)))


def _state(storage: Storage, info: FileInfo) -> str:
    """What tells one state of a file from another: its name, size and time of change."""
    name = str(info.path).removeprefix(storage.path).lstrip("/")
    state = f"{name or info.base_name}\0{info.size}\0{info.mtime_ns}"
    if isinstance(storage.filesystem, PyFileSystem):
        # fsspec passes no times on, but knows a digest of all that the store says of a file.
        return f"{state}\0{storage.filesystem.handler.fs.ukey(info.path)}"
    return state
