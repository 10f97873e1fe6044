"""The built-in table formats; their modules are imported when such a table is opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probclass_core.errors import NotSupportedError, TableError, TableMismatchError
from probclass_core.io.references import Leftover, TableRef
from probclass_core.plugins.descriptors import PROBCLASS_API, TableFormat
from probclass_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from probclass_core.io.sink import Sink
    from probclass_core.io.table import Source

__all__ = ["PROBCLASS_API", "probclass_table_formats"]


@contextmanager
def _requires(library: str, extra: str) -> Iterator[None]:
    """Raise NotSupportedError, with what to install, if an import in the block fails."""
    try:
        yield
    except ImportError as error:
        raise NotSupportedError(
            f"{extra.title()} tables need {library}: pip install 'probclass[{extra}]'."
        ) from error


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
        with _requires("deltalake", "delta"):
            from probclass_core.io.delta.table import delta_table

        return delta_table(ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        with _requires("deltalake", "delta"):
            from probclass_core.io.delta.sink import DeltaSink

        return DeltaSink(ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        with _requires("deltalake", "delta"):
            from probclass_core.io.delta.leftovers import delta_leftovers

        return delta_leftovers(ref)


class Iceberg(TableFormat):
    """Apache Iceberg: snapshots, and commits to a catalog."""

    name = "iceberg"
    has_versions = True

    def recognizes(self, ref: TableRef) -> bool:
        return ref.uri.startswith("iceberg://")

    def open(self, ref: TableRef) -> Source:
        with _requires("pyiceberg", "iceberg"):
            from probclass_core.io.iceberg.table import IcebergTable

        return IcebergTable(ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        with _requires("pyiceberg", "iceberg"):
            from probclass_core.io.iceberg.sink import IcebergSink

        return IcebergSink(ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        with _requires("pyiceberg", "iceberg"):
            from probclass_core.io.iceberg.leftovers import iceberg_leftovers

        return iceberg_leftovers(ref)


class Csv(TableFormat):
    """CSV files, plain or compressed."""

    name = "csv"

    def recognizes(self, ref: TableRef) -> bool:
        from probclass_core.io.text.formats import CSV, names_files

        return names_files(ref, CSV)

    def open(self, ref: TableRef) -> Source:
        from probclass_core.io.text.csv import CsvFormat
        from probclass_core.io.text.formats import CSV
        from probclass_core.io.text.table import text_table

        return text_table(ref, CsvFormat, CSV)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        from probclass_core.io.text.sink import CsvSink

        return CsvSink(ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        return () if "://" in ref.uri else _staged(ref)


class JsonLines(TableFormat):
    """Files of JSON objects, one a line, plain or compressed."""

    name = "jsonl"

    def recognizes(self, ref: TableRef) -> bool:
        from probclass_core.io.text.formats import JSON_LINES, names_files

        return names_files(ref, JSON_LINES)

    def open(self, ref: TableRef) -> Source:
        from probclass_core.io.text.formats import JSON_LINES
        from probclass_core.io.text.json_lines import JsonLinesFormat
        from probclass_core.io.text.table import text_table

        return text_table(ref, JsonLinesFormat, JSON_LINES)


class Parquet(TableFormat):
    """Parquet files and Hive-partitioned directories, on disk and on object stores.

    It is the default for tables that no other format recognizes.
    """

    name = "parquet"

    def open(self, ref: TableRef) -> Source:
        from probclass_core.io.parquet.discovery import parquet_table

        return parquet_table(ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        _check_is_directory(ref)
        if "://" in ref.uri:
            from probclass_core.io.parquet.object_sink import ObjectSink

            return ObjectSink(ref, partition)
        if ref.options:
            raise TableMismatchError(f"{ref.uri}: a local path takes no options; leave them out.")
        path = Path(ref.uri)
        if path.suffix == ".parquet" and not path.is_dir():
            from probclass_core.io.parquet.file_sink import ParquetFileSink

            return ParquetFileSink(ref, partition)
        from probclass_core.io.parquet.directory_sink import DirectorySink

        return DirectorySink(ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        if "://" in ref.uri:
            from probclass_core.io.parquet.object_sink import object_leftovers

            return object_leftovers(ref)
        return _staged(ref)


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


def _staged(ref: TableRef) -> Sequence[Leftover]:
    from probclass_core.io.commit.staging import staging_leftovers

    leftovers = staging_leftovers(Path(ref.uri))
    if not leftovers and not Path(ref.uri).exists():
        raise TableError(f"{ref.uri} does not exist.")
    return leftovers


@hookimpl
def probclass_table_formats() -> Iterable[type[TableFormat]]:
    """Register Delta, Iceberg, CSV, JSON lines and Parquet."""
    yield from (Delta, Iceberg, Csv, JsonLines, Parquet)
