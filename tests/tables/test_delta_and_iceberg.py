"""What Delta and Iceberg tables have in common: versions, and errors about them."""

from __future__ import annotations

import sys

import pytest
from delta_and_iceberg import LAKES, DeltaLake, Lake, lake_fixture, rows, rows_by_month, spec

import probclass_core as pc
from probclass_core.errors import NotSupportedError, TableError

lake = lake_fixture(*LAKES)


def test_earlier_versions_are_read_by_number(lake: Lake) -> None:
    lake.write("lake", rows("2014-03"), ["month"])
    oldest = lake.versions("lake")[0]
    assert pc.fit(lake.ref("lake"), spec()).training["rows"] == 120
    first = pc.fit(lake.ref("lake", version=oldest), spec())
    assert (first.training["rows"], first.training["version"]) == (80, oldest)
    newest = "version 9; the newest is 1" if isinstance(lake, DeltaLake) else "snapshot 9; it has"
    with pytest.raises(TableError, match=f"lake has no {newest}"):
        pc.fit(lake.ref("lake", version=9), spec())


def test_each_commit_is_one_version_and_a_rerun_none(lake: Lake) -> None:
    """Rows that were replaced are read by their version."""
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    for _ in range(2):
        pc.score(model, source, sink)
    lake.replace("lake", rows("2014-02", 7), "2014-02")
    pc.score(model, source, sink)
    versions = lake.versions("scored")
    by_month = [{"2014-01": 40}, {"2014-01": 40, "2014-02": 40}, {"2014-01": 40, "2014-02": 7}]
    assert [rows_by_month(lake.read("scored", version)) for version in versions] == by_month
    plans = [pc.open_table(lake.ref("scored", version=version)).plan() for version in versions]
    assert [plan.rows for plan in plans] == [40, 80, 47]


def test_refused_tables_versions_and_partitions(lake: Lake) -> None:
    model, sink = pc.fit(lake.ref("lake"), spec()), lake.ref("scored")
    source = lake.ref("lake")
    pc.score(model, source, sink, partition={"month": "2014-01"}, options={"columns": ["x"]})
    with pytest.raises(TableError, match=r"partitioned by month.* got one of kind"):
        pc.score(model, source, sink, partition={"kind": "p"}, options={"columns": ["x"]})
    assert len(lake.versions("scored")) == 1
    assert len(lake.files("scored")) == 1
    with pytest.raises(TableError, match="an earlier version cannot be written"):
        pc.score(model, source, lake.ref("scored", version=lake.versions("scored")[0]))
    with pytest.raises(TableError, match=r"is not a Delta table|no such table"):
        pc.fit(lake.ref("nothing"), spec())
    with pytest.raises(TableError, match=r"has no partition with .* it has 2: 'month=2014-01'"):
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
        with pytest.raises(NotSupportedError, match=r"tables need .* 'probclass\[\w+\]'"):
            action()
