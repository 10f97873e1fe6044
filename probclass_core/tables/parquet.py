"""Parquet files and Hive-partitioned directories, found by their path."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.dataset as ds

from probclass_core.arrays import schema_without_views
from probclass_core.errors import TableError
from probclass_core.tables.dataset import DatasetTable, readable


def parquet_table(source: str | Path) -> DatasetTable:
    """A Parquet file, or a directory of them, Hive partitions included.

    Files and directories whose names begin with ``_`` or ``.`` are not data.

    Raises:
        TableError: there is no such path, no Parquet file below it, or one that cannot be read.
    """
    path = local_path(source)

    def state(piece: ds.Fragment) -> str:
        status = Path(piece.path).stat()
        name = os.path.relpath(piece.path, path)
        return f"{name}\0{status.st_size}\0{status.st_mtime_ns}"

    return DatasetTable(_discover(path), uri=str(path), identity=state)


def local_path(source: str | Path) -> Path:
    """A path, or the path in a ``file://`` URI.

    Raises:
        TableError: no path, or a URI of another scheme.
    """
    if not isinstance(source, (str, Path)):
        raise TableError(f"{source!r} is no path; a table is named by its path, as text or Path.")
    text = str(source)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    elif "://" in text:
        raise TableError(
            f"{text}: tables are read from and written to local paths; mount the store."
        )
    return Path(text)


def _discover(path: Path) -> ds.Dataset:
    if not path.exists():
        raise TableError(f"{path} does not exist.")
    with readable(str(path)):
        partitioning = ds.partitioning(flavor="hive") if path.is_dir() else None
        dataset = ds.dataset(path, format="parquet", partitioning=partitioning)
        plain = schema_without_views(dataset.schema)
        if plain is not dataset.schema:
            dataset = ds.dataset(path, plain, format="parquet", partitioning=partitioning)
        if not dataset.files:
            raise TableError(f"{path} holds no Parquet files.")
    return dataset
