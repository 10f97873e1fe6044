"""Delta tables: read at a version, scored partition by partition, one entry of the log each."""

from __future__ import annotations

import datetime as dt
import multiprocessing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import probclass_core as pc


def rows(month: str, size: int = 40) -> pa.Table:
    number = [float(value) for value in range(size)]
    return pa.table(
        {
            "x": number,
            "kind": pa.array(["p" if value % 3 else "q" for value in range(size)]),
            "y": ["low" if value < size / 2 else "high" for value in number],
            "month": [month] * size,
        }
    )


def spec() -> pc.ModelSpec:
    return pc.ModelSpec(
        "y", [pc.Block("gaussian_diagonal", ["x"]), pc.Block("categorical", ["kind"])]
    )


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A Delta table of two months, written by delta-rs."""
    root = str(tmp_path / "lake")
    table = pa.concat_tables([rows("2014-01"), rows("2014-02")])
    write_deltalake(root, table, partition_by=["month"])
    return root


def by_month(root: str) -> dict[str, int]:
    months = DeltaTable(root).to_pyarrow_table()["month"].value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in months}


def test_a_fit_is_that_of_the_same_rows_elsewhere(lake: str, tmp_path: Path) -> None:
    table = DeltaTable(lake).to_pyarrow_table()
    pq.write_to_dataset(table, tmp_path / "hive", partition_cols=["month"])
    model = pc.fit(lake, spec())
    assert model.id == pc.fit(tmp_path / "hive", spec()).id
    assert model.training["version"] == 0
    january = pc.fit(lake, spec(), partition={"month": "2014-01"})
    assert january.training["rows"] == 40


def test_earlier_versions_are_read_by_number_and_by_time(lake: str) -> None:
    before = dt.datetime.now(dt.UTC)
    write_deltalake(lake, rows("2014-03"), mode="append")
    assert pc.fit(lake, spec()).training["rows"] == 120
    first = pc.fit(pc.TableRef(lake, version=0), spec())
    assert (first.training["rows"], first.training["version"]) == (80, 0)
    assert pc.fit(pc.TableRef(lake, timestamp=before), spec()).id == first.id
    with pytest.raises(pc.TableError, match=r"lake at 9"):
        pc.fit(pc.TableRef(lake, version=9), spec())


def test_partitions_are_scored_one_by_one_and_once(lake: str, tmp_path: Path) -> None:
    model, sink = pc.fit(lake, spec()), f"delta+file://{tmp_path}/scored"
    report = pc.score(model, lake, sink)
    assert (report.rows, report.skipped, len(report.partitions)) == (80, 0, 2)
    again = pc.score(model, lake, sink)
    assert (again.rows, again.skipped) == (80, 2)
    assert again.commit_id == report.commit_id
    scored = DeltaTable(str(tmp_path / "scored"))
    assert scored.version() == 1
    assert by_month(scored.table_uri) == {"2014-01": 40, "2014-02": 40}
    record = scored.history(1)[0]["probclass.commit"]
    assert model.id in record
    assert '"input_version": 0' in record


def test_a_smaller_rerun_leaves_no_stale_rows(lake: str, tmp_path: Path) -> None:
    model, sink = pc.fit(lake, spec()), str(tmp_path / "scored")
    pc.score(model, lake, pc.TableRef(sink, format="delta"))
    write_deltalake(lake, rows("2014-02", 7), mode="overwrite", predicate="month = '2014-02'")
    report = pc.score(model, lake, sink)
    assert (report.rows, report.skipped) == (47, 1)
    assert by_month(sink) == {"2014-01": 40, "2014-02": 7}


def test_other_readers_agree(lake: str, tmp_path: Path) -> None:
    sink = str(tmp_path / "scored")
    model = pc.fit(lake, spec())
    pc.score(model, lake, pc.TableRef(sink, format="delta"), columns=["x", "month"])
    ours = pa.Table.from_batches(pc.open_table(sink).plan().batches()).sort_by(
        [("month", "ascending"), ("x", "ascending")]
    )
    by_polars = pl.read_delta(sink).sort("month", "x")
    assert by_polars["month"].to_list() == ours["month"].to_pylist()
    assert by_polars["prediction"].to_list() == ours["prediction"].to_pylist()
    assert by_polars["p_low"].to_list() == ours["p_low"].to_pylist()
    counted = (
        duckdb.from_arrow(DeltaTable(sink).to_pyarrow_dataset())
        .aggregate("month, count(*)", "month")
        .order("month")
        .fetchall()
    )
    assert counted == [("2014-01", 40), ("2014-02", 40)]
    assert set(pac.unique(ours["model_id"]).to_pylist()) == {model.id}


def test_what_has_no_place_in_the_table_is_refused(lake: str, tmp_path: Path) -> None:
    model, sink = pc.fit(lake, spec()), pc.TableRef(str(tmp_path / "scored"), format="delta")
    pc.score(model, lake, sink, partition={"month": "2014-01"}, columns=["x"])
    for options, message in [
        ({"columns": ["x", "kind"]}, "no column 'kind'"),
        ({"columns": []}, "also has 'x'"),
        ({"columns": ["x"], "posterior": "list"}, "no column 'posterior'"),
    ]:
        with pytest.raises(pc.TableError, match=message):
            pc.score(model, lake, sink, partition={"month": "2014-02"}, **options)
    with pytest.raises(pc.TableError, match="partitioned by month"):
        pc.score(model, lake, sink, partition={"kind": "p"}, columns=["x"])
    assert DeltaTable(sink.uri).version() == 0
    assert len(list(Path(sink.uri).rglob("*.parquet"))) == 1
    with pytest.raises(pc.TableError, match="an earlier version is read, not written"):
        pc.score(model, lake, pc.TableRef(sink.uri, version=0))
    with pytest.raises(pc.TableError, match="holds no Delta table"):
        pc.fit(pc.TableRef(str(tmp_path / "nothing"), format="delta"), spec())


def _score(model: pc.Model, lake: str, sink: str, month: str, barrier: Any, told: Any) -> None:
    def wait_at_the_end(done: int, total: int | None) -> None:
        if done == total:
            barrier.wait(60)

    try:
        place = pc.TableRef(sink, format="delta")
        partition = {"month": month}
        pc.score(model, lake, place, partition=partition, columns=["x"], progress=wait_at_the_end)
        told.put("committed")
    except pc.TableError as error:
        told.put(str(error))


def run_writers(model: pc.Model, lake: str, sink: str, months: list[str]) -> list[str]:
    """Score these months at once, a process each, all committing at the same moment."""
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(len(months)), context.Queue()
    writers = [
        context.Process(target=_score, args=(model, lake, sink, month, barrier, told))
        for month in months
    ]
    for writer in writers:
        writer.start()
    answers = [told.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join()
    return answers


@pytest.mark.parametrize("month", ["2014 01", "a/b=c", "1%41", "ü'\"", "+"])
def test_any_text_names_a_partition(tmp_path: Path, month: str) -> None:
    lake, sink = str(tmp_path / "lake"), str(tmp_path / "scored")
    write_deltalake(lake, rows(month), partition_by=["month"])
    model = pc.fit(lake, spec())
    report = pc.score(model, lake, pc.TableRef(sink, format="delta"))
    assert report.partitions == [{"month": month}]
    assert pc.score(model, lake, sink).skipped == 1
    assert by_month(sink) == {month: 40}
    assert pl.read_delta(sink)["month"].unique().to_list() == [month]


def test_numbers_dates_and_nulls_name_partitions(tmp_path: Path) -> None:
    lake, sink = str(tmp_path / "lake"), str(tmp_path / "scored")
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
    write_deltalake(lake, pa.concat_tables(parts), partition_by=["day", "hour"])
    model = pc.fit(lake, spec())
    report = pc.score(model, lake, pc.TableRef(sink, format="delta"))
    assert sorted(map(str, report.partitions)) == sorted(
        map(str, pc.score(model, lake, sink).partitions)
    )
    table = DeltaTable(sink).to_pyarrow_table()
    assert table.schema.field("day").type == pa.date32()
    assert table.schema.field("hour").type == pa.int64()
    counts = table.group_by(["day", "hour"]).aggregate([([], "count_all")]).to_pylist()
    assert sorted((str(c["day"]), str(c["hour"]), c["count_all"]) for c in counts) == sorted(
        (str(key["day"]), str(key["hour"]), 40) for key in keys
    )
    assert DeltaTable(sink).version() == 2


def test_writers_of_different_partitions_all_commit(tmp_path: Path) -> None:
    lake, sink = str(tmp_path / "lake"), str(tmp_path / "scored")
    months = [f"2014-{month:02}" for month in range(1, 9)]
    write_deltalake(lake, pa.concat_tables(map(rows, months)), partition_by=["month"])
    model = pc.fit(lake, spec())
    assert run_writers(model, lake, sink, months) == ["committed"] * 8
    assert by_month(sink) == dict.fromkeys(months, 40)
    assert DeltaTable(sink).version() == 7


def test_of_two_writers_of_one_partition_one_commits(lake: str, tmp_path: Path) -> None:
    sink, model = str(tmp_path / "scored"), pc.fit(lake, spec())
    pc.score(model, lake, pc.TableRef(sink, format="delta"), columns=["x"])
    # Another input, so that neither finds its work done.
    write_deltalake(lake, rows("2014-01", 9), mode="overwrite", predicate="month = '2014-01'")
    answers = run_writers(pc.fit(lake, spec()), lake, sink, ["2014-01"] * 2)
    told = sorted(answers, key=len)
    assert told[0] == "committed"
    assert "replaced by another writer meanwhile" in told[1]
    assert by_month(sink) == {"2014-01": 9, "2014-02": 40}
    assert not {path.parent.name for path in Path(sink).rglob("_staging*")}
