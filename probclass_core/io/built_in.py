"""The built-in table formats; their modules are imported when such a table is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from probclass_core.errors import NotSupportedError, TableMismatchError
from probclass_core.io.references import Leftover, TableRef
from probclass_core.plugins.descriptors import PROBCLASS_API, TableFormat
from probclass_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from probclass_core.io.sink import Sink
    from probclass_core.io.table import Source

__all__ = ["PROBCLASS_API", "probclass_table_formats"]


Result = TypeVar("Result")

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
        return _call("delta.table", "DeltaFiles", ref)

    def sink(self, ref: TableRef, partition: Mapping[str, Any]) -> Sink:
        return _call("delta.sink", "DeltaSink", ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        return _call("delta.table", "delta_leftovers", ref)


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
            return _call("parquet.directory_sink", "ParquetFileSink", ref, partition)
        if "://" in ref.uri:
            return _call("parquet.object_sink", "ObjectSink", ref, partition)
        return _call("parquet.directory_sink", "DirectorySink", ref, partition)

    def leftovers(self, ref: TableRef) -> Sequence[Leftover]:
        if "://" in ref.uri:
            return _call("parquet.object_sink", "object_leftovers", ref)
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
