"""Rows added to a scored table, wherever it stands: each input once, all of it or nothing."""

from __future__ import annotations

import datetime as dt
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from additions import FEBRUARY, JANUARY, OF_FEBRUARY, OF_JANUARY, Arrives, append
from deltalake import DeltaTable
from homes import HOMES, Home, on_disk
from logged_lakes import DeltaLake, rows, spec

import probclass_core as pc


def test_each_input_is_added_once(home: Home, model: pc.Model, arrives: Arrives) -> None:
    first, second = arrives("first"), arrives("second", start=100.0, size=3)
    sink, later = home.ref("scored"), [("2014-01", 100.0 + x) for x in range(3)]
    report = append(model, first, sink, partition=JANUARY)
    assert (report.rows, report.skipped, report.partitions) == (40, 0, [JANUARY])
    assert home.xs("scored") == OF_JANUARY
    report = append(model, second, sink, partition=JANUARY)
    assert (report.rows, report.skipped) == (3, 0)
    assert home.xs("scored") == [*OF_JANUARY, *later]
    append(model, arrives("third", "2014-02"), sink, partition=FEBRUARY)
    for source, count in ((first, 40), (second, 3)):
        again = append(model, source, sink, partition=JANUARY)
        assert (again.rows, again.skipped) == (count, 1)
    assert home.xs("scored") == [*OF_JANUARY, *later, *OF_FEBRUARY]
    # What changes the rows makes them others: here it is the state of the file.
    arrives("second", start=200.0, size=1)
    assert append(model, second, sink, partition=JANUARY).skipped == 0
    assert home.xs("scored") == [*OF_JANUARY, *later, ("2014-01", 200.0), *OF_FEBRUARY]
    assert pc.clean_table(sink, older_than=timedelta(0)) == []


def test_a_table_without_partitions_is_added_to_as_a_whole(
    home: Home, model: pc.Model, arrives: Arrives
) -> None:
    first, second = arrives("first"), arrives("second", "2014-02")
    for _ in range(2):
        for source in (first, second):
            report = append(model, source, home.ref("scored"), columns=["x", "month"])
            assert (report.rows, report.partitions) == (40, [])
        assert home.xs("scored") == [*OF_JANUARY, *OF_FEBRUARY]
    assert report.skipped == 1


def test_all_partitions_of_a_source_are_added_each_once(
    home: Home, model: pc.Model, tmp_path: Path
) -> None:
    both = pa.concat_tables([rows("2014-01"), rows("2014-02")])
    for lake in ("one", "other"):
        pq.write_to_dataset(both, tmp_path / lake, partition_cols=["month"])
    append(model, tmp_path / "one", home.ref("scored"), partition=JANUARY)
    report = append(model, tmp_path / "one", home.ref("scored"))
    assert (report.rows, report.skipped) == (80, 1)
    assert append(model, tmp_path / "other", home.ref("scored")).skipped == 0
    assert append(model, tmp_path / "other", home.ref("scored")).skipped == 2
    assert home.xs("scored") == sorted(2 * [*OF_JANUARY, *OF_FEBRUARY])


def test_another_model_adds_rows_of_its_own(home: Home, arrives: Arrives) -> None:
    one, other = pc.fit(rows("2014-01"), spec()), pc.fit(rows("2014-01", 30), spec())
    source, sink = arrives("first"), home.ref("scored")
    for model in (one, other, one, other):
        append(model, source, sink, partition=JANUARY)
    ids = home.read("scored")["model_id"].to_pylist()
    assert {each: ids.count(each) for each in ids} == {one.id: 40, other.id: 40}


def test_what_was_added_is_replaced_with_the_rest(
    home: Home, model: pc.Model, arrives: Arrives
) -> None:
    sink = home.ref("scored")
    sources = [arrives(name, start=start) for name, start in (("a", 0.0), ("b", 100.0))]
    for source in sources:
        append(model, source, sink, partition=JANUARY)
    # One of the two is not the partition, so that this is no rerun of an append.
    report = append(model, sources[0], sink, partition=JANUARY, overwrite="partition")
    assert (report.rows, report.skipped) == (40, 0)
    assert home.xs("scored") == OF_JANUARY
    assert append(model, sources[0], sink, partition=JANUARY).skipped == 1
    # What was replaced is there no more, and may be added again.
    for _ in range(2):
        again = append(model, sources[1], sink, partition=JANUARY)
    assert again.skipped == 1
    assert home.xs("scored") == [*OF_JANUARY, *(("2014-01", 100.0 + x) for x in range(40))]
    with pytest.raises(pc.TableError, match="made from other inputs"):
        append(model, arrives("c"), sink, partition=JANUARY, overwrite="never")


