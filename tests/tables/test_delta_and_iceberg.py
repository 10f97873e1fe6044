"""What Delta and Iceberg tables have in common: versions, and errors about them."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta_and_iceberg import LAKES, Lake, rows, rows_by_month, spec

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
    commit = lake.commits("scored")[-1]
    assert (commit["model_id"], commit["input_version"]) == (model.id, lake.versions("lake")[-1])
    lake.replace("lake", rows("2014-02", 7), "2014-02")
    report = pc.score(model, lake.ref("lake"), sink)
    assert (report.rows, report.skipped) == (47, 1)
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 7}
    # Rows that were replaced are read by their version.
    versions = lake.versions("scored")
    by_month = [{"2014-01": 40}, {"2014-01": 40, "2014-02": 40}, {"2014-01": 40, "2014-02": 7}]
    assert [rows_by_month(lake.read("scored", version)) for version in versions] == by_month
    assert [
        pc.open_table(lake.ref("scored", version=version)).plan().rows for version in versions
    ] == [40, 80, 47]


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
