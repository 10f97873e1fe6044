"""What Delta and Iceberg tables have in common: versions, other readers, competing writers."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from delta_and_iceberg import LAKES, Lake, rows, rows_by_month, score_in_processes, spec

import probclass_core as pc


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A lake with a table of two months, written by the format's own library."""
    lake = LAKES[request.param](tmp_path)
    lake.write("lake", pa.concat_tables([rows("2014-01"), rows("2014-02")]), ["month"])
    return lake


def test_the_model_is_that_of_the_same_rows_in_parquet_files(lake: Lake, tmp_path: Path) -> None:
    pq.write_to_dataset(lake.read("lake"), tmp_path / "hive", partition_cols=["month"])
    model = pc.fit(lake.ref("lake"), spec())
    assert model.id == pc.fit(tmp_path / "hive", spec()).id
    assert model.training["version"] == lake.versions("lake")[-1]
    january = pc.fit(lake.ref("lake"), spec(), partition={"month": "2014-01"})
    assert january.training["rows"] == 40


def test_earlier_versions_are_read_by_number_and_by_time(lake: Lake) -> None:
    before = dt.datetime.now(dt.UTC)
    lake.write("lake", rows("2014-03"), ["month"])
    oldest = lake.versions("lake")[0]
    assert pc.fit(lake.ref("lake"), spec()).training["rows"] == 120
    first = pc.fit(lake.ref("lake", version=oldest), spec())
    assert (first.training["rows"], first.training["version"]) == (80, oldest)
    assert pc.fit(lake.ref("lake", timestamp=before), spec()).id == first.id
    without_zone = before.replace(tzinfo=None)
    assert pc.fit(lake.ref("lake", timestamp=without_zone), spec()).id == first.id
    with pytest.raises(pc.TableError, match=r"lake has no (version|snapshot) 9"):
        pc.fit(lake.ref("lake", version=9), spec())


def test_each_commit_is_one_version_and_a_rerun_none(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    report = pc.score(model, lake.ref("lake"), sink)
    assert (report.rows, report.skipped, len(report.partitions)) == (80, 0, 2)
    again = pc.score(model, lake.ref("lake"), sink)
    assert (again.rows, again.skipped, again.commit_id) == (80, 2, report.commit_id)
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}
    assert model.id in lake.commit_record("scored")
    assert f'"input_version": {lake.versions("lake")[-1]}' in lake.commit_record("scored")
    lake.replace("lake", rows("2014-02", 7), "2014-02")
    report = pc.score(model, lake.ref("lake"), sink)
    assert (report.rows, report.skipped) == (47, 1)
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 7}
    # Rows that were replaced are read by their version.
    counts = [
        pc.open_table(lake.ref("scored", version=version)).plan().rows
        for version in lake.versions("scored")
    ]
    assert counts == [40, 80, 47]


def test_a_table_without_partitions_is_read_and_replaced_as_a_whole(lake: Lake) -> None:
    lake.write("plain", rows("2014-01"), [])
    model = pc.fit(lake.ref("plain"), spec())
    assert pc.score(model, lake.ref("plain"), lake.ref("scored")).rows == 40
    assert pc.score(model, lake.ref("plain"), lake.ref("scored")).skipped == 1
    lake.write("plain", rows("2014-02", 5), [])
    assert pc.score(model, lake.ref("plain"), lake.ref("scored")).rows == 45
    assert lake.read("scored").num_rows == 45