def test_rows_of_others_stay(home: Home, model: pc.Model, arrives: Arrives) -> None:
    append(model, arrives("first"), home.ref("twin"), partition=JANUARY)
    home.write("scored", home.read("twin"))
    more = arrives("more", start=100.0)
    for skipped in (0, 1):
        report = append(model, more, home.ref("scored"), partition=JANUARY)
        assert (report.rows, report.skipped) == (40, skipped)
    later = [("2014-01", 100.0 + x) for x in range(40)]
    assert home.xs("scored") == [*OF_JANUARY, *later]
    # What was added is not all there is, and a replacement is no rerun of it.
    assert (
        append(model, more, home.ref("scored"), partition=JANUARY, overwrite="partition").skipped
        == 0
    )
    assert home.xs("scored") == later


@pytest.mark.parametrize(
    ("partition", "overwrite"),
    [(JANUARY, "append"), (FEBRUARY, "append"), (FEBRUARY, "partition")],
)
def test_other_columns_are_refused_and_nothing_changes(
    home: Home, model: pc.Model, arrives: Arrives, tmp_path: Path, partition: Any, overwrite: str
) -> None:
    sink = home.ref("scored")
    append(model, arrives("first"), sink, partition=JANUARY)
    named = rows(partition["month"]).append_column("id", pa.array(["a"] * 40))
    texts = named.set_column(0, "x", pa.array(["ten"] * 40))
    by_kind = pc.fit(texts, pc.ModelSpec("y", [pc.Block("categorical", ["kind"])]))
    cases: list[tuple[pc.Model, pa.Table, dict[str, Any], str]] = [
        (model, named, {"columns": ["x", "id"]}, r"has no column 'id'; it has .*Add the column"),
        (model, named, {"columns": []}, r"also has 'x', which these rows lack"),
        (model, named, {"posterior": "list"}, r"has no column 'posterior'"),
        (by_kind, texts, {}, r"column 'x' is string here and double in .*; cast it"),
    ]
    for scorer, table, options, message in cases:
        pq.write_table(table, tmp_path / "other.parquet")
        with pytest.raises(pc.TableError, match=message):
            append(
                *(scorer, tmp_path / "other.parquet", sink),
                **{"partition": partition, "overwrite": overwrite, **options},
            )
    assert home.xs("scored") == OF_JANUARY
    assert len(home.records("scored")) == 1


def test_what_cannot_be_told_again_is_not_added(home: Home, model: pc.Model) -> None:
    reader = pa.RecordBatchReader.from_batches(rows("2014-01").schema, rows("2014-01").to_batches())
    for source in (rows("2014-01"), rows("2014-01").to_pandas(), reader):
        with pytest.raises(pc.TableError, match="append from a file or a table"):
            append(model, source, home.ref("scored"), partition=JANUARY)


def test_an_ended_attempt_adds_nothing(home: Home, model: pc.Model, arrives: Arrives) -> None:
    append(model, arrives("first"), home.ref("scored"), partition=JANUARY)

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        append(model, arrives("second"), home.ref("scored"), partition=JANUARY, progress=stop)
    assert home.xs("scored") == OF_JANUARY
    assert pc.clean_table(home.ref("scored"), older_than=timedelta(0)) == []


def test_one_file_is_not_added_to(model: pc.Model, arrives: Arrives, tmp_path: Path) -> None:
    home = on_disk(tmp_path)
    with pytest.raises(pc.TableError, match="is a file, which rows cannot be added to"):
        append(model, arrives("first"), home.ref("scored.parquet"))
    assert not (tmp_path / "scored.parquet").exists()


def test_a_copy_of_a_table_with_manifests_is_not_written_beside_them(
    model: pc.Model, arrives: Arrives, tmp_path: Path
) -> None:
    """A reader of the copy goes by the manifests, and would not find what they do not name."""
    append(model, arrives("first"), pc.TableRef(f"local://{tmp_path}/scored"), partition=JANUARY)
    home = on_disk(tmp_path)
    assert home.xs("scored") == OF_JANUARY
    for overwrite in ("append", "partition"):
        with pytest.raises(pc.TableError, match=r"use its _commits; write to another directory"):
            append(
                *(model, arrives("second"), home.ref("scored")),
                partition=JANUARY,
                overwrite=overwrite,
            )
    assert home.xs("scored") == OF_JANUARY


def test_compacted_rows_are_not_added_again(
    model: pc.Model, arrives: Arrives, tmp_path: Path
) -> None:
    """Compaction rewrites the files, whose footers held the records; the log still has them."""
    home = HOMES["delta"](tmp_path)
    sink, first, second = home.ref("scored"), arrives("first"), arrives("second", start=100.0)
    for source in (first, second):
        append(model, source, sink, partition=JANUARY)
    before = home.xs("scored")
    assert DeltaTable(sink.uri).optimize.compact()["numFilesAdded"] == 1
    for source in (first, second):
        assert append(model, source, sink, partition=JANUARY).skipped == 1
    assert home.xs("scored") == before
    # Where another engine has put other rows in their place, they are there no more.
    DeltaLake(tmp_path).replace("scored", home.read("scored").slice(0, 1), "2014-01")
    assert append(model, first, sink, partition=JANUARY).skipped == 0
    assert home.read("scored").num_rows == 41


