"""Tables: where rows come from and where scored rows go.

table         the interface: a Table plans fragments, a Fragment reads record batches; a Sink stages
filters       partition and row filters, from plain values to Arrow expressions
memory        tables, frames and readers in memory
formats       the built-in formats: what a path or URI can hold
dataset       Parquet files of any format, planned
pieces        what the paths and directories of files tell
planned_file  what a plan must know of a file, from its footer or from before
row_groups    some row groups of a file, read
digests       what tells one fragment from another
hive          directories that spell out the values of partition columns
parquet       Parquet files and Hive-partitioned directories, found
manifests     which files a partition consists of, where no rename can say so
parquet_file  a Parquet file, written
staging       a directory of Parquet written aside, checked, and put in place at once
swap          the one atomic step of that commit
object_sink   a partition on an object store, put in place by one small PUT
lasting       types that survive in every format
agreement     whether rows go with the columns of a table
log_sink      a table with a log: new files, and one commit that names them
delta         Delta Lake: a version read
delta_sink    Delta Lake: a partition replaced or added to by one entry of the log
iceberg       Iceberg: a catalog's table, at a snapshot
iceberg_files Iceberg: the data files of a scan, read as the table has them
iceberg_sink  Iceberg: a partition replaced or added to by one snapshot
iceberg_leftovers  Iceberg: files that killed writers left
delta_leftovers  Delta Lake: files that killed writers left
inspection    what a table is and holds, from its footers
cleaning      what killed writers left of a table, removed
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.errors import TableError
from probclass_core.plugins import find_table_format, registry
from probclass_core.table_format import TableFormat, TableRef
from probclass_core.tables.memory import MemoryTable, ReaderTable
from probclass_core.tables.table import Sink, Table

__all__ = ["format_of", "open_sink", "open_table"]

_DEFAULT_FORMAT = "parquet"


def open_table(source: Any) -> Table:
    """The table behind a source.

    Args:
        source: a path, URI or `TableRef`; a pyarrow Table, RecordBatch, Dataset or
            RecordBatchReader (read once); a pandas or polars DataFrame; a mapping of columns; a
            `Table`.

    Raises:
        TableError: the path holds no table.
        DataError: the object is none of these.
        PluginError: no such format.
    """
    if isinstance(source, Table):
        return source
    if isinstance(source, pa.RecordBatchReader):
        return ReaderTable(source)
    if isinstance(source, (str, Path, TableRef)):
        ref = TableRef.of(source)
        return format_of(ref).open(ref)
    if _is_dataset(source):
        from probclass_core.tables.dataset import DatasetTable

        return DatasetTable(source)
    return MemoryTable(source)


def open_sink(sink: str | Path | TableRef, partition: Mapping[str, Any]) -> Sink:
    """Where a partition of a table is to stand.

    Args:
        sink: path, URI or `TableRef`.
        partition: values of the partition columns, outermost first; none for the whole table.

    Raises:
        TableError: the place cannot hold such a table, or its format is only read.
        PluginError: no such format.
    """
    ref = TableRef.of(sink)
    found = format_of(ref)
    if found.sink is None:
        raise TableError(f"{ref.uri}: tables of format {found.name!r} are read, not written.")
    if not ref.newest:
        raise TableError(f"{ref.uri}: an earlier version is read, not written; leave it out.")
    return found.sink(ref, partition)


def format_of(ref: TableRef) -> TableFormat:
    """The format that is named, or else the first that recognises the place, or else Parquet.

    Raises:
        PluginError: no such format.
        TableError: a format is written before a path that is no URI.
    """
    if ref.format is not None:
        return find_table_format(ref.format)
    formats = registry().table_formats
    prefix, _, rest = ref.uri.partition("+")
    if rest and prefix in formats and "://" not in rest and not Path(ref.uri).exists():
        # As Parquet, which is the default, it would become a directory of this odd name.
        raise TableError(
            f"{ref.uri}: a format stands before a URI; write {prefix}+file://{rest}, or "
            f"TableRef({rest!r}, format={prefix!r})."
        )
    claims = (found for found in formats.values() if found.recognises(ref))
    return next(claims, formats[_DEFAULT_FORMAT])


def _is_dataset(source: Any) -> bool:
    # By name: importing pyarrow.dataset to ask would cost every program a second.
    return any(kind.__name__ == "Dataset" for kind in type(source).__mro__)
