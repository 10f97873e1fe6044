"""Iceberg tables partitioned by transforms of columns are read, but not written."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_and_iceberg import IcebergLake, lake_fixture, rows, spec
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
from probclass_core.errors import TableError

lake = lake_fixture("iceberg")


def test_a_table_partitioned_by_a_transform_is_read(lake: IcebergLake) -> None:
    times = [dt.datetime(2014, month, 1) for month in (1, 2) for _ in range(20)]
    timed = rows("").set_column(3, "time", pa.array(times, pa.timestamp("us")))
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
    assert (len(february.units), february.rows) == (1, 20)


TRANSFORMS: dict[str, list[tuple[str, Transform[Any, Any]]]] = {
    "a hash": [("id", BucketTransform(4))],
    "prefixes within a month": [("month", IdentityTransform()), ("kind", TruncateTransform(1))],
    "a month": [("time", MonthTransform())],
    "a day": [("time", DayTransform())],
    "a dropped field": [("month", VoidTransform())],
}


@pytest.mark.parametrize("by", TRANSFORMS)
def test_a_table_partitioned_by_a_transform_is_not_written(lake: IcebergLake, by: str) -> None:
    times = [dt.datetime(2014, 1, day % 2 + 1) for day in range(40)]
    source = rows("2014-01").append_column("id", pa.array(range(40))).append_column("time", [times])
    pq.write_table(source, lake.root / "source.parquet")
    model = pc.fit(source, spec())
    pc.score(model, source, lake.ref("by_month"), partition={"month": "2014-01"})
    lake.write("transformed", lake.read("by_month").slice(0, 0), [])
    with lake.table("transformed").update_spec() as change:
        for name, transform in TRANSFORMS[by]:
            change.add_field(name, transform)
    before = lake.table("transformed").metadata
    for partition, overwrite in (
        ({"month": "2014-01"}, "partition"),
        ({"kind": "p"}, "partition"),
        (None, "append"),
    ):
        options: dict[str, Any] = {"partition": partition, "options": {"overwrite": overwrite}}
        with pytest.raises(TableError, match=r"only replaces partitions by|got one of no columns"):
            pc.score(model, lake.root / "source.parquet", lake.ref("transformed"), **options)
    assert lake.table("transformed").metadata == before


def test_files_of_an_earlier_partitioning_are_read_and_not_replaced(lake: IcebergLake) -> None:
    source = lake.ref("lake")
    lake.write("mixed", pa.concat_tables([rows("2014-01"), rows("2014-02")]), [])
    with lake.table("mixed").update_spec() as change:
        change.add_identity("month")
    lake.write("mixed", rows("2014-03"), ["month"])
    assert pc.open_table(lake.ref("mixed")).partition_columns == []
    february = pc.open_table(lake.ref("mixed")).plan(where=[("month", "==", "2014-02")])
    assert sum(batch.num_rows for batch in february.batches()) == 40
    with pytest.raises(TableError, match="earlier partitioning"):
        pc.score(pc.fit(source, spec()), source, lake.ref("mixed"), partition={"month": "2014-01"})
