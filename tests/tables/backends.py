"""Backends of a scored table: local directories, object stores, Delta and Iceberg."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from buckets import Bucket
from delta_and_iceberg import DeltaLake, IcebergLake
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow.fs import FileSelector, FileSystem, FSSpecHandler, PyFileSystem
from reading import read_rows

import probclass_core as pc
from probclass_core.scoring.reports import ScoreReport

JANUARY, FEBRUARY = {"month": "2014-01"}, {"month": "2014-02"}
JANUARY_ROWS = [("2014-01", float(x)) for x in range(40)]
FEBRUARY_ROWS = [("2014-02", float(x)) for x in range(40)]
"""Month and x of the rows that `rows` makes."""

Arrives = Callable[..., Path]
"""Writes a file of new rows; see the fixture of this name."""

Reader = Callable[[str], pa.Table]


def _again_if_changed(listing: Callable[..., Any]) -> Callable[..., Any]:
    """List again if another thread wrote meanwhile, which fsspec's store in memory cannot bear."""

    def listed(*arguments: Any, **options: Any) -> Any:
        while True:
            with suppress(RuntimeError, KeyError):
                return listing(*arguments, **options)

    return listed


MemoryFileSystem.find = _again_if_changed(MemoryFileSystem.find)
MemoryFileSystem.ls = _again_if_changed(MemoryFileSystem.ls)


@dataclass(frozen=True)
class Backend:
    """A kind of storage for scored tables.

    Attributes:
        name: name of the kind.
        ref: returns the reference to a table by its name.
        commits: returns the commit records in a table, oldest first; records that were replaced
            are included if the format keeps old versions.
        write: creates a table partitioned by month as another engine does.
        typed: whether a table has a schema, which includes the types of the partition columns.
        others: other tools, by name; each reads all rows of a table.
    """

    name: str
    ref: Callable[[str], pc.TableRef]
    commits: Callable[[str], list[dict[str, Any]]]
    write: Callable[[str, pa.Table], None]
    typed: bool
    others: Mapping[str, Reader]

    def read(self, name: str) -> pa.Table:
        """Read all rows with probclass."""
        return read_rows(self.ref(name))

    def xs(self, name: str) -> list[tuple[str, float]]:
        """Return the month and x of each row, sorted."""
        rows = self.read(name)
        return sorted(zip(rows["month"].to_pylist(), rows["x"].to_pylist(), strict=True))


