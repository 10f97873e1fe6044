"""Iceberg tables that are partitioned by more than whole values: read, and not written."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logged_lakes import IcebergLake, rows, spec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)

import probclass_core as pc


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = IcebergLake(tmp_path)
    lake.write("lake", pa.concat_tables([rows("2014-01"), rows("2014-02")]), ["month"])
    return lake


def test_other_kinds_of_partitions_are_read_and_not_replaced(lake: IcebergLake) -> None:
    times = [dt.datetime(2014, month, 1) for month in (1, 2) for _ in range(20)]
    timed = rows("").set_column(3, "time", pa.array(times, pa.timestamp("us")))
    model = pc.fit(timed, spec())
    lake.write("timed", timed.slice(0, 0), [])
    with lake.table("timed").update_spec() as change:
        change.add_field("time", MonthTransform())
    for part in (timed.slice(0, 20), timed.slice(20)):
        path = lake.root / f"{part['time'][0]}.parquet"
        pq.write_table(part, path)
        lake.table("timed").add_files([f"file://{path}"])
    table = pc.open_table(lake.ref("timed"))
    assert table.partition_columns == []
    february = table.plan(where=[("time", ">=", "2014-02-01")])
    assert (len(february.fragments), february.rows) == (1, 20)
    with pytest.raises(
        pc.TableError, match=r"partitioned by month of 'time'; probclass only replaces"
    ):
        pc.score(model, rows("2014-01"), lake.ref("timed"), partition={"month": "2014-01"})


TRANSFORMED: dict[str, list[tuple[str, Transform[Any, Any]]]] = {
    "a hash": [("x", BucketTransform(4))],
    "a hash within a month": [("month", IdentityTransform()), ("id", BucketTransform(4))],
    "beginnings of text": [("kind", TruncateTransform(1))],
    "beginnings of text within a month": [
        ("month", IdentityTransform()),
        ("kind", TruncateTransform(1)),
    ],
    "a day": [("time", DayTransform())],
    "a month and a day": [("month", IdentityTransform()), ("time", DayTransform())],
    "nothing any more": [("month", VoidTransform())],
}


@pytest.mark.parametrize("by", TRANSFORMED)
def test_a_table_by_what_no_value_tells_is_not_written(lake: IcebergLake, by: str) -> None:
    rest = {
        "id": pa.array(range(40)),
        "time": pa.array([dt.datetime(2014, 1, day % 2 + 1) for day in range(40)]),
    }
    full = rows("2014-01")
    for name, column in rest.items():
        full = full.append_column(name, column)
    pq.write_table(full, lake.root / "full.parquet")
    model = pc.fit(full, spec())
    pc.score(model, full, lake.ref("made"), partition={"month": "2014-01"})
    lake.write("made too", lake.read("made").slice(0, 0), [])
    table = lake.table("made too")
    changes = [(name.replace("x", "id"), transform) for name, transform in TRANSFORMED[by]]
    with table.update_spec() as change:
        for name, transform in changes:
            change.add_field(name, transform)
    before = lake.table("made too").metadata
    for partition in ({"month": "2014-01"}, {"kind": "p"}, None):
        for how in ({}, {"overwrite": "append"}):
            asked: dict[str, Any] = {"partition": partition, **how}
            with pytest.raises(
                pc.TableError, match=r"only replaces partitions by|got one of no columns"
            ):
                pc.score(model, lake.root / "full.parquet", lake.ref("made too"), **asked)
    assert lake.table("made too").metadata == before


def test_files_of_an_earlier_partitioning_are_read_and_not_replaced(lake: IcebergLake) -> None:
    source = lake.ref("lake")
    lake.write("mixed", pa.concat_tables([rows("2014-01"), rows("2014-02")]), [])
    with lake.table("mixed").update_spec() as change:
        change.add_identity("month")
    lake.write("mixed", rows("2014-03"), ["month"])
    assert pc.open_table(lake.ref("mixed")).partition_columns == []
    february = pc.open_table(lake.ref("mixed")).plan(where=[("month", "==", "2014-02")])
    assert sum(batch.num_rows for batch in february.batches()) == 40
    with pytest.raises(pc.TableError, match="earlier partitioning"):
        pc.score(pc.fit(source, spec()), source, lake.ref("mixed"), partition={"month": "2014-01"})