class Leaky:
    """A table of a plugin's that takes no notice of the partition asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = pc.open_table(table)
        self.schema, self.uri, self.partition_columns = table.schema, None, ["month"]

    def partitions(self, where: Any = None) -> list[dict[str, str]]:
        return [JANUARY, FEBRUARY]

    def plan(self, columns: Any = None, **rows: Any) -> Any:
        return self._table.plan(columns)


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_rows_outside_the_partition_are_refused(
    home: Home, model: pc.Model, columns: list[str] | None
) -> None:
    both = pa.concat_tables([rows("2014-01"), rows("2014-02", 3)])
    asked: dict[str, Any] = {"partition": JANUARY, "columns": columns}
    pc.score(model, rows("2014-01"), home.ref("scored"), **asked)
    outside = r"3 rows are outside the partition month=2014-01; the first has '2014-02'"
    with pytest.raises(pc.TableError, match=outside):
        pc.score(model, Leaky(both), home.ref("scored"), **asked)
    assert home.xs("scored") == OF_JANUARY


@pytest.mark.parametrize("overwrite", ["partition", "append"])
def test_a_commit_says_which_model_input_and_run_it_came_of(
    home: Home, tmp_path: Path, overwrite: str
) -> None:
    lake = DeltaLake(tmp_path / "in")
    for month in ("2014-01", "2014-02"):
        lake.write("lake", rows(month), ["month"])
    source, sink = lake.ref("lake", version=0), home.ref("scored")
    model = pc.fit(source, spec(), partition=JANUARY)
    asked: dict[str, Any] = {"partition": JANUARY, "overwrite": overwrite}
    append(model, source, sink, **asked, run_id="manual__1")
    [record] = home.records("scored")
    assert (record["model_id"], record["run_id"]) == (model.id, "manual__1")
    # What was trained on and what was scored is told in the same words.
    told = [record[key] for key in ("source", "input_version", "input", "partition")]
    assert told == [model.training[key] for key in ("source", "version", "snapshot", "partition")]
    assert told[1] == 0
    # The run is no part of what the rows are: another one finds its work done.
    assert append(model, source, sink, **asked, run_id="manual__2").skipped == 1
    assert home.records("scored") == [record]


PARTITIONS: dict[str, list[Any]] = {
    "hour": [None, 3, 4],
    "day": [None, dt.date(2014, 1, 1), dt.date(2014, 1, 2)],
    "place": [None, "north", "south"],
}


@pytest.mark.parametrize("name", PARTITIONS)
def test_a_first_partition_of_null_has_the_type_of_its_source(
    home: Home, tmp_path: Path, name: str
) -> None:
    values = PARTITIONS[name]
    held = pa.array(sorted(40 * values, key=str))
    table = pa.concat_tables([rows("").drop_columns("month")] * 3).append_column(name, held)
    pq.write_table(table, tmp_path / "rows.parquet")
    model = pc.fit(table, spec())
    for value in values:
        report = pc.score(
            *(model, tmp_path / "rows.parquet", home.ref("scored")), partition={name: value}
        )
        assert report.rows == 40
        assert home.read("scored")[name].null_count == 40
    scored = home.read("scored")
    assert scored[name].value_counts().field("counts").to_pylist() == [40] * 3
    assert not home.typed or scored.schema.field(name).type == held.type


def test_a_partition_value_of_another_type_than_the_table_has(
    home: Home, model: pc.Model, tmp_path: Path
) -> None:
    """What a table by text cannot tell from a number of the same digits is one partition."""
    for name, value in (("text", "1"), ("number", 1)):
        month = rows("").set_column(3, "month", pa.array([value] * 40))
        pq.write_table(month, tmp_path / f"{name}.parquet")
    append(model, tmp_path / "text.parquet", home.ref("scored"), partition={"month": "1"})
    for overwrite in ("append", "partition"):
        asked: dict[str, Any] = {"partition": {"month": 1}, "overwrite": overwrite}
        if home.typed:
            with pytest.raises(
                pc.TableError, match=r"'month' is string in .* which cannot represent 1"
            ):
                append(model, tmp_path / "number.parquet", home.ref("scored"), **asked)
        else:
            append(model, tmp_path / "number.parquet", home.ref("scored"), **asked)
    assert home.read("scored").num_rows == 40
