"""Open a table or a sink by path, URI, `TableRef` or object.

The modules of a built-in format are imported when such a table is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from probclass_core.arrow.arrays import is_lazy_frame
from probclass_core.errors import NotSupportedError, TableMismatchError
from probclass_core.io.memory import ArrowDataset, MemoryTable, StreamTable
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.sink import Sink
from probclass_core.io.table import Source
from probclass_core.plugins.hookspecs import PROBCLASS_API, TableFormat, hookimpl
from probclass_core.plugins.manager import find_table_format, registry

__all__ = ["PROBCLASS_API", "format_of", "open_sink", "open_table", "probclass_table_formats"]


Result = TypeVar("Result")

_DEFAULT_FORMAT = "parquet"

_LIBRARIES = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""What the formats of an extra need."""


def _call(module: str, name: str, *arguments: Any) -> Result:  # type: ignore[type-var]
    """Import what opens a format, and call it.

    Raises:
        NotSupportedError: if its library is not installed, with what to install.
    """
    extra = module.partition(".")[0]
    try:
        called: Callable[..., Result] = getattr(import_module(f"probclass_core.io.{module}"), name)
    except ImportError as error:
        if extra not in _LIBRARIES:
            raise
        raise NotSupportedError(
            f"{extra.title()} tables need {_LIBRARIES[extra]}: pip install 'probclass[{extra}]'."
        ) from error
    return called(*arguments)


class Delta(TableFormat):
    """Delta Lake: versions, and commits to a log."""

    name = "delta"
    has_versions = True

    def recognizes(self, ref: TableRef) -> bool:
        try:
            return (Path(ref.uri) / "_delta_log").is_dir()
        except PermissionError:  # said by a clear error once the table is opened
            return False

    def open(self, ref: TableRef) -> Source:
        return _call("delta", "DeltaFiles", ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        return _call("delta", "DeltaSink", ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        return _call("delta", "delta_leftovers", ref)


class Iceberg(TableFormat):
    """Apache Iceberg: snapshots, and commits to a catalog."""

    name = "iceberg"
    has_versions = True

    def recognizes(self, ref: TableRef) -> bool:
        return ref.uri.startswith("iceberg://")

    def open(self, ref: TableRef) -> Source:
        return _call("iceberg.table", "IcebergTable", ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        return _call("iceberg.sink", "IcebergSink", ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        return _call("iceberg.table", "iceberg_leftovers", ref)


class Csv(TableFormat):
    """CSV files, plain or compressed."""

    name = "csv"

    def recognizes(self, ref: TableRef) -> bool:
        return _call("text.options", "names_files", ref, self.name)

    def open(self, ref: TableRef) -> Source:
        return _call("text.table", "text_table", ref, self.name)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        return _call("text.csv", "CsvSink", ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        return () if "://" in ref.uri else _call("local_files", "table_leftovers", ref)


class JsonLines(TableFormat):
    """Files of JSON objects, one a line, plain or compressed."""

    name = "jsonl"

    def recognizes(self, ref: TableRef) -> bool:
        return _call("text.options", "names_files", ref, self.name)

    def open(self, ref: TableRef) -> Source:
        return _call("text.table", "text_table", ref, self.name)


class Parquet(TableFormat):
    """Parquet files and Hive-partitioned directories, on disk and on object stores.

    It is the default for tables that no other format recognizes.
    """

    name = "parquet"

    def open(self, ref: TableRef) -> Source:
        return _call("parquet.discovery", "parquet_table", ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        _check_is_directory(ref)
        if ref.options and "://" not in ref.uri:
            raise TableMismatchError(f"{ref.uri}: a local path takes no options; leave them out.")
        if Path(ref.uri).suffix == ".parquet" and not Path(ref.uri).is_dir():
            return _call("parquet.sink", "ParquetFileSink", ref, partition)
        if "://" in ref.uri:
            return _call("parquet.sink", "ObjectSink", ref, partition)
        return _call("parquet.sink", "DirectorySink", ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        if "://" in ref.uri:
            return _call("parquet.sink", "object_leftovers", ref)
        return _call("local_files", "table_leftovers", ref)


_FILE_SUFFIXES = re.compile(
    r"\.(arrow|avro|db|duckdb|feather|gz|h5|ipc|orc|parquet|pkl|pq|sqlite|txt|xlsx?|zip|zst)",
    re.IGNORECASE,
)
"""Suffixes that say that a sink is one file."""


def _check_is_directory(ref: TableRef) -> None:
    """Refuse to make a directory that is named like a file of another format."""
    suffix = Path(ref.uri).suffix
    if suffix != ".parquet" and _FILE_SUFFIXES.fullmatch(suffix) and not Path(ref.uri).is_dir():
        raise TableMismatchError(
            f"{ref.uri}: a scored table is one '.parquet' file or a directory of them; name the "
            f"file {Path(ref.uri).stem + '.parquet'!r}, or leave {suffix!r} out."
        )


@hookimpl
def probclass_table_formats() -> Iterable[type[TableFormat]]:
    """Register Delta, Iceberg, CSV, JSON lines and Parquet."""
    yield from (Delta, Iceberg, Csv, JsonLines, Parquet)


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
