"""The built-in table formats; their modules are imported when such a table is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probclass_core.errors import NotSupportedError, TableError
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


def _parquet_sink(ref: TableRef, partition: Mapping[str, Any]) -> Sink:
    _check_no_version(ref)
    if "://" in ref.uri:
        from probclass_core.io.parquet.object_sink import ObjectSink

        return ObjectSink(ref, partition)
    from probclass_core.io.parquet.directory_sink import ParquetSink

    if ref.options:
        raise TableError(f"{ref.uri}: a local path takes no options; leave them out.")
    return ParquetSink(Path(ref.uri), partition)


def _check_no_version(ref: TableRef) -> None:
    if not ref.newest:
        raise TableError(
            f"{ref.uri} is a directory of Parquet files, which has no versions; "
            "leave version and timestamp out."
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


def _is_delta(ref: TableRef) -> bool:
    return (Path(ref.uri) / "_delta_log").is_dir()


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
    """Register Delta, Iceberg and Parquet."""
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
        name="parquet",
        summary="Parquet files and Hive-partitioned directories, on disk and on object stores",
        recognizes=lambda ref: False,  # the default for tables that no other format recognizes
        open=_open_parquet,
        sink=_parquet_sink,
        leftovers=_parquet_leftovers,
    )
