"""Deleted rows of Delta and Iceberg tables are never read, counted, trained on or scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import delta_log
import iceberg_deletes
import pyarrow as pa
import pyarrow.parquet as pq
from backends import JANUARY
from delta_and_iceberg import LAKES, IcebergLake, Lake, lake_fixture, rows_by_month, spec
from pyiceberg.manifest import FileFormat
from reading import read_rows

import probclass_core as pc
from probclass_core.io.selection import LabelCounts, count_labels

lake = lake_fixture(*LAKES)


def delete_january(lake: Lake, positions: Sequence[int]) -> None:
    """Delete rows of January by their positions, those deleted before among them.

    In Iceberg, up to three by a file of positions, and more by a deletion vector.
    """
    if isinstance(lake, IcebergLake):
        kind = FileFormat.PARQUET if len(positions) < 4 else FileFormat.PUFFIN
        table = lake.table("lake")
        iceberg_deletes.delete_rows(table, "month == '2014-01'", positions, file_format=kind)
    else:
        delta_log.require(lake, "lake", "deletionVectors")
        delta_log.delete_rows(lake, "lake", positions, "2014-01")


def test_deleted_rows_are_left_out(lake: Lake, tmp_path: Path) -> None:
    source, store = lake.ref("lake"), tmp_path / "models"
    clean, version = pc.fit(source, spec(), cache=store), lake.versions("lake")[-1]
    for positions in ([0, 7, 39], [0, 7, 8, 39]):
        delete_january(lake, positions)
        model = pc.fit(source, spec(), cache=store)
        assert model.training["rows"] == pc.inspect_table(source).rows == 80 - len(positions)
        assert model.training["cache"]["reused"] == 1, "the statistics of February"
        assert model.id == pc.fit(source, spec()).id
        assert model.training["snapshot"] != clean.training["snapshot"]
    assert pc.fit(lake.ref("lake", version=version), spec()).id == clean.id
    read = read_rows(source)
    assert read.num_rows == pc.open_table(source).plan().rows
    if isinstance(lake, IcebergLake):
        theirs = lake.read("lake")
    else:
        theirs = pa.table(lake.table("lake").scan().read_all())
    assert sorted(map(str, read.to_pylist())) == sorted(
        map(str, theirs.select(read.column_names).to_pylist())
    )
    january = read_rows(source, columns=["x"], partition=JANUARY)
    assert {*january["x"].to_pylist()} == {*map(float, range(40))} - {0.0, 7.0, 8.0, 39.0}
    some = read_rows(source, columns=["month"], where=[("x", "<", 10.0)])
    assert rows_by_month(some) == {"2014-01": 7, "2014-02": 10}
    assert count_labels(source, "y", partition=JANUARY) == LabelCounts(36, 36)


def test_rows_are_deleted_by_their_position_in_the_file(lake: Lake) -> None:
    numbers = pa.table({"x": pa.array(range(300_000), pa.int64())})
    deleted = [0, 6_999, 7_000, 7_001, 131_072, 250_000, 262_144, 299_999]
    if isinstance(lake, IcebergLake):
        lake.write("long", numbers[:0], [])
        path = lake.root / "long.parquet"
        pq.write_table(numbers, path, row_group_size=7_001)
        lake.table("long").add_files([f"file://{path}"])
        iceberg_deletes.delete_rows(lake.table("long"), "x >= 0", deleted)
    else:
        lake.write("long", numbers, [])
        delta_log.require(lake, "long", "deletionVectors")
        delta_log.replace_file(lake, "long", numbers, row_group_size=7_001)
        delta_log.delete_rows(lake, "long", deleted)
    plan = pc.open_table(lake.ref("long")).plan()
    assert len(plan.units) > 1
    assert plan.rows == 300_000 - len(deleted)
    found = read_rows(lake.ref("long"))["x"].to_pylist()
    assert sorted({*range(300_000)} - {*found}) == deleted
    last = read_rows(lake.ref("long"), where=[("x", ">=", 299_990)])
    assert last["x"].to_pylist() == [*range(299_990, 299_999)]


def test_a_scored_partition_whose_source_lost_rows_is_scored_again(
    lake: Lake,
) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    pc.score(model, source, sink)
    delete_january(lake, [3])
    assert pc.score(model, source, sink).counts["unchanged"] == 1
    assert rows_by_month(lake.read("scored")) == {"2014-01": 39, "2014-02": 40}
