"""Statistics in the Delta log: they bound every value, and readers that use them lose no rows."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from delta_and_iceberg import rows, spec
from deltalake import DeltaTable

import probclass_core as pc

NAN, INF = math.nan, math.inf
MONTHS = ("2014-01", "2014-02", "2014-03")
LONG = "a" * 40


def month_of(number: int, **columns: Any) -> pa.Table:
    """Rows of one month with more columns."""
    table = rows(MONTHS[number])
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def score(root: Path, *months: pa.Table, where: Any = None, **options: Any) -> DeltaTable:
    """Score months into a new Delta table, one file each."""
    pq.write_to_dataset(
        pa.concat_tables(months),
        root / "lake",
        partition_cols=["month"],
        existing_data_behavior="delete_matching",
    )
    sink = pc.TableRef(str(root / "scored"), format="delta")
    pc.score(pc.fit(rows(MONTHS[0]), spec()), root / "lake", sink, where=where, options=options)
    return DeltaTable(root / "scored")


def statistics(table: DeltaTable) -> dict[str, dict[str, Any]]:
    """The flattened add action of each month."""
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return {action["partition.month"]: action for action in actions}


def month_with_every_type(number: int) -> pa.Table:
    def with_null(*values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array([*values, None] * 10, kind)

    day, noon = dt.date(2014, number + 1, 1), dt.datetime(2014, number + 1, 1, 12, 0, 0, 250_000)
    return month_of(
        number,
        whole=with_null(number, 2**40 + number, -5, kind=pa.int64()),
        small=with_null(number, -number, 7, kind=pa.int8()),
        single=with_null(0.1 + number, -0.25, 0.5, kind=pa.float32()),
        double=with_null(0.1 + number, -1e300, -0.0, kind=pa.float64()),
        flag=with_null(True, number == 0, True, kind=pa.bool_()),
        text=with_null(f"ß ☃ {number}", "", 'a,"b\n', kind=pa.string()),
        day=with_null(day, day, dt.date(1969, 12, 31), kind=pa.date32()),
        at=with_null(noon, noon, dt.datetime(1960, 1, 1), kind=pa.timestamp("us", "UTC")),
        local=with_null(noon, noon, dt.datetime(1960, 1, 1), kind=pa.timestamp("us")),
        price=with_null(*map(Decimal, ("1.25", "-7.50", "9.99")), kind=pa.decimal128(9, 2)),
        vector=with_null([0.5, None], [], [1.0], kind=pa.list_(pa.float64())),
        pair=with_null({"a": 1}, {"a": 2}, {"a": None}, kind=pa.struct([("a", pa.int64())])),
        bytes=with_null(b"\x00", b"\xff", b"", kind=pa.binary()),
        nothing=pa.nulls(40, pa.float64()),
    )


def test_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    table = score(tmp_path, *map(month_with_every_type, range(3)))
    by_month = statistics(table)
    assert {*by_month} == {*MONTHS}
    scored = table.to_pyarrow_table()
    nested = {"vector", "pair", "bytes", "month"}
    for month, action in by_month.items():
        part = scored.filter(pac.field("month") == month)
        assert action["num_records"] == part.num_rows == 40
        for name in {*part.column_names} - nested - {"model_id"}:  # whose text is too long
            bounds = pac.min_max(part[name]).as_py()
            found = {"min": action[f"min.{name}"], "max": action[f"max.{name}"]}
            assert found == bounds, name
            assert action[f"null_count.{name}"] == part[name].null_count, name
        assert not [name for name in nested if action.get(f"min.{name}") is not None]


def test_a_filtered_read_opens_only_the_files_that_may_match(tmp_path: Path) -> None:
    table = score(tmp_path, *map(month_with_every_type, range(3)))
    dataset = table.to_pyarrow_dataset()
    for condition, files, count in (
        (ds.field("whole") > 2**40 + 1, 1, 10),
        (ds.field("double") > 2.0, 1, 10),
        (ds.field("text") == "ß ☃ 1", 2, 10),  # the third month's texts sort around it
        (ds.field("day") > dt.date(2014, 2, 15), 1, 20),
        (ds.field("at") > dt.datetime(2014, 1, 15, tzinfo=dt.UTC), 2, 40),
        (ds.field("log_density") > 1e9, 0, 0),
    ):
        assert len(list(dataset.get_fragments(condition))) == files, condition
        assert dataset.to_table(filter=condition).num_rows == count, condition
    plan = pc.open_table(tmp_path / "scored").plan(where=[("double", ">", 2.0)])
    assert len(plan.units) == 1
    for month in MONTHS[:2]:
        for path in (tmp_path / "scored" / f"month={month}").glob("*.parquet"):
            path.unlink()
    kept = pl.scan_delta(tmp_path / "scored").filter(pl.col("whole") > 2**40 + 1).collect()
    assert kept.height == 10


ODD: dict[str, tuple[list[float | None], tuple[float | None, float | None]]] = {
    "nan": ([1.0, NAN, 3.0, None], (1.0, INF)),
    "infinite": ([1.0, INF, -INF, None], (-INF, INF)),
    "only nan": ([NAN, NAN, NAN, NAN], (-INF, INF)),
    "null": ([None, None, None, None], (None, None)),
}
"""Values, and the bounds in the log."""


@pytest.mark.parametrize("kind", ODD)
def test_no_row_is_skipped_for_a_nan_an_infinity_or_a_null(tmp_path: Path, kind: str) -> None:
    """Some readers sort NaN after infinity, and others never match it."""
    cells, bounds = ODD[kind]
    plain, odd = (pa.array(column * 10, pa.float64()) for column in ([1.0, 2.0, 3.0, 4.0], cells))
    values = pa.chunked_array([plain, odd])
    table = score(tmp_path, month_of(0, z=plain), month_of(1, z=odd))
    action = statistics(table)[MONTHS[1]]
    assert (action["min.z"], action["max.z"]) == bounds
    assert action["null_count.z"] == odd.null_count
    dataset, scan = table.to_pyarrow_dataset(), pl.scan_delta(tmp_path / "scored")
    in_memory = pl.DataFrame({"z": values})
    field, column = ds.field("z"), pl.col("z")
    for theirs, polars in (
        (field > 2.5, column > 2.5),
        (field < 0.0, column < 0.0),
        (field == 3.0, column == 3.0),
        (field == INF, column == INF),
        (field.is_nan(), column.is_nan()),
        (field.is_null(), column.is_null()),
        (field != 1.0, column != 1.0),
    ):
        expected = pa.table({"z": values}).filter(theirs).num_rows
        assert dataset.to_table(filter=theirs).num_rows == expected, theirs
        if expected:
            ours = pc.open_table(tmp_path / "scored").plan(["z"], where=theirs)
            assert sum(batch.num_rows for batch in ours.batches()) == expected, theirs
        assert scan.filter(polars).collect().height == in_memory.filter(polars).height, polars


def written_statistics(root: Path) -> list[dict[str, Any]]:
    """The statistics in the log, as the JSON that it has."""
    entries = sorted((root / "scored" / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
    return [json.loads(action["add"]["stats"]) for action in actions if "add" in action]


def test_bounds_are_rounded_outwards(tmp_path: Path) -> None:
    times = [dt.datetime(2014, 1, 1, 0, 0, 0, micro, dt.UTC) for micro in (1_500, 2_500)]
    long = pa.array([f"{LONG}1", f"{LONG}2"] * 20)
    table = score(tmp_path, month_of(0, long=long, at=pa.array(times * 20)))
    [stats] = written_statistics(tmp_path)
    least, greatest = stats["minValues"], stats["maxValues"]
    assert (least["long"], greatest["long"]) == (LONG[:32], LONG[:32] + "\U0010ffff")
    assert (least["at"], greatest["at"]) == (
        "2014-01-01T00:00:00.001Z",
        "2014-01-01T00:00:00.003Z",
    )
    dataset = table.to_pyarrow_dataset()
    for condition in (ds.field("long") == f"{LONG}2", ds.field("at") > times[0]):
        assert dataset.to_table(filter=condition).num_rows == 20


UNBOUNDED = {
    "long text without statistics in the footer": pa.array(["b" * 5000, "c"] * 20),
    "text that nothing sorts after": pa.array(["\U0010ffff" * 40, "c"] * 20),
    "decimals with more digits than a double": pa.array(
        [Decimal("12345678901234567890.12"), Decimal(0)] * 20, pa.decimal128(30, 2)
    ),
    "dates after the year 9999": pa.array([2**31 - 1, 0] * 20, pa.int32()).cast(pa.date32()),
}


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_a_file_has_bounds_for_all_columns_or_for_none(tmp_path: Path, kind: str) -> None:
    """deltalake's dataset skips a file for a condition on a column that alone has no bounds."""
    values = UNBOUNDED[kind]
    plain = values.take(pa.array([1, 1] * 20))
    table = score(tmp_path, month_of(0, z=plain), month_of(1, z=values))
    first, second = written_statistics(tmp_path)
    assert {*first["minValues"]} == {*first["maxValues"]} == {*first["nullCount"]}
    assert {*second} == {"numRecords", "nullCount"}
    rows_found = table.to_pyarrow_dataset().to_table(["x"], filter=ds.field("z") != values[1])
    assert rows_found.num_rows == 20
    plan = pc.open_table(tmp_path / "scored").plan(["x"], where=ds.field("z") != values[1])
    assert sum(batch.num_rows for batch in plan.batches()) == 20


