"""What is particular to Iceberg tables; see test_delta_and_iceberg.py for what they share."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from delta_and_iceberg import IcebergLake, lake_fixture, rows, rows_by_month, spec
from iceberg_deletes import delete_rows
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import StringType
from pyiceberg.utils.config import Config
from reading import read_rows

import probclass_core as pc
from probclass_core.errors import TableError

lake = lake_fixture("iceberg")


def read(ref: pc.TableRef, *by: str, **query: Any) -> pa.Table:
    """Read a table, sorted by columns."""
    return read_rows(ref, **query).sort_by([(name, "ascending") for name in by])


def same_rows(table: pa.Table, expected: pa.Table) -> bool:
    """Whether two tables are equal up to the order of columns and the layout of text."""
    return table.equals(expected.select(table.column_names).cast(table.schema))


def test_equality_deletes_are_refused(lake: IcebergLake) -> None:
    delete_rows(lake.table("lake"), "month == '2014-01'", [0], DataFileContent.EQUALITY_DELETES)
    with pytest.raises(TableError, match=r"equality deletes.* rewrite"):
        pc.fit(lake.ref("lake"), spec())


def test_a_damaged_deletion_vector_is_named(lake: IcebergLake) -> None:
    path = delete_rows(lake.table("lake"), "month == '2014-01'", [0], file_format=FileFormat.PUFFIN)
    path.write_bytes(b"PFA1" + path.read_bytes()[:-4] + b"XXXX")
    with pytest.raises(TableError, match=rf"cannot read .*{path.name}"):
        pc.fit(lake.ref("lake"), spec())


def test_a_scored_partition_that_lost_rows_is_scored_again(lake: IcebergLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink)
    delete_rows(lake.table("scored"), "month == '2014-01'", [3])
    assert rows_by_month(lake.read("scored")) == {"2014-01": 39, "2014-02": 40}
    assert pc.score(model, source, sink).counts["unchanged"] == 1
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}


def test_changed_columns_are_found_by_their_ids(lake: IcebergLake) -> None:
    """A column is renamed, and another one is deleted before a new one takes its name."""
    numbers, months = pa.array([1, 2, 3], pa.int32()), ["2014-01"] * 3
    first = pa.table({"n": numbers, "kind": ["p", "q", "p"], "gone": [1.0, 2.0, 3.0]})
    lake.write("changing", first.append_column("month", [months]), ["month"])
    table = lake.table("changing")
    with table.update_schema() as change:
        change.rename_column("kind", "sort")
        change.delete_column("gone")
    with table.update_schema() as change:
        change.add_column("gone", StringType())
    newer = {"n": pa.array([4], pa.int32()), "sort": ["q"], "month": ["2014-02"], "gone": ["here"]}
    table.append(pa.table(newer))
    now = read(lake.ref("changing"), "n")
    assert now["sort"].to_pylist() == ["p", "q", "p", "q"]
    assert now["gone"].to_pylist() == [None, None, None, "here"]
    assert same_rows(now, lake.read("changing").sort_by("n"))
    for where, found in (([("sort", "==", "p")], [1, 3]), (pac.field("sort") == "q", [2, 4])):
        some = read(lake.ref("changing"), "n", columns=["n"], where=where)
        assert some["n"].to_pylist() == found
    # A single older partition is read with the types of the table, too.
    assert read(lake.ref("changing"), "n", partition={"month": "2014-01"}).schema == now.schema
    before = lake.ref("changing", version=lake.versions("changing")[0])
    assert read(before, "n").drop_columns("month").equals(first)
    old = read(before, "n", columns=["n"], where=[("kind", "==", "q"), ("gone", "<", 2.5)])
    assert old["n"].to_pylist() == [2]


def test_statistics_of_columns_that_swapped_names_are_computed_again(
    lake: IcebergLake, tmp_path: Path
) -> None:
    both = rows("2014-01").append_column("z", pa.array(np.arange(40.0)[::-1] ** 2))
    lake.write("swapped", both, ["month"])
    swapped, only_x = lake.ref("swapped"), pc.ModelSpec("y", {"gaussian_diagonal": ["x"]})
    pc.fit(swapped, only_x, cache=tmp_path / "store")
    for old, new in (("x", "was x"), ("z", "x"), ("was x", "z")):
        with lake.table("swapped").update_schema() as change:
            change.rename_column(old, new)
    model = pc.fit(swapped, only_x, cache=tmp_path / "store")
    assert (model.training["cache"]["reused"], model.id) == (0, pc.fit(swapped, only_x).id)


def test_files_without_ids_are_read_by_the_name_mapping(lake: IcebergLake) -> None:
    lake.write("mapped", rows("2014-01").slice(0, 0), ["month"])
    path = lake.root / "foreign.parquet"
    pq.write_table(rows("2014-01"), path)
    lake.table("mapped").add_files([f"file://{path}"])
    with lake.table("mapped").update_schema() as change:
        change.rename_column("kind", "sort")
    table = read(lake.ref("mapped"), "x")
    assert table["sort"].to_pylist() == rows("2014-01")["kind"].to_pylist()


def test_only_files_that_may_contain_the_rows_are_opened(lake: IcebergLake) -> None:
    for start in (100.0, 200.0):
        later = rows("2014-03").set_column(0, "x", pa.array(np.arange(40) + start))
        lake.write("lake", later, ["month"])
    table = lake.table("lake")
    for task in table.scan(row_filter="x < 200").plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()
    march = {"partition": {"month": "2014-03"}, "where": [("x", ">=", 200.0)]}
    assert read(lake.ref("lake"), "x", **march)["x"].to_pylist() == list(np.arange(40) + 200.0)
    several = read(lake.ref("lake"), "x", where=[("x", "in", [210.0, 211.0])])
    assert several.num_rows == 2
    with pytest.raises(TableError, match="cannot read"):
        read(lake.ref("lake"), "x")
    partitions = pc.open_table(lake.ref("lake")).partitions([("month", "==", "2014-02")])
    assert partitions == [{"month": "2014-02"}]


def test_scored_files_have_column_ids_and_bounds(lake: IcebergLake) -> None:
    pc.score(pc.fit(lake.ref("lake"), spec()), lake.ref("lake"), lake.ref("scored"))
    table = lake.table("scored")
    ids = {column.name: column.field_id for column in table.schema().fields}
    for path in lake.files("scored"):
        schema = pq.read_schema(path)
        assert {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema} == ids
    assert table.name_mapping() is None
    # Other readers prune files by the bounds of their columns.
    (january,) = table.scan(row_filter="month == '2014-01' and x < 1.0").plan_files()
    assert january.file.record_count == 40
    assert not list(table.scan(row_filter="x > 1000.0").plan_files())
    assert table.scan(row_filter="x < 3 and prediction == 'low'").to_arrow().num_rows == 6


def test_columns_are_cast_to_types_of_iceberg(lake: IcebergLake) -> None:
    times = pa.array([dt.datetime(2014, 1, 1, hour) for hour in range(20)] * 2, pa.timestamp("ns"))
    odd = pa.table(
        {
            **{name: rows("2014-01")[name] for name in ("x", "y")},
            "kind": rows("2014-01")["kind"].dictionary_encode(),
            "small": pa.array(range(40), pa.int8()),
            "unsigned": pa.array(range(40), pa.uint16()),
            "half": pa.array(np.arange(40, dtype=np.float16)),
            "time": times,
            "zoned": times.cast(pa.timestamp("ns", "Europe/Paris")),
            "p one.two": ["ä"] * 40,
            "list": [[1.0, None]] * 40,
            "struct": [{"a": 1, "b": "c"}] * 40,
        }
    )
    model = pc.fit(odd, spec())
    for _ in range(2):  # the second time by the table's own schema
        pc.score(model, odd, lake.ref("odd"))
        scored = read(lake.ref("odd"), "x")
        passed_through = odd.select([name for name in odd.column_names if name != "kind"])
        assert scored.select(passed_through.column_names).to_pylist() == passed_through.to_pylist()
        assert scored.schema.field("small").type == pa.int32()
        assert scored.schema.field("zoned").type == pa.timestamp("us", "UTC")
        assert same_rows(scored, lake.read("odd").sort_by("x"))
        assert lake.read_with_polars("odd")["p one.two"].unique().to_list() == ["ä"]


def test_a_null_in_a_required_column_is_refused(lake: IcebergLake) -> None:
    source, sink, only_x = lake.ref("lake"), lake.ref("scored"), {"columns": ["x"]}
    model = pc.fit(source, spec())
    pc.score(model, source, sink, partition={"month": "2014-01"}, options=only_x)
    with lake.table("scored").update_schema(allow_incompatible_changes=True) as change:
        change.update_column("x", required=True)
    with_null = rows("2014-02").set_column(0, "x", pa.array([None, *map(float, range(39))]))
    lake.replace("lake", with_null, "2014-02")
    with pytest.raises(TableError, match="null"):
        pc.score(model, source, sink, partition={"month": "2014-02"}, options=only_x)
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40}


@pytest.mark.parametrize("uri", ["iceberg://lake", "iceberg://lake/air", "iceberg:///air.lake"])
def test_a_uri_must_name_catalog_namespace_and_table(lake: IcebergLake, uri: str) -> None:
    with pytest.raises(TableError, match=r"iceberg://catalog/namespace\.table"):
        pc.open_table(pc.TableRef(uri, options=lake.options))


def test_an_unknown_catalog_is_refused(lake: IcebergLake) -> None:
    with pytest.raises(
        TableError, match=r"catalog 'nowhere' is not configured; .*PYICEBERG_CATALOG__NOWHERE__"
    ):
        pc.open_table("iceberg://nowhere/air.lake")


def test_a_catalog_may_be_configured_by_the_environment(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in lake.options.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{key.upper()}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # as when it is imported
    assert "month" in pc.open_table("iceberg://lake/air.lake").schema.names


def test_a_file_that_no_snapshot_names_is_cleaned_once_it_is_old(lake: IcebergLake) -> None:
    """A writer that was killed before its commit leaves one."""
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink)
    lake.replace("lake", rows("2014-01", 9), "2014-01")
    pc.score(model, source, sink)
    [first, *_] = lake.files("scored")
    left = first.with_name(f"part-{'0' * 32}.parquet")
    left.write_bytes(first.read_bytes())
    assert pc.clean_table(sink) == []  # its writer might still be running
    (leftover,) = pc.clean_table(sink, older_than=dt.timedelta(0))
    assert leftover.path.endswith(left.name)
    counts = [
        pc.open_table(lake.ref("scored", version=version)).plan().rows
        for version in lake.versions("scored")
    ]
    assert counts == [40, 80, 49]


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
