"""Only the requested columns, partitions and row groups are read, counted in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_and_iceberg import IcebergLake
from deltalake import WriterProperties, write_deltalake
from iceberg_deletes import delete_rows
from lakes import write_rows

import probclass_core as pc

MONTHS = ("2014-01", "2014-02", "2014-03", "2014-04")
ROWS, GROUP = 40_000, 5_000
FEATURES = [f"x{number}" for number in range(8)]


def month_of(number: int) -> pa.Table:
    """Rows in the order of their ids, with noise that does not compress."""
    noise = np.random.default_rng(number)
    columns = {name: noise.normal(size=ROWS) for name in FEATURES}
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": ids, **columns, "month": [MONTHS[number]] * ROWS})


def parquet(root: Path) -> pc.TableRef:
    for number, month in enumerate(MONTHS):
        rows = month_of(number).drop_columns("month")
        write_rows(root / "lake" / f"month={month}", rows, row_group_size=GROUP)
    return pc.TableRef(str(root / "lake"))


def object_store(root: Path) -> pc.TableRef:
    """Through fsspec, where requested bytes are fetched ahead."""
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
    "object store": object_store,
    "delta": delta,
    "iceberg": iceberg,
    "iceberg with deletes": iceberg_with_deletes,
}


def bytes_read(table: pc.TableRef, *columns: str, **rows: Any) -> tuple[int, int]:
    """Return the bytes that this process reads to plan and read, and the number of rows."""
    before = _process_bytes()
    plan = pc.open_table(table).plan(list(columns) or None, **rows)
    count = sum(batch.num_rows for batch in plan.batches())
    return _process_bytes() - before, count


def _process_bytes() -> int:
    """Bytes that system calls of this process have read so far."""
    line = Path("/proc/self/io").read_text().splitlines()[0]
    return int(line.removeprefix("rchar: "))


@pytest.fixture(scope="module", params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pc.TableRef:
    return TABLES[request.param](tmp_path_factory.mktemp("lake"))


def test_only_requested_data_is_read(table: pc.TableRef, request: pytest.FixtureRequest) -> None:
    deleted = 3 if "iceberg with deletes" in request.node.name else 0
    bytes_read(table)  # imports modules
    everything, count = bytes_read(table)
    assert count == 4 * (ROWS - deleted)
    # Nine columns with eight bytes for each value, of which the ids compress well.
    values = 4 * ROWS * 8
    assert everything > 8 * values

    one_column, count = bytes_read(table, "x0")
    assert count == 4 * (ROWS - deleted)
    assert values < one_column < 0.2 * everything

    one_month, count = bytes_read(table, partition={"month": "2014-03"})
    assert count == ROWS - deleted
    assert 2 * values < one_month < 0.3 * everything
    two_months, _ = bytes_read(table, where=[("month", ">", "2014-02")])
    assert one_month < two_months < 0.55 * everything

    # By their statistics, two row groups may contain such ids.
    low = ROWS + 3 * GROUP + 10
    two_groups, count = bytes_read(table, where=[("id", ">=", low), ("id", "<", low + GROUP)])
    assert count == GROUP
    assert two_groups < 0.14 * everything
    one_id = [("id", "==", low)]
    combined, count = bytes_read(table, "x0", partition={"month": "2014-02"}, where=one_id)
    assert count == 1
    assert combined < 0.03 * everything


def test_a_cached_training_reads_only_the_new_month(table: pc.TableRef, tmp_path: Path) -> None:
    """Not even the footers of months with cached statistics are read; the model is the same."""
    store = tmp_path / "models"
    spec = pc.ModelSpec("month", [pc.Block("gaussian_diagonal", FEATURES)])

    def bytes_to_summarize(operator: str, **cache: Any) -> int:
        before = _process_bytes()
        pc.summarize(table, spec, where=[("month", operator, MONTHS[3])], **cache)
        return _process_bytes() - before

    bytes_to_summarize("<", cache=store)
    new_month = bytes_to_summarize("==")
    assert new_month <= bytes_to_summarize("<=", cache=store) < 1.1 * new_month
    assert bytes_to_summarize("<=", cache=store) < 0.1 * new_month
    all_months = [("month", "<=", MONTHS[3])]
    assert pc.fit(table, spec, where=all_months, cache=store).id == pc.fit(table, spec).id
