"""Delta and Iceberg tables, written and read by their own libraries."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

import probclass_core as pc

# Otherwise polars warns that it falls back to this planner, for its own is a separate package.
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"


class Lake(Protocol):
    """A folder of tables of one format, each with a name."""

    def ref(self, name: str, **options: Any) -> pc.TableRef:
        """Return the reference that probclass takes."""
        ...

    def write(self, name: str, rows: pa.Table, by: list[str]) -> None:
        """Create a table with the format's own library, or append rows to it."""
        ...

    def replace(self, name: str, rows: pa.Table, month: str) -> None:
        """Replace a month with the format's own library."""
        ...

    def read(self, name: str) -> pa.Table:
        """Read all rows with the format's own library."""
        ...

    def read_with_polars(self, name: str) -> pl.DataFrame:
        """Read all rows with polars."""
        ...

    def versions(self, name: str) -> list[int]:
        """Return the versions of a table, oldest first."""
        ...

    def commit_record(self, name: str) -> str:
        """Return the record of the newest commit, as stored."""
        ...

    def files(self, name: str) -> list[Path]:
        """Return the data files of a table, whether or not the log names them."""
        ...


@dataclass(frozen=True)
class DeltaLake:
    root: Path

    def ref(self, name: str, **options: Any) -> pc.TableRef:
        return pc.TableRef(str(self.root / name), format="delta", **options)

    def write(self, name: str, rows: pa.Table, by: list[str]) -> None:
        write_deltalake(str(self.root / name), rows, partition_by=by, mode="append")

    def replace(self, name: str, rows: pa.Table, month: str) -> None:
        table = str(self.root / name)
        write_deltalake(table, rows, mode="overwrite", predicate=f"month = '{month}'")

    def read(self, name: str) -> pa.Table:
        return DeltaTable(str(self.root / name)).to_pyarrow_table()

    def read_with_polars(self, name: str) -> pl.DataFrame:
        return pl.read_delta(str(self.root / name))

    def versions(self, name: str) -> list[int]:
        return list(range(DeltaTable(str(self.root / name)).version() + 1))

    def commit_record(self, name: str) -> str:
        return str(DeltaTable(str(self.root / name)).history(1)[0]["probclass.commit"])

    def files(self, name: str) -> list[Path]:
        return sorted((self.root / name).rglob("*.parquet"))


@dataclass(frozen=True)
class IcebergLake:
    """Tables in the namespace ``air`` of a SQLite catalog, created when first written."""

    root: Path

    @property
    def options(self) -> dict[str, str]:
        uri = f"sqlite:///{self.root}/catalog.db"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.root}"}

    @property
    def catalog(self) -> Catalog:
        return load_catalog("lake", **self.options)

    def table(self, name: str) -> Table:
        return self.catalog.load_table(f"air.{name}")

    def ref(self, name: str, **options: Any) -> pc.TableRef:
        return pc.TableRef(f"iceberg://lake/air.{name}", options=self.options, **options)

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

    def read(self, name: str) -> pa.Table:
        return self.table(name).scan().to_arrow()

    def read_with_polars(self, name: str) -> pl.DataFrame:
        return pl.scan_iceberg(self.table(name)).collect()

    def versions(self, name: str) -> list[int]:
        return [entry.snapshot_id for entry in self.table(name).history()]

    def commit_record(self, name: str) -> str:
        snapshot = self.table(name).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return str(snapshot.summary["probclass.commit"])

    def files(self, name: str) -> list[Path]:
        return sorted((self.root / "air" / name / "data").rglob("*.parquet"))


LAKES: Mapping[str, type[DeltaLake] | type[IcebergLake]] = {
    "delta": DeltaLake,
    "iceberg": IcebergLake,
}


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
    return pc.ModelSpec(
        "y", [pc.Block("gaussian_diagonal", ["x"]), pc.Block("categorical", ["kind"])]
    )


def rows_by_month(table: pa.Table) -> dict[str, int]:
    """Return the number of rows of each month."""
    months = table["month"].value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in months}


def score_in_processes(
    model: pc.Model, source: pc.TableRef, sink: pc.TableRef, months: list[str]
) -> list[str]:
    """Score each month in a process of its own, all committing at the same moment.

    Returns:
        "committed" or the error message of each process, in the order in which they end.
    """
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(len(months)), context.Queue()
    writers = [
        context.Process(target=_score, args=(model, source, sink, month, barrier, outcomes))
        for month in months
    ]
    for writer in writers:
        writer.start()
    messages = [outcomes.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join()
    return messages


def _score(
    model: pc.Model, source: pc.TableRef, sink: pc.TableRef, month: str, barrier: Any, outcomes: Any
) -> None:
    def wait_before_the_commit(done: int, total: int | None) -> None:
        if done == total:
            barrier.wait(60)

    try:
        pc.score(
            *(model, source, sink),
            partition={"month": month},
            columns=["x"],
            progress=wait_before_the_commit,
        )
        outcomes.put("committed")
    except pc.TableError as error:
        outcomes.put(str(error))
