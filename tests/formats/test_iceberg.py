"""What Iceberg tables have to themselves; what they share with Delta is in test_logged.py."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from iceberg_deletes import delete_rows
from logged_lakes import IcebergLake, by_month, rows, spec
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.types import DoubleType, LongType, StringType

import probclass_core as pc


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = IcebergLake(tmp_path)
    lake.write("lake", pa.concat_tables([rows("2014-01"), rows("2014-02")]), ["month"])
    return lake


def read(ref: pc.TableRef, *by: str, **how: Any) -> pa.Table:
    """What probclass reads of a table, sorted."""
    plan = pc.open_table(ref).plan(**how)
    table = pa.Table.from_batches(plan.batches(), plan.schema)
    assert plan.rows == table.num_rows or how
    return table.sort_by([(name, "ascending") for name in by])


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    """Whether two tables are equal but for how Arrow lays out text."""
    return ours.equals(theirs.select(ours.column_names).cast(ours.schema))


def test_deleted_rows_are_left_out(lake: IcebergLake) -> None:
    clean = pc.fit(lake.ref("lake"), spec())
    delete_rows(lake.table("lake"), "month == '2014-01'", [0, 7, 39])
    delete_rows(lake.table("lake"), "month == '2014-01'", [7, 8])
    kept = read(lake.ref("lake"), "month", "x")
    assert kept.num_rows == 76
    assert same(kept, lake.read("lake").sort_by([("month", "ascending"), ("x", "ascending")]))
    january = read(lake.ref("lake"), "x", columns=["x"], partition={"month": "2014-01"})
    assert set(january["x"].to_pylist()) == set(map(float, range(40))) - {0.0, 7.0, 8.0, 39.0}
    some = read(lake.ref("lake"), "month", columns=["month"], where=[("x", "<", 10.0)])
    assert by_month(some) == {"2014-01": 7, "2014-02": 10}
    model = pc.fit(lake.ref("lake"), spec())
    assert model.training["rows"] == 76
    assert model.training["snapshot"] != clean.training["snapshot"]
    assert pc.fit(lake.ref("lake", version=lake.versions("lake")[0]), spec()).id == clean.id


def test_deleted_rows_of_many_row_groups_are_found_by_their_place(lake: IcebergLake) -> None:
    numbers = pa.table({"x": np.arange(300_000, dtype=float)})
    lake.write("long", numbers.slice(0, 0), [])
    path = lake.root / "long.parquet"
    pq.write_table(numbers, path, row_group_size=7_001)
    lake.table("long").add_files([f"file://{path}"])
    lost = [0, 6_999, 7_000, 7_001, 131_072, 250_000, 262_144, 299_999]
    delete_rows(lake.table("long"), "x >= 0", lost)
    plan = pc.open_table(lake.ref("long")).plan()
    assert len(plan.fragments) == 2
    assert plan.rows == 300_000 - len(lost)
    kept = pa.Table.from_batches(plan.batches())["x"].to_numpy()
    assert sorted(set(range(300_000)) - set(kept.astype(int))) == lost


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        (DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, "equality deletes.* rewrite"),
        (DataFileContent.POSITION_DELETES, FileFormat.PUFFIN, "deletion vectors.* rewrite"),
    ],
)
def test_deletes_that_cannot_be_read_are_refused(
    lake: IcebergLake, content: DataFileContent, form: FileFormat, message: str
) -> None:
    delete_rows(lake.table("lake"), "month == '2014-01'", [0], content, form)
    with pytest.raises(pc.TableError, match=message):
        pc.fit(lake.ref("lake"), spec())


def test_a_scored_partition_that_lost_rows_is_scored_again(lake: IcebergLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink)
    delete_rows(lake.table("scored"), "month == '2014-01'", [3])
    assert by_month(lake.read("scored")) == {"2014-01": 39, "2014-02": 40}
    assert pc.score(model, source, sink).skipped == 1
    assert by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}


def test_columns_are_found_whatever_became_of_them(lake: IcebergLake) -> None:
    first = pa.table(
        {
            "n": pa.array([1, 2, 3], pa.int32()),
            "kind": ["p", "q", "p"],
            "gone": [1.0, 2.0, 3.0],
            "month": ["2014-01"] * 3,
        }
    )
    lake.write("changing", first, ["month"])
    table = lake.table("changing")
    with table.update_schema() as change:
        change.add_column("extra", DoubleType())
        change.rename_column("kind", "sort")
        change.update_column("n", LongType())
        change.move_first("month")
        change.delete_column("gone")
    with table.update_schema() as change:
        change.add_column("gone", StringType())
    newer = pa.table(
        {
            "sort": ["q"],
            "n": pa.array([2**40]),
            "month": ["2014-02"],
            "extra": [0.5],
            "gone": ["here"],
        }
    )
    table.append(newer)
    everything = read(lake.ref("changing"), "n")
    assert everything.schema.field("n").type == pa.int64()
    assert everything["sort"].to_pylist() == ["p", "q", "p", "q"]
    assert everything["extra"].to_pylist() == [None, None, None, 0.5]
    assert everything["gone"].to_pylist() == [None, None, None, "here"]
    assert same(everything, lake.read("changing").sort_by("n"))
    ones = read(lake.ref("changing"), "n", columns=["n"], where=[("sort", "==", "p")])
    assert ones["n"].to_pylist() == [1, 3]
    expression = read(lake.ref("changing"), "n", columns=["n"], where=pac.field("sort") == "q")
    assert expression["n"].to_pylist() == [2, 2**40]
    # One partition alone has the types of the table as well.
    january = read(lake.ref("changing"), "n", partition={"month": "2014-01"})
    assert january.schema == everything.schema
    before = lake.ref("changing", version=lake.versions("changing")[0])
    assert read(before, "n").drop_columns("month").equals(first.drop_columns("month"))
    old = read(before, "n", columns=["n"], where=[("kind", "==", "q"), ("gone", "<", 2.5)])
    assert old["n"].to_pylist() == [2]


def test_text_is_read_as_it_is_where_names_have_changed(lake: IcebergLake) -> None:
    whole = pc.fit(lake.ref("lake"), spec())
    with lake.table("lake").update_schema() as change:
        change.rename_column("x", "was x")
        change.rename_column("kind", "x")
    with lake.table("lake").update_schema() as change:
        change.rename_column("x", "kind")
        change.rename_column("was x", "x")
    assert pc.fit(lake.ref("lake"), spec()).id == whole.id
    with lake.table("lake").update_schema() as change:
        change.rename_column("kind", "sort")
    blocks = [pc.Block("gaussian_diagonal", ["x"]), pc.Block("categorical", ["sort"])]
    renamed = pc.fit(lake.ref("lake"), pc.ModelSpec("y", blocks))
    theirs = pc.fit(lake.read("lake"), pc.ModelSpec("y", blocks))
    assert renamed.id == theirs.id


def test_files_without_ids_are_read_by_the_mapping_of_names(lake: IcebergLake) -> None:
    lake.write("mapped", rows("2014-01").slice(0, 0), ["month"])
    path = lake.root / "foreign.parquet"
    pq.write_table(rows("2014-01"), path)
    lake.table("mapped").add_files([f"file://{path}"])
    with lake.table("mapped").update_schema() as change:
        change.rename_column("kind", "sort")
    ours = read(lake.ref("mapped"), "x")
    assert ours["sort"].to_pylist() == rows("2014-01")["kind"].to_pylist()


def test_only_files_that_may_hold_the_rows_are_opened(lake: IcebergLake) -> None:
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
    with pytest.raises(pc.TableError, match="cannot read"):
        read(lake.ref("lake"), "x")
    none = pc.open_table(lake.ref("lake")).partitions([("month", "==", "2014-02")])
    assert none == [{"month": "2014-02"}]


def test_a_new_file_is_one_as_other_writers_make_it(lake: IcebergLake) -> None:
    pc.score(pc.fit(lake.ref("lake"), spec()), lake.ref("lake"), lake.ref("scored"))
    table = lake.table("scored")
    ids = {column.name: column.field_id for column in table.schema().fields}
    for path in lake.files("scored"):
        held = pq.read_schema(path)
        assert {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in held} == ids
    assert table.name_mapping() is None
    # Bounds are kept: others prune by them, too.
    (january,) = table.scan(row_filter="month == '2014-01' and x < 1.0").plan_files()
    assert january.file.record_count == 40
    assert not list(table.scan(row_filter="x > 1000.0").plan_files())
    assert table.scan(row_filter="x < 3 and prediction == 'low'").to_arrow().num_rows == 6


def test_a_replacement_is_one_snapshot(lake: IcebergLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    pc.score(pc.fit(source, spec()), source, sink)
    lake.replace("lake", rows("2014-02", 7), "2014-02")
    pc.score(pc.fit(source, spec()), source, sink, partition={"month": "2014-02"})
    table = lake.table("scored")
    assert [
        by_month(table.scan(snapshot_id=version).to_arrow()) for version in lake.versions("scored")
    ] == [{"2014-01": 40}, {"2014-01": 40, "2014-02": 40}, {"2014-01": 40, "2014-02": 7}]


def test_types_are_those_that_iceberg_has(lake: IcebergLake) -> None:
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
        held = read(lake.ref("odd"), "x")
        kept = odd.select([name for name in odd.column_names if name != "kind"])
        assert held.select(kept.column_names).to_pylist() == kept.to_pylist()
        assert held.schema.field("small").type == pa.int32()
        assert held.schema.field("zoned").type == pa.timestamp("us", "UTC")
        assert same(held, lake.read("odd").sort_by("x"))
        assert lake.by_polars("odd")["p one.two"].unique().to_list() == ["ä"]


def test_values_that_the_table_has_no_place_for_are_refused(lake: IcebergLake) -> None:
    source = lake.ref("lake")
    model = pc.fit(source, spec())
    pc.score(model, source, lake.ref("scored"), partition={"month": "2014-01"}, columns=["x"])
    numbered = rows("").set_column(3, "month", pa.array([1] * 40))
    lake.write("numbered", numbered, ["month"])
    with pytest.raises(
        pc.TableError, match=r"'month' is string in .*scored, which cannot represent 1"
    ):
        pc.score(model, lake.ref("numbered"), lake.ref("scored"), columns=["x"])
    with lake.table("scored").update_schema(allow_incompatible_changes=True) as change:
        change.update_column("x", required=True)
    gaps = rows("2014-02").set_column(0, "x", pa.array([None, *map(float, range(39))]))
    lake.replace("lake", gaps, "2014-02")
    with pytest.raises(pc.TableError, match="null"):
        pc.score(model, source, lake.ref("scored"), partition={"month": "2014-02"}, columns=["x"])
    assert by_month(lake.read("scored")) == {"2014-01": 40}


@pytest.mark.parametrize("uri", ["iceberg://lake", "iceberg://lake/air", "iceberg:///air.lake"])
def test_a_name_must_be_a_whole_one(lake: IcebergLake, uri: str) -> None:
    with pytest.raises(pc.TableError, match=r"iceberg://catalog/namespace\.table"):
        pc.open_table(pc.TableRef(uri, options=lake.options))


def test_a_catalog_must_be_told_of(lake: IcebergLake) -> None:
    with pytest.raises(
        pc.TableError, match=r"catalog 'nowhere' is not configured; .*PYICEBERG_CATALOG__NOWHERE__"
    ):
        pc.open_table("iceberg://nowhere/air.lake")
    with pytest.raises(pc.TableError, match="did not exist at"):
        pc.open_table(lake.ref("lake", timestamp=dt.datetime(2014, 1, 1)))


def test_a_catalog_may_be_configured_as_pyiceberg_has_it(lake: IcebergLake) -> None:
    program = "import probclass_core as pc; print(pc.open_table('iceberg://lake/air.lake').schema)"
    settings = {f"PYICEBERG_CATALOG__LAKE__{k.upper()}": v for k, v in lake.options.items()}
    told = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **settings}, capture_output=True
    )
    assert b"month: string" in told.stdout


def _score_and_die(model: pc.Model, source: pc.TableRef, sink: pc.TableRef) -> None:
    told = []

    def die(done: int, total: int | None) -> None:
        told.append(done)
        if told.count(total) == 2:  # all is read, and now it is to be committed
            os.kill(os.getpid(), signal.SIGKILL)

    pc.score(model, source, sink, partition={"month": "2014-01"}, progress=die)


def test_a_killed_writer_leaves_a_file_that_nothing_names(lake: IcebergLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink)
    lake.replace("lake", rows("2014-01", 9), "2014-01")
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_score_and_die, args=(model, source, sink))
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    assert len(lake.files("scored")) == 3
    assert by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}
    assert pc.score(model, source, sink).skipped == 1
    assert by_month(lake.read("scored")) == {"2014-01": 9, "2014-02": 40}
    assert pc.clean_table(sink) == []  # a living writer might be at it
    (left,) = pc.clean_table(sink, older_than=dt.timedelta(0))
    assert Path(left.path).name.startswith("part-")
    assert len(lake.files("scored")) == 3  # what stands there, and what an earlier snapshot has
    counts = [
        pc.open_table(lake.ref("scored", version=version)).plan().rows
        for version in lake.versions("scored")
    ]
    assert counts == [40, 80, 49]


def test_an_inspection_tells_the_files_and_the_rows_that_are_left(lake: IcebergLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink)
    delete_rows(lake.table("scored"), "month == '2014-01'", [3])
    told = pc.inspect_table(sink)
    assert (told.format, told.version) == ("iceberg", lake.versions("scored")[-1])
    assert told.partitions == [{"month": "2014-01"}, {"month": "2014-02"}]
    assert told.rows == 79
    assert told.files is not None
    assert [file.rows for file in told.files] == [40, 40]
    assert told.files.models == [model.id]
    assert told.files.statistics_coverage == 1.0
