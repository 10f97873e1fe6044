"""Delta and Iceberg tables, written and read by their own libraries."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

import probclass_core as pc

# Otherwise polars warns that it falls back to this planner, for its own is a separate package.
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"


@dataclass(frozen=True)
class DeltaLake:
    """Tables in a local folder, or in a bucket that is accessed with storage options.

    All but ``ref`` and ``files`` use the library of the format, with the options in ``storage``; so
    do those of `IcebergLake`.
    """

    root: Path
    bucket: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    ref_storage: Mapping[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return f"{self.bucket or self.root}/{name}"

    def table(self, name: str, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.path(name), version, storage_options={**self.storage})

    def ref(self, name: str, **options: Any) -> pc.TableRef:
        return pc.TableRef(self.path(name), format="delta", options=self.ref_storage, **options)

    def write(self, name: str, rows: pa.Table, by: list[str]) -> None:
        options: dict[str, Any] = {"mode": "append", "storage_options": {**self.storage}}
        write_deltalake(self.path(name), rows, partition_by=by, **options)

    def replace(self, name: str, rows: pa.Table, month: str) -> None:
        write_deltalake(self.path(name), rows, mode="overwrite", predicate=f"month = '{month}'")

    def read(self, name: str, version: int | None = None) -> pa.Table:
        return self.table(name, version).to_pyarrow_table()

    def read_with_polars(self, name: str) -> pl.DataFrame:
        return pl.read_delta(self.path(name), storage_options={**self.storage})

    def versions(self, name: str) -> list[int]:
        return list(range(self.table(name).version() + 1))

    def commits(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(entry["probclass.commit"]) for entry in self.table(name).history()[::-1]]

    def files(self, name: str) -> list[Path]:
        return sorted((self.root / name).rglob("*.parquet"))


@dataclass(frozen=True)
class IcebergLake:
    """Tables in the namespace ``air`` of a SQLite catalog, created when first written."""

    root: Path
    warehouse: str | None = None
    storage: Mapping[str, str] = field(default_factory=dict)
    ref_storage: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, str]:
        uri, warehouse = (
            f"sqlite:///{self.root}/catalog.db",
            self.warehouse or f"file://{self.root}",
        )
        return {"type": "sql", "uri": uri, "warehouse": warehouse}

    @property
    def catalog(self) -> Catalog:
        return load_catalog("lake", **self.options, **self.storage)

    def table(self, name: str) -> Table:
        return self.catalog.load_table(f"air.{name}")

    def ref(self, name: str, **options: Any) -> pc.TableRef:
        properties = {**self.options, **self.ref_storage}
        return pc.TableRef(f"iceberg://lake/air.{name}", options=properties, **options)

    def write(self, name: str, rows: pa.Table, by: list[str]) -> None:
        self.catalog.create_namespace_if_not_exists("air")
        if not self.catalog.table_exists(f"air.{name}"):
            table = self.catalog.create_table(f"air.{name}", rows.schema)
            with table.update_spec() as spec:
                for column in by:
                    spec.add_identity(column)
        self.table(name).append(rows)

    def replace(self, name: str, rows: pa.Table, month: str) -> None:
        self.table(name).overwrite(rows, overwrite_filter=f"month == '{month}'")

    def read(self, name: str, version: int | None = None) -> pa.Table:
        return self.table(name).scan(snapshot_id=version).to_arrow()

    def read_with_polars(self, name: str) -> pl.DataFrame:
        return pl.scan_iceberg(self.table(name)).collect()

    def versions(self, name: str) -> list[int]:
        return [entry.snapshot_id for entry in self.table(name).history()]

    def commits(self, name: str) -> list[dict[str, Any]]:
        summaries = [snapshot.summary for snapshot in self.table(name).snapshots()]
        return [json.loads(summary["probclass.commit"] or "") for summary in summaries if summary]

    def files(self, name: str) -> list[Path]:
        return sorted((self.root / "air" / name / "data").rglob("*.parquet"))


Lake = DeltaLake | IcebergLake
LAKES: Mapping[str, type[Lake]] = {"delta": DeltaLake, "iceberg": IcebergLake}


def rows(month: str, size: int = 40) -> pa.Table:
    """Return rows of one month: two features and a label."""
    x = [float(value) for value in range(size)]
    return pa.table(
        {
            "x": x,
            "kind": pa.array(["p" if value % 3 else "q" for value in range(size)]),
            "y": ["low" if value < size / 2 else "high" for value in x],
            "month": [month] * size,
        }
    )


def spec() -> pc.ModelSpec:
    return pc.ModelSpec("y", {"gaussian_diagonal": ["x"], "categorical": ["kind"]})


def lake_fixture(*formats: str) -> Any:
    """Return the fixture ``lake``: a lake of each format with a table of two months."""

    @pytest.fixture(name="lake", params=formats)
    def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
        lake = LAKES[request.param](tmp_path)
        lake.write("lake", pa.concat_tables([rows("2014-01"), rows("2014-02")]), ["month"])
        return lake

    return lake


def rows_by_month(table: pa.Table) -> dict[str, int]:
    """Return the number of rows of each month."""
    months = table["month"].value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in months}