WIDE = [f"c{number}" for number in range(34)]


def wide_month() -> pa.Table:
    return month_of(0, **{name: pa.array(range(40)) for name in WIDE})


@pytest.mark.parametrize(("limit", "indexed"), [(None, 32), ("2", 2), ("-1", 43)])
def test_only_as_many_columns_as_the_table_asks_for_have_statistics(
    tmp_path: Path, limit: str | None, indexed: int
) -> None:
    columns = [*WIDE, "x", "y", "kind"]
    table = score(tmp_path, wide_month(), columns=columns)
    if limit is not None:
        table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": limit})
        table = score(tmp_path, wide_month(), columns=columns, where=[("c0", ">", 0)])
    stats = written_statistics(tmp_path)[-1]
    assert len(stats["nullCount"]) == len(stats["minValues"]) == indexed
    assert table.to_pyarrow_dataset().to_table(filter=ds.field("c33") > 30).num_rows == 9


def test_the_indexed_columns_are_the_first_of_the_table_not_of_the_rows(tmp_path: Path) -> None:
    first = score(tmp_path, wide_month(), columns=[*WIDE, "x", "y", "kind"])
    columns = ["x", "y", "kind", *WIDE[::-1]]
    score(tmp_path, wide_month(), columns=columns, where=[("c0", ">", 0)])
    before, after = written_statistics(tmp_path)
    assert {*before["nullCount"]} == {*after["nullCount"]} == {*WIDE[:32]}
    assert first.version() == 0
    dataset = DeltaTable(tmp_path / "scored").to_pyarrow_dataset()
    assert dataset.to_table(filter=ds.field("c0") > 30).num_rows == 9
