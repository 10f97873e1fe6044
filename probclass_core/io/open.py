"""Open a table or a sink by path, URI, `TableRef` or object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.arrow.arrays import is_lazy_frame
from probclass_core.errors import TableMismatchError
from probclass_core.io.memory import ArrowDataset, MemoryTable, StreamTable
from probclass_core.io.references import TableRef
from probclass_core.io.sink import Sink
from probclass_core.io.table import Source
from probclass_core.plugins.descriptors import TableFormat
from probclass_core.plugins.manager import find_table_format, registry

__all__ = ["format_of", "open_sink", "open_table"]

_DEFAULT_FORMAT = "parquet"


def open_table(source: Any) -> Source:
    """Open the table behind a source.

    Args:
        source: path, URI, pattern of files or `TableRef`; pyarrow Table, RecordBatch, Dataset or
            RecordBatchReader (read once); pandas or polars DataFrame; polars LazyFrame, which is
            collected; mapping of columns; `Source`.

    Raises:
        TableError: if there is no table at the path.
        DataError: if the object is none of these.
        PluginError: if the format is unknown.
    """
    if is_lazy_frame(source):  # first, because looking at its attributes would resolve the query
        return MemoryTable(source)
    if isinstance(source, pa.Table):
        return MemoryTable(source)
    if isinstance(source, Source):
        return source
    if isinstance(source, pa.RecordBatchReader):
        return StreamTable(source)
    if isinstance(source, (str, Path, TableRef)):
        return open_ref(TableRef.parse(source))
    if _is_dataset(source):
        return ArrowDataset(source)
    return MemoryTable(source)


def open_sink(table: str | Path | TableRef, partition: Mapping[str, Any]) -> Sink:
    """Open a partition of a table to write it.

    Args:
        table: path, URI or `TableRef`.
        partition: values of the partition columns, outermost first; empty for the whole table.

    Raises:
        TableError: if the location cannot hold such a table, or its format is read-only.
        PluginError: if the format is unknown.
    """
    ref = TableRef.parse(table)
    table_format = format_of(ref)
    if ref.version is not None and table_format.has_versions:
        raise TableMismatchError(
            f"{ref.uri}: an earlier version cannot be written; leave version out."
        )
    _check_versions(ref, table_format)
    return table_format.sink(ref, partition)


def open_ref(ref: TableRef) -> Source:
    """Open the table at an address; raises as `open_table`."""
    table_format = format_of(ref)
    _check_versions(ref, table_format)
    return table_format.open(ref)


def _check_versions(ref: TableRef, table_format: TableFormat) -> None:
    if ref.version is not None and not table_format.has_versions:
        raise TableMismatchError(
            f"{ref.uri} is of format {table_format.name!r}, which has no versions; leave version "
            "out."
        )


def format_of(ref: TableRef) -> TableFormat:
    """Return the named format, or else the first that recognizes the table, or else Parquet.

    Raises:
        PluginError: if the format is unknown.
        TableError: if a format is written before a path that does not begin with a slash.
    """
    if ref.format is not None:
        return find_table_format(ref.format)
    formats = registry().table_formats
    prefix, _, rest = ref.uri.partition("+")
    if rest and prefix in formats and "://" not in rest and not Path(ref.uri).exists():
        # It would become a Parquet directory of that odd name.
        raise TableMismatchError(
            f"{ref.uri}: a format precedes a URI or a whole path; write {prefix}+file://{rest}, or "
            f"TableRef({rest!r}, format={prefix!r})."
        )
    recognized = (candidate for candidate in formats.values() if candidate.recognizes(ref))
    return next(recognized, formats[_DEFAULT_FORMAT])


def _is_dataset(source: Any) -> bool:
    # By name, because importing pyarrow.dataset takes a second.
    return any(kind.__name__ == "Dataset" for kind in type(source).__mro__)
