"""What Delta and Iceberg tables have in common: a version read, a partition replaced at once."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from logged_lakes import LAKES, Lake, by_month, rows, run_writers, spec

import probclass_core as pc


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A place for tables, with one of two months in it, written by the format's own library."""
    lake = LAKES[request.param](tmp_path)
    lake.write("lake", pa.concat_tables([rows("2014-01"), rows("2014-02")]), ["month"])
    return lake


def test_a_fit_is_that_of_the_same_rows_elsewhere(lake: Lake, tmp_path: Path) -> None:
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
    unzoned = before.replace(tzinfo=None)
    assert pc.fit(lake.ref("lake", timestamp=unzoned), spec()).id == first.id
    with pytest.raises(pc.TableError, match=r"lake has no (version|snapshot) 9"):
        pc.fit(lake.ref("lake", version=9), spec())


def test_partitions_are_scored_one_by_one_and_once(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    report = pc.score(model, lake.ref("lake"), sink)
    assert (report.rows, report.skipped, len(report.partitions)) == (80, 0, 2)
    again = pc.score(model, lake.ref("lake"), sink)
    assert (again.rows, again.skipped) == (80, 2)
    assert again.commit_id == report.commit_id
    assert len(lake.versions("scored")) == 2
    assert by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}
    assert model.id in lake.record("scored")
    assert f'"input_version": {lake.versions("lake")[-1]}' in lake.record("scored")


def test_a_smaller_rerun_leaves_no_stale_rows(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    pc.score(model, lake.ref("lake"), sink)
    lake.replace("lake", rows("2014-02", 7), "2014-02")
    report = pc.score(model, lake.ref("lake"), sink)
    assert (report.rows, report.skipped) == (47, 1)
    assert by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 7}
    assert len(lake.versions("scored")) == 3


def test_what_was_replaced_is_read_by_its_version(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    pc.score(model, lake.ref("lake"), sink)
    lake.replace("lake", rows("2014-02", 7), "2014-02")
    pc.score(model, lake.ref("lake"), sink)
    counts = [
        pc.open_table(lake.ref("scored", version=version)).plan().rows
        for version in lake.versions("scored")
    ]
    assert counts == [40, 80, 47]


def test_a_table_without_partitions_is_replaced_as_a_whole(lake: Lake) -> None:
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
    by_polars = lake.by_polars("scored").sort("month", "x")
    by_library = lake.read("scored").sort_by(order)
    assert set(by_polars.columns) == set(by_library.column_names) == set(ours.column_names)
    for name in ("month", "x", "prediction", "probability", "p_low", "log_density"):
        assert by_polars[name].to_list() == by_library[name].to_pylist() == ours[name].to_pylist()
    assert set(pac.unique(ours["model_id"]).to_pylist()) == {model.id}


def test_lists_and_gaps_come_back_as_they_were(lake: Lake) -> None:
    gaps = rows("2014-01").set_column(0, "x", pa.array([None, *map(float, range(39))]))
    lake.write("gaps", gaps, ["month"])
    model, sink = pc.fit(lake.ref("gaps"), spec()), lake.ref("scored")
    pc.score(model, lake.ref("gaps"), sink, posterior="list")
    pc.score(model, lake.ref("gaps"), lake.ref("again"))
    lists = lake.read("scored").sort_by("x")
    columns = lake.read("again").sort_by("x")
    assert lists["x"].null_count == 1
    assert lists["posterior"].to_pylist() == [
        list(pair)
        for pair in zip(columns["p_high"].to_pylist(), columns["p_low"].to_pylist(), strict=True)
    ]
    assert lake.by_polars("scored")["posterior"].null_count() == 0


def test_what_has_no_place_in_the_table_is_refused(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    source = lake.ref("lake")
    pc.score(model, source, sink, partition={"month": "2014-01"}, columns=["x"])
    for options, message in [
        ({"columns": ["x", "kind"]}, "no column 'kind'"),
        ({"columns": []}, "also has 'x'"),
        ({"columns": ["x"], "posterior": "list"}, "no column 'posterior'"),
    ]:
        with pytest.raises(pc.TableError, match=message):
            pc.score(model, source, sink, partition={"month": "2014-02"}, **options)
    with pytest.raises(pc.TableError, match="partitioned by month"):
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
def test_any_text_names_a_partition(lake: Lake, month: str) -> None:
    lake.write("odd", rows(month), ["month"])
    model = pc.fit(lake.ref("odd"), spec())
    report = pc.score(model, lake.ref("odd"), lake.ref("scored"))
    assert report.partitions == [{"month": month}]
    assert pc.score(model, lake.ref("odd"), lake.ref("scored")).skipped == 1
    assert by_month(lake.read("scored")) == {month: 40}
    assert lake.by_polars("scored")["month"].unique().to_list() == [month]


def test_numbers_dates_and_nulls_name_partitions(lake: Lake) -> None:
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


def test_writers_of_different_partitions_all_commit(lake: Lake) -> None:
    months = [f"2015-{month:02}" for month in range(1, 9)]
    lake.write("months", pa.concat_tables(map(rows, months)), ["month"])
    model = pc.fit(lake.ref("months"), spec())
    answers = run_writers(model, lake.ref("months"), lake.ref("scored"), months)
    assert answers == ["committed"] * 8
    assert by_month(lake.read("scored")) == dict.fromkeys(months, 40)
    assert len(lake.versions("scored")) == 8


def test_of_two_writers_of_one_partition_one_commits(lake: Lake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    pc.score(pc.fit(source, spec()), source, sink, columns=["x"])
    # Another input, so that neither finds its work done.
    lake.replace("lake", rows("2014-01", 9), "2014-01")
    answers = run_writers(pc.fit(source, spec()), source, sink, ["2014-01"] * 2)
    told = sorted(answers, key=len)
    assert told[0] == "committed"
    assert "replaced by another writer" in told[1]
    assert by_month(lake.read("scored")) == {"2014-01": 9, "2014-02": 40}
    assert len(lake.files("scored")) == 3  # what stood there, and nothing of who came second


@pytest.mark.parametrize("others", [{}, {"2014-02": 40}], ids=["a new table", "a table"])
def test_who_finds_its_new_partition_taken_adds_nothing_to_it(
    lake: Lake, others: dict[str, int]
) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    for month in others:
        pc.score(model, source, sink, partition={"month": month}, columns=["x"])
    told = sorted(run_writers(model, source, sink, ["2014-01"] * 2), key=len)
    assert told[0] == "committed"
    assert "replaced by another writer" in told[1]
    assert by_month(lake.read("scored")) == {"2014-01": 40, **others}
    assert len(lake.files("scored")) == 1 + len(others)


def test_an_ended_attempt_leaves_everything_as_it_was(lake: Lake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink, partition={"month": "2014-01"})

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pc.score(model, source, sink, partition={"month": "2014-02"}, progress=stop)
    assert len(lake.versions("scored")) == 1
    assert len(lake.files("scored")) == 1


def test_a_library_that_is_not_there_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    model = pc.fit(lake.ref("lake"), spec())
    for name in [*sys.modules]:
        if name.startswith(("probclass_core.io.delta", "probclass_core.io.iceberg")):
            monkeypatch.delitem(sys.modules, name)
    for library in ("deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, library, None)
    for attempt in (
        lambda: pc.open_table(lake.ref("lake")),
        lambda: pc.score(model, rows("2014-01"), lake.ref("scored")),
    ):
        with pytest.raises(pc.NotSupportedError, match=r"tables need .* 'probclass\[\w+\]'"):
            attempt()
