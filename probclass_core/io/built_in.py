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
    from probclass_core.io.table import Sink, Table

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


def _open_parquet(ref: TableRef) -> Table:
    from probclass_core.io.parquet.discovery import parquet_table

    _check_no_version(ref)
    return parquet_table(ref)


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


def _parquet_sink(ref: TableRef, partition: Mapping[str, Any]) -> Sink:
    _check_no_version(ref)
    _check_is_directory(ref)
    if "://" in ref.uri:
        from probclass_core.io.parquet.object_sink import ObjectSink

        return ObjectSink(ref, partition)
    from probclass_core.io.parquet.directory_sink import ParquetSink

    if ref.options:
        raise TableMismatchError(f"{ref.uri}: a local path takes no options; leave them out.")
    return ParquetSink(Path(ref.uri), partition)


def _check_no_version(ref: TableRef) -> None:
    if not ref.newest:
        raise TableMismatchError(
            f"{ref.uri} is a table of plain files, which has no versions; leave version and "
            "timestamp out."
        )


def _parquet_leftovers(ref: TableRef) -> Sequence[Leftover]:
    if "://" in ref.uri:
        from probclass_core.io.parquet.object_sink import object_leftovers

        return object_leftovers(ref)
    from probclass_core.io.parquet.directory_sink import staging_leftovers

    leftovers = staging_leftovers(Path(ref.uri))
    if not leftovers and not Path(ref.uri).exists():
        raise TableError(f"{ref.uri} does not exist.")
    return leftovers


def _is_csv(ref: TableRef) -> bool:
    from probclass_core.io.text.formats import CSV, names_files

    return names_files(ref, CSV)


def _open_csv(ref: TableRef) -> Table:
    from probclass_core.io.text.csv import CsvFormat
    from probclass_core.io.text.formats import CSV
    from probclass_core.io.text.table import text_table

    _check_no_version(ref)
    return text_table(ref, CsvFormat, CSV)


def _csv_sink(ref: TableRef, partition: Mapping[str, Any]) -> Sink:
    from probclass_core.io.text.sink import CsvSink

    _check_no_version(ref)
    return CsvSink(ref, partition)


def _csv_leftovers(ref: TableRef) -> Sequence[Leftover]:
    return () if "://" in ref.uri else _parquet_leftovers(ref)


def _is_json_lines(ref: TableRef) -> bool:
    from probclass_core.io.text.formats import JSON_LINES, names_files

    return names_files(ref, JSON_LINES)


def _open_json_lines(ref: TableRef) -> Table:
    from probclass_core.io.text.formats import JSON_LINES
    from probclass_core.io.text.json_lines import JsonLinesFormat
    from probclass_core.io.text.table import text_table

    _check_no_version(ref)
    return text_table(ref, JsonLinesFormat, JSON_LINES)


def _is_delta(ref: TableRef) -> bool:
    try:
        return (Path(ref.uri) / "_delta_log").is_dir()
    except PermissionError:  # said by a clear error once the table is opened
        return False


def _open_delta(ref: TableRef) -> Table:
    with _requires("deltalake", "delta"):
        from probclass_core.io.delta.table import delta_table

    return delta_table(ref)


def _delta_sink(ref: TableRef, partition: Mapping[str, Any]) -> Sink:
    with _requires("deltalake", "delta"):
        from probclass_core.io.delta.sink import DeltaSink

    return DeltaSink(ref, partition)


def _delta_leftovers(ref: TableRef) -> Sequence[Leftover]:
    with _requires("deltalake", "delta"):
        from probclass_core.io.delta.leftovers import delta_leftovers

    return delta_leftovers(ref)


def _is_iceberg(ref: TableRef) -> bool:
    return ref.uri.startswith("iceberg://")


def _open_iceberg(ref: TableRef) -> Table:
    with _requires("pyiceberg", "iceberg"):
        from probclass_core.io.iceberg.table import IcebergTable

    return IcebergTable(ref)


def _iceberg_sink(ref: TableRef, partition: Mapping[str, Any]) -> Sink:
    with _requires("pyiceberg", "iceberg"):
        from probclass_core.io.iceberg.sink import IcebergSink

    return IcebergSink(ref, partition)


def _iceberg_leftovers(ref: TableRef) -> Sequence[Leftover]:
    with _requires("pyiceberg", "iceberg"):
        from probclass_core.io.iceberg.leftovers import iceberg_leftovers

    return iceberg_leftovers(ref)


@hookimpl
def probclass_table_formats() -> Iterable[TableFormat]:
    """Register Delta, Iceberg, CSV, JSON lines and Parquet."""
    yield TableFormat(
        name="delta",
        summary="Delta Lake: versions, and commits to a log",
        recognizes=_is_delta,
        open=_open_delta,
        sink=_delta_sink,
        leftovers=_delta_leftovers,
    )
    yield TableFormat(
        name="iceberg",
        summary="Apache Iceberg: snapshots, and commits to a catalog",
        recognizes=_is_iceberg,
        open=_open_iceberg,
        sink=_iceberg_sink,
        leftovers=_iceberg_leftovers,
    )
    yield TableFormat(
        name="csv",
        summary="CSV files, plain or compressed",
        recognizes=_is_csv,
        open=_open_csv,
        sink=_csv_sink,
        leftovers=_csv_leftovers,
    )
    yield TableFormat(
        name="jsonl",
        summary="files of JSON objects, one a line, plain or compressed",
        recognizes=_is_json_lines,
        open=_open_json_lines,
    )
    yield TableFormat(
        name="parquet",
        summary="Parquet files and Hive-partitioned directories, on disk and on object stores",
        recognizes=lambda ref: False,  # the default for tables that no other format recognizes
        open=_open_parquet,
        sink=_parquet_sink,
        leftovers=_parquet_leftovers,
    )
