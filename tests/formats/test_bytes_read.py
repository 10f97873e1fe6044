"""What is not asked for is not read: columns, partitions and row groups, by the bytes of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake
from iceberg_deletes import delete_rows
from logged_lakes import IcebergLake

import probclass_core as pc

MONTHS = ("2014-01", "2014-02", "2014-03", "2014-04")
ROWS, GROUP = 40_000, 5_000
FEATURES = [f"x{number}" for number in range(8)]


def month_of(number: int) -> pa.Table:
    """Rows in order of their ids, with noise that no encoding makes smaller."""
    noise = np.random.default_rng(number)
    columns = {name: noise.normal(size=ROWS) for name in FEATURES}
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": ids, **columns, "month": [MONTHS[number]] * ROWS})


def parquet(root: Path) -> pc.TableRef:
    for number, month in enumerate(MONTHS):
        folder = root / "lake" / f"month={month}"
        folder.mkdir(parents=True)
        rows = month_of(number).drop_columns("month")
        pq.write_table(rows, folder / "rows.parquet", row_group_size=GROUP)
    return pc.TableRef(str(root / "lake"))


def by_fsspec(root: Path) -> pc.TableRef:
    """As from an object store: what is to be read is fetched ahead."""
    return pc.TableRef(f"local://{parquet(root).uri}")


def delta(root: Path) -> pc.TableRef:
    for number in range(4):
        write_deltalake(
            str(root / "lake"),
            month_of(number),
            partition_by=["month"],
            mode="append",
            writer_properties=WriterProperties(max_row_group_size=GROUP),
        )
    return pc.TableRef(str(root / "lake"), format="delta")


def iceberg(root: Path) -> pc.TableRef:
    lake = IcebergLake(root)
    lake.write("lake", month_of(0).slice(0, 0), ["month"])
    for number, month in enumerate(MONTHS):
        path = root / f"{month}.parquet"
        pq.write_table(month_of(number), path, row_group_size=GROUP)
        lake.table("lake").add_files([f"file://{path}"])
    return lake.ref("lake")


def iceberg_with_deletes(root: Path) -> pc.TableRef:
    ref = iceberg(root)
    for month in MONTHS:
        delete_rows(IcebergLake(root).table("lake"), f"month == '{month}'", [7, GROUP, ROWS - 1])
    return ref


TABLES: Mapping[str, Callable[[Path], pc.TableRef]] = {
    "parquet": parquet,
    "fsspec": by_fsspec,
    "delta": delta,
    "iceberg": iceberg,
    "iceberg with deletes": iceberg_with_deletes,
}


def bytes_read(table: pc.TableRef, *columns: str, **rows: Any) -> tuple[int, int]:
    """By all system calls of this process, to plan and to read; and how many rows came of it."""
    before = _counted()
    plan = pc.open_table(table).plan(list(columns) or None, **rows)
    found = sum(batch.num_rows for batch in plan.batches())
    return _counted() - before, found


def _counted() -> int:
    line = Path("/proc/self/io").read_text().splitlines()[0]
    return int(line.removeprefix("rchar: "))


@pytest.mark.parametrize("kind", TABLES)
def test_only_what_is_asked_for_is_read(tmp_path: Path, kind: str) -> None:
    table, lost = TABLES[kind](tmp_path), 3 if kind == "iceberg with deletes" else 0
    bytes_read(table)  # what is imported is not read again
    whole, found = bytes_read(table)
    assert found == 4 * (ROWS - lost)
    # Nine columns of eight bytes a value, of which the ids are easily packed.
    values = 4 * ROWS * 8
    assert whole > 8 * values

    columns, found = bytes_read(table, "x0")
    assert found == 4 * (ROWS - lost)
    assert values < columns < 0.2 * whole

    partition, found = bytes_read(table, partition={"month": "2014-03"})
    assert found == ROWS - lost
    assert 2 * values < partition < 0.3 * whole
    several, _ = bytes_read(table, where=[("month", ">", "2014-02")])
    assert partition < several < 0.55 * whole

    # Of all row groups, two may hold such ids, and the others say so.
    low = ROWS + 3 * GROUP + 10
    some = [("id", ">=", low), ("id", "<", low + GROUP)]
    predicate, found = bytes_read(table, where=some)
    assert found == GROUP
    assert predicate < 0.12 * whole
    one = [("id", "==", low)]
    everything, found = bytes_read(table, "x0", partition={"month": "2014-02"}, where=one)
    assert found == 1
    assert everything < 0.03 * whole


@pytest.mark.parametrize("kind", TABLES)
def test_a_training_reads_the_new_month_alone(tmp_path: Path, kind: str) -> None:
    """Of the months whose statistics are kept not even the footers; the model is the same."""
    table, store = TABLES[kind](tmp_path), tmp_path / "models"
    spec = pc.ModelSpec("month", [pc.Block("gaussian_diagonal", FEATURES)])

    def read(operator: str, **cache: Any) -> int:
        before = _counted()
        pc.summarize(table, spec, where=[("month", operator, MONTHS[3])], **cache)
        return _counted() - before

    read("<", cache=store)
    new = read("==")
    assert new <= read("<=", cache=store) < 1.1 * new
    assert read("<=", cache=store) < 0.1 * new
    everything = [("month", "<=", MONTHS[3])]
    assert pc.fit(table, spec, where=everything, cache=store).id == pc.fit(table, spec).id