def parquet(root: Path) -> Backend:
    def commits(name: str) -> list[dict[str, Any]]:
        files = sorted((root / name).rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
        return [json.loads(pq.read_metadata(file).metadata[b"probclass.commit"]) for file in files]

    def write(name: str, table: pa.Table) -> None:
        pq.write_to_dataset(table, root / name, partition_cols=["month"])

    def by_duckdb(name: str) -> pa.Table:
        with duckdb.connect() as connection:
            query = "select * from read_parquet($1, hive_partitioning = true)"
            found = connection.sql(query, params=[f"{root / name}/**/*.parquet"])
            return found.to_arrow_table()

    return Backend(
        "parquet",
        lambda name: pc.TableRef(str(root / name)),
        commits,
        write,
        typed=False,
        others={
            "pyarrow": lambda name: ds.dataset(root / name, partitioning="hive").to_table(),
            "duckdb": by_duckdb,
            "polars": lambda name: pl.read_parquet(root / name, hive_partitioning=True).to_arrow(),
        },
    )


def object_store(root: Path) -> Backend:
    """Parquet files as in a bucket, in fsspec's store in memory."""
    store = PyFileSystem(FSSpecHandler(fsspec.filesystem("memory")))
    return _parquet_in(
        store, f"/{root.name}", lambda name: pc.TableRef(f"memory://{root.name}/{name}")
    )


def _parquet_in(
    store: FileSystem, folder: str, ref: Callable[[str], pc.TableRef], name: str = "object store"
) -> Backend:
    def commits(name: str) -> list[dict[str, Any]]:
        selector = FileSelector(f"{folder}/{name}", recursive=True, allow_not_found=True)
        files = sorted(store.get_file_info(selector), key=lambda file: file.path)
        paths = [file.path for file in files if file.extension == "parquet"]
        footers = [pq.read_metadata(path, filesystem=store).metadata for path in paths]
        records = [footer.get(b"probclass.commit") for footer in footers]
        return [json.loads(record) for record in records if record is not None]

    def write(name: str, table: pa.Table) -> None:
        path = f"{folder}/{name}"
        pq.write_to_dataset(table, path, filesystem=store, partition_cols=["month"])

    def by_pyarrow(name: str) -> pa.Table:
        path = f"{folder}/{name}"
        return ds.dataset(path, filesystem=store, partitioning="hive").to_table()

    return Backend(name, ref, commits, write, typed=False, others={"pyarrow": by_pyarrow})


def delta(root: Path) -> Backend:
    return _logged("delta", DeltaLake(root))


def iceberg(root: Path) -> Backend:
    return _logged("iceberg", IcebergLake(root))


def _logged(name: str, lake: DeltaLake | IcebergLake) -> Backend:
    def write(name: str, table: pa.Table) -> None:
        lake.write(name, table, ["month"])

    others = {
        "its library": lake.read,
        "polars": lambda name: lake.read_with_polars(name).to_arrow(),
    }
    return Backend(name, lake.ref, lake.commits, write, typed=True, others=others)


BACKENDS = {"parquet": parquet, "object store": object_store, "delta": delta, "iceberg": iceberg}


def in_bucket(bucket: Bucket, form: str, root: Path) -> Backend:
    """Return the backend of a format in a bucket; a catalog of Iceberg is in the root."""
    if form == "parquet":
        return _parquet_in(bucket.filesystem, bucket.name, bucket.at, bucket.scheme)
    if form == "delta":
        storage = bucket.delta_options_at(bucket.endpoint)
        place = f"{bucket.scheme}://{bucket.name}"
        return _logged("delta", DeltaLake(root, place, storage, bucket.options))
    storage = {
        "s3.endpoint": bucket.endpoint,
        "s3.access-key-id": bucket.options["access_key_id"],
        "s3.secret-access-key": bucket.options["secret_access_key"],
        "s3.region": bucket.options["region"],
    }
    place = f"s3://{bucket.name}/warehouse"
    return _logged("iceberg", IcebergLake(root, place, storage, bucket.options))


SERVED = {
    "parquet on s3": ("s3", "parquet"),
    "parquet on azure": ("azure", "parquet"),
    "parquet on google": ("google", "parquet"),
    "delta on s3": ("s3", "delta"),
    "delta on azure": ("azure", "delta"),  # the emulator of Google lacks uploads of delta-rs
    "iceberg on s3": ("s3", "iceberg"),
}
"""Kind of bucket and format of the backends that need a server."""

_ALL = [*BACKENDS, *(pytest.param(name, marks=pytest.mark.services) for name in SERVED)]


def _with_backends(*, objects: bool | None) -> pytest.MarkDecorator:
    """Run a test with backends: with all, or with those that are Parquet objects or are not."""

    def is_chosen(backend: Any) -> bool:
        name = backend if isinstance(backend, str) else str(backend.values[0])
        return objects in (None, name == "object store" or name.startswith("parquet on"))

    return pytest.mark.parametrize("backend", [*filter(is_chosen, _ALL)], indirect=True)


everywhere = _with_backends(objects=None)
"""Run a test with every backend, not only with the local ones."""

appending = _with_backends(objects=False)
"""Run a test with every backend whose partitions rows can be added to."""

objects = _with_backends(objects=True)
"""Run a test with every backend whose partitions are one object each."""


def append(model: pc.Model, source: Any, sink: pc.TableRef, **options: Any) -> ScoreReport:
    """Score a source, keep its column x, and append the rows to the sink."""
    more = options.pop("options", {})
    more = {"columns": ["x"], "overwrite": "append", **more}
    return pc.score(model, source, sink, options=more, **options)
