"""Open a table or a sink by path, URI, `TableRef` or object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.errors import TableError
from probclass_core.io.memory import MemoryTable, ReaderTable
from probclass_core.io.references import TableRef
from probclass_core.io.table import Sink, Table
from probclass_core.plugins.descriptors import TableFormat
from probclass_core.plugins.manager import find_table_format, registry

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
        ref = TableRef.parse(source)
        return format_of(ref).open(ref)
    if _is_dataset(source):
        from probclass_core.io.parquet.dataset import DatasetTable

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
    ref = TableRef.parse(sink)
    found = format_of(ref)
    if found.sink is None:
        raise TableError(f"{ref.uri}: tables of format {found.name!r} are read, not written.")
    if not ref.newest:
        raise TableError(f"{ref.uri}: an earlier version is read, not written; leave it out.")
    return found.sink(ref, partition)


def format_of(ref: TableRef) -> TableFormat:
    """The format that is named, or else the first that recognizes the place, or else Parquet.

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
    claims = (found for found in formats.values() if found.recognizes(ref))
    return next(claims, formats[_DEFAULT_FORMAT])


def _is_dataset(source: Any) -> bool:
    # By name: importing pyarrow.dataset to ask would cost every program a second.
    return any(kind.__name__ == "Dataset" for kind in type(source).__mro__)