def test_other_readers_agree(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    pc.score(model, lake.ref("lake"), sink, columns=["x", "month"])
    order = [("month", "ascending"), ("x", "ascending")]
    ours = pa.Table.from_batches(pc.open_table(sink).plan().batches()).sort_by(order)
    from_polars = lake.read_with_polars("scored").sort("month", "x")
    from_library = lake.read("scored").sort_by(order)
    assert set(from_polars.columns) == set(from_library.column_names) == set(ours.column_names)
    for name in ("month", "x", "prediction", "probability", "p_low", "log_density"):
        expected = ours[name].to_pylist()
        assert from_polars[name].to_list() == from_library[name].to_pylist() == expected
    assert set(pac.unique(ours["model_id"]).to_pylist()) == {model.id}


def test_lists_and_nulls_are_read_back_unchanged(lake: Lake) -> None:
    with_null = rows("2014-01").set_column(0, "x", pa.array([None, *map(float, range(39))]))
    lake.write("nulls", with_null, ["month"])
    model = pc.fit(lake.ref("nulls"), spec())
    pc.score(model, lake.ref("nulls"), lake.ref("lists"), posterior="list")
    pc.score(model, lake.ref("nulls"), lake.ref("columns"))
    lists = lake.read("lists").sort_by("x")
    columns = lake.read("columns").sort_by("x")
    assert lists["x"].null_count == 1
    assert lists["posterior"].to_pylist() == [
        list(pair)
        for pair in zip(columns["p_high"].to_pylist(), columns["p_low"].to_pylist(), strict=True)
    ]
    assert lake.read_with_polars("lists")["posterior"].null_count() == 0


def test_refused_tables_versions_and_partitions(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    source = lake.ref("lake")
    pc.score(model, source, sink, partition={"month": "2014-01"}, columns=["x"])
    with pytest.raises(pc.TableError, match=r"partitioned by month.* got one of kind"):
        pc.score(model, source, sink, partition={"kind": "p"}, columns=["x"])
    assert len(lake.versions("scored")) == 1
    assert len(lake.files("scored")) == 1
    with pytest.raises(pc.TableError, match="an earlier version cannot be written"):
        pc.score(model, source, lake.ref("scored", version=lake.versions("scored")[0]))
    with pytest.raises(pc.TableError, match=r"is not a Delta table|no such table"):
        pc.fit(lake.ref("nothing"), spec())
    with pytest.raises(pc.TableError, match=r"has no partition with .* it has 2: 'month=2014-01'"):
        pc.fit(source, spec(), partition={"month": "2015-01"})


@pytest.mark.parametrize("month", ["2014 01", "a/b=c", "1%41", "ü'\"", "+", "a#b?c"])
def test_other_readers_find_a_partition_named_by_any_text(lake: Lake, month: str) -> None:
    lake.write("odd", rows(month), ["month"])
    model = pc.fit(lake.ref("odd"), spec())
    report = pc.score(model, lake.ref("odd"), lake.ref("scored"))
    assert report.partitions == [{"month": month}]
    assert pc.score(model, lake.ref("odd"), lake.ref("scored")).skipped == 1
    assert rows_by_month(lake.read("scored")) == {month: 40}
    assert lake.read_with_polars("scored")["month"].unique().to_list() == [month]


def test_partitions_by_dates_numbers_and_nulls(lake: Lake) -> None:
    keys: list[dict[str, Any]] = [
        {"day": dt.date(2014, 1, 2), "hour": 3},
        {"day": dt.date(2014, 1, 2), "hour": None},
        {"day": None, "hour": 4},
    ]
    parts = [
        rows("")
        .drop_columns("month")
        .append_column("day", pa.array([key["day"]] * 40, pa.date32()))
        .append_column("hour", pa.array([key["hour"]] * 40, pa.int64()))
        for key in keys
    ]
    lake.write("hours", pa.concat_tables(parts), ["day", "hour"])
    model = pc.fit(lake.ref("hours"), spec())
    report = pc.score(model, lake.ref("hours"), lake.ref("scored"))
    again = pc.score(model, lake.ref("hours"), lake.ref("scored"))
    assert sorted(map(str, report.partitions)) == sorted(map(str, again.partitions))
    assert again.skipped == 3
    table = lake.read("scored")
    assert table.schema.field("day").type == pa.date32()
    assert table.schema.field("hour").type == pa.int64()
    counts = table.group_by(["day", "hour"]).aggregate([([], "count_all")]).to_pylist()
    assert sorted((str(c["day"]), str(c["hour"]), c["count_all"]) for c in counts) == sorted(
        (str(key["day"]), str(key["hour"]), 40) for key in keys
    )
    assert len(lake.versions("scored")) == 3


def test_concurrent_writers_of_different_partitions_all_commit(lake: Lake) -> None:
    months = [f"2015-{month:02}" for month in range(1, 9)]
    lake.write("months", pa.concat_tables(map(rows, months)), ["month"])
    model = pc.fit(lake.ref("months"), spec())
    outcomes = score_in_processes(model, lake.ref("months"), lake.ref("scored"), months)
    assert outcomes == ["committed"] * 8
    assert rows_by_month(lake.read("scored")) == dict.fromkeys(months, 40)
    assert len(lake.versions("scored")) == 8


def test_one_of_two_concurrent_replacements_commits(lake: Lake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    pc.score(pc.fit(source, spec()), source, sink, columns=["x"])
    lake.replace("lake", rows("2014-01", 9), "2014-01")  # or both would have nothing to do
    outcomes = score_in_processes(pc.fit(source, spec()), source, sink, ["2014-01"] * 2)
    committed, refused = sorted(outcomes, key=len)
    assert committed == "committed"
    assert "was replaced by another writer during this run" in refused
    assert rows_by_month(lake.read("scored")) == {"2014-01": 9, "2014-02": 40}
    # Two files of the first scoring, one of the replacement, and none of the refused one.
    assert len(lake.files("scored")) == 3


@pytest.mark.parametrize("others", [{}, {"2014-02": 40}], ids=["a new table", "an existing table"])
def test_one_of_two_concurrent_writers_of_a_new_partition_commits(
    lake: Lake, others: dict[str, int]
) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    for month in others:
        pc.score(model, source, sink, partition={"month": month}, columns=["x"])
    outcomes = score_in_processes(model, source, sink, ["2014-01"] * 2)
    committed, refused = sorted(outcomes, key=len)
    assert committed == "committed"
    assert "was replaced by another writer during this run" in refused
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40, **others}
    assert len(lake.files("scored")) == 1 + len(others)


def test_a_missing_library_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pc.fit(lake.ref("lake"), spec())
    for name in [*sys.modules]:
        if name.startswith(("probclass_core.io.delta", "probclass_core.io.iceberg")):
            monkeypatch.delitem(sys.modules, name)
    for library in ("deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, library, None)
    for action in (
        lambda: pc.open_table(lake.ref("lake")),
        lambda: pc.score(model, rows("2014-01"), lake.ref("scored")),
    ):
        with pytest.raises(pc.NotSupportedError, match=r"tables need .* 'probclass\[\w+\]'"):
            action()
