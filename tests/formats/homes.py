"""Where a scored table may stand: on disk, in a bucket, in a Delta log, in an Iceberg catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from logged_lakes import DeltaLake, IcebergLake

import probclass_core as pc


@dataclass(frozen=True)
class Home:
    """A place for scored tables of one kind.

    Attributes:
        ref: a table, by its name.
        records: of the commits of a table that can still be read, oldest first.
        write: makes a table by months as another engine does.
        typed: whether a table has types of its own, those of its partition columns among them.
    """

    ref: Callable[[str], pc.TableRef]
    records: Callable[[str], list[dict[str, Any]]]
    write: Callable[[str, pa.Table], None]
    typed: bool

    def read(self, name: str) -> pa.Table:
        """All rows, as probclass reads them."""
        plan = pc.open_table(self.ref(name)).plan()
        return pa.Table.from_batches(plan.batches(), plan.schema)

    def xs(self, name: str) -> list[tuple[str, float]]:
        """Month and x of each row, sorted."""
        rows = self.read(name)
        return sorted(zip(rows["month"].to_pylist(), rows["x"].to_pylist(), strict=True))


def on_disk(root: Path) -> Home:
    def records(name: str) -> list[dict[str, Any]]:
        files = sorted((root / name).rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
        return [json.loads(pq.read_metadata(file).metadata[b"probclass.commit"]) for file in files]

    def write(name: str, table: pa.Table) -> None:
        pq.write_to_dataset(table, root / name, partition_cols=["month"])

    return Home(lambda name: pc.TableRef(str(root / name)), records, write, typed=False)


def in_store(root: Path) -> Home:
    """By manifests, as in a bucket; the store is one of fsspec's in memory."""
    store = fsspec.filesystem("memory")
    place = f"/{root.name}"

    def records(name: str) -> list[dict[str, Any]]:
        found = store.find(f"{place}/{name}/_commits", detail=True).values()
        ordered = sorted(found, key=lambda info: info["created"])
        return [json.loads(store.cat(info["name"]))["commit"] for info in ordered]

    def write(name: str, table: pa.Table) -> None:
        pq.write_to_dataset(table, f"{place}/{name}", filesystem=store, partition_cols=["month"])

    return Home(lambda name: pc.TableRef(f"memory:/{place}/{name}"), records, write, typed=False)


def in_delta(root: Path) -> Home:
    lake = DeltaLake(root)

    def records(name: str) -> list[dict[str, Any]]:
        entries = DeltaTable(str(root / name)).history()[::-1]
        return [json.loads(entry["probclass.commit"]) for entry in entries]

    return Home(lake.ref, records, lambda n, t: lake.write(n, t, ["month"]), typed=True)


def in_iceberg(root: Path) -> Home:
    lake = IcebergLake(root)

    def records(name: str) -> list[dict[str, Any]]:
        told = [snapshot.summary for snapshot in lake.table(name).snapshots()]
        return [json.loads(each["probclass.commit"]) for each in told if each is not None]

    return Home(lake.ref, records, lambda n, t: lake.write(n, t, ["month"]), typed=True)


HOMES = {"disk": on_disk, "store": in_store, "delta": in_delta, "iceberg": in_iceberg}
