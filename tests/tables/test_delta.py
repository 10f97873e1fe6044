"""What is particular to Delta tables; see test_delta_and_iceberg.py for what they share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from backends import JANUARY, Arrives, append, delta
from delta_and_iceberg import DeltaLake, lake_fixture, rows, rows_by_month, spec
from deltalake import DeltaTable

import probclass_core as pc
from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io import delta as delta_format
from probclass_core.io.delta import open_delta

lake = lake_fixture("delta")


def test_a_table_is_recognized_by_its_log_and_by_its_prefix(
    lake: DeltaLake, tmp_path: Path
) -> None:
    source = str(tmp_path / "lake")
    model = pc.fit(source, spec())
    assert model.training["version"] == 0
    pc.score(model, source, f"delta+file://{tmp_path}/scored")
    for address in (f"delta+{tmp_path}/scored", str(tmp_path / "scored")):
        assert pc.score(model, source, address).counts["unchanged"] == 2
    assert rows_by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}


def test_a_format_prefix_before_a_relative_path_is_refused(
    lake: DeltaLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pc.fit(tmp_path / "lake", spec())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=r"write delta\+file://scored, or"):
        pc.score(model, tmp_path / "lake", "delta+scored")
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
    (tmp_path / "delta+").mkdir()
    pc.score(model, tmp_path / "lake", f"{tmp_path}/delta+/scored")
    assert pc.inspect_table(f"{tmp_path}/delta+/scored").format == "parquet"


def test_compacted_rows_are_not_appended_again(
    model: pc.Model, arrives: Arrives, tmp_path: Path
) -> None:
    """Compaction drops the files whose footers had the commit records; the log still has them."""
    backend = delta(tmp_path)
    sink, first, second = backend.ref("scored"), arrives("first"), arrives("second", start=100.0)
    for source in (first, second):
        append(model, source, sink, partition=JANUARY)
    before = backend.xs("scored")
    assert DeltaTable(sink.uri).optimize.compact()["numFilesAdded"] == 1
    for source in (first, second):
        assert append(model, source, sink, partition=JANUARY).counts["unchanged"] == 1
    assert backend.xs("scored") == before
    # Once another engine replaces the partition, the rows can be appended again.
    DeltaLake(tmp_path).replace("scored", backend.read("scored").slice(0, 1), "2014-01")
    assert append(model, first, sink, partition=JANUARY).counts["unchanged"] == 0
    assert backend.read("scored").num_rows == 41


def test_an_append_only_table_and_constraints_are_respected(lake: DeltaLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    january, february = ({"month": f"2014-0{number}"} for number in (1, 2))
    pc.score(model, source, sink, partition=january)
    other = pc.fit(rows("2014-01", 30), spec())
    DeltaTable(sink.uri).alter.set_table_properties({"delta.appendOnly": "true"})
    message = r"only accepts appended rows .*score with overwrite='append'"
    with pytest.raises(TableError, match=message):
        pc.score(other, source, sink, partition=january)
    assert (
        pc.score(other, source, sink, partition=january, options={"overwrite": "append"}).rows == 40
    )
    assert pc.score(model, source, sink, partition=february).rows == 40
    assert rows_by_month(lake.read("scored")) == {"2014-01": 80, "2014-02": 40}
    DeltaTable(sink.uri).alter.add_constraint({"small": "x < 100000"})
    with pytest.raises(TableError, match=r"cannot check: 'delta\.constraints\.small'"):
        pc.score(other, source, sink, partition=february, options={"overwrite": "append"})


def months(count: int) -> pa.Table:
    return pa.concat_tables(rows(f"2014-{month:02d}", 4) for month in range(1, count + 1))


def test_the_log_is_not_replayed_for_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def count(ref: pc.TableRef) -> DeltaTable:
        opened.append(ref.uri)
        return open_delta(ref)

    lake = DeltaLake(tmp_path)
    lake.write("lake", months(12), ["month"])
    model = pc.fit(lake.ref("lake"), spec())
    monkeypatch.setattr(delta_format, "open_delta", count)
    assert pc.score(model, lake.ref("lake"), lake.ref("scored")).rows == 48
    assert len(opened) <= 9, "while there was no table"
    log = tmp_path / "scored" / "_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) == 1, "every ten commits, as Spark does"
    assert pc.score(model, lake.ref("lake"), lake.ref("scored")).counts["unchanged"] == 12


def test_a_table_that_takes_the_place_of_the_sink_meanwhile_is_recognized(tmp_path: Path) -> None:
    lake = DeltaLake(tmp_path)
    lake.write("lake", months(4), ["month"])
    model = pc.fit(lake.ref("lake"), spec())
    sink = lake.ref("scored")
    pc.score(model, lake.ref("lake"), lake.ref("other"), partition=JANUARY)

    def replace(done: int, total: int | None) -> None:
        if done == 8 and (tmp_path / "other").exists():  # once January is committed
            shutil.rmtree(tmp_path / "scored" / "_delta_log")
            shutil.copytree(tmp_path / "other", tmp_path / "scored", dirs_exist_ok=True)
            shutil.rmtree(tmp_path / "other")

    pc.score(model, lake.ref("lake"), sink, progress=replace)
    assert not (tmp_path / "other").exists()
    assert DeltaTable(sink.uri).version() == 3
    assert rows_by_month(lake.read("scored")) == {f"2014-0{month}": 4 for month in range(1, 5)}
    assert [one["rows"] for one in pc.commits(sink)] == [4] * 4


def test_a_table_is_not_begun_among_the_files_of_another(tmp_path: Path) -> None:
    model, target = pc.fit(months(1), spec()), tmp_path / "scored"
    pc.score(model, months(1), target)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    with pytest.raises(TableMismatchError, match=r"is not a Delta table, and has files such as"):
        pc.score(model, months(1), pc.TableRef(str(target), format="delta"))
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before
