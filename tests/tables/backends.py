"""The backends of a scored table: a local directory, an object store, Delta and Iceberg."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from delta_and_iceberg import DeltaLake, IcebergLake
from deltalake import DeltaTable

import probclass_core as pc

JANUARY, FEBRUARY = {"month": "2014-01"}, {"month": "2014-02"}
JANUARY_ROWS = [("2014-01", float(x)) for x in range(40)]
FEBRUARY_ROWS = [("2014-02", float(x)) for x in range(40)]
"""Month and x of the rows that `rows` makes."""

Arrives = Callable[..., Path]
"""Writes a file of new rows; see the fixture of this name."""

Reader = Callable[[str], pa.Table]


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
        plan = pc.open_table(self.ref(name)).plan()
        return pa.Table.from_batches(plan.batches(), plan.schema)

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
    """Parquet files with manifests, as in a bucket, in fsspec's store in memory."""
    store = fsspec.filesystem("memory")
    folder = f"/{root.name}"

    def commits(name: str) -> list[dict[str, Any]]:
        manifests = store.find(f"{folder}/{name}/_commits", detail=True).values()
        ordered = sorted(manifests, key=lambda info: info["created"])
        return [json.loads(store.cat(info["name"]))["commit"] for info in ordered]

    def write(name: str, table: pa.Table) -> None:
        pq.write_to_dataset(table, f"{folder}/{name}", filesystem=store, partition_cols=["month"])

    return Backend(
        "object store",
        lambda name: pc.TableRef(f"memory:/{folder}/{name}"),
        commits,
        write,
        typed=False,
        others={
            "pyarrow": lambda name: ds.dataset(
                f"{folder}/{name}", filesystem=store, partitioning="hive"
            ).to_table()
        },
    )


def delta(root: Path) -> Backend:
    lake = DeltaLake(root)

    def commits(name: str) -> list[dict[str, Any]]:
        entries = DeltaTable(str(root / name)).history()[::-1]
        return [json.loads(entry["probclass.commit"]) for entry in entries]

    return Backend(
        "delta",
        lake.ref,
        commits,
        lambda name, table: lake.write(name, table, ["month"]),
        typed=True,
        others={
            "its library": lake.read,
            "polars": lambda name: lake.read_with_polars(name).to_arrow(),
        },
    )


def iceberg(root: Path) -> Backend:
    lake = IcebergLake(root)

    def commits(name: str) -> list[dict[str, Any]]:
        summaries = [snapshot.summary for snapshot in lake.table(name).snapshots()]
        return [json.loads(summary["probclass.commit"]) for summary in summaries if summary]

    return Backend(
        "iceberg",
        lake.ref,
        commits,
        lambda name, table: lake.write(name, table, ["month"]),
        typed=True,
        others={
            "its library": lake.read,
            "polars": lambda name: lake.read_with_polars(name).to_arrow(),
        },
    )


BACKENDS = {"parquet": parquet, "object store": object_store, "delta": delta, "iceberg": iceberg}


def append(model: pc.Model, source: Any, sink: pc.TableRef, **options: Any) -> pc.ScoreReport:
    """Score a source, keep its column x, and append the rows to the sink."""
    return pc.score(model, source, sink, **{"columns": ["x"], "overwrite": "append", **options})
