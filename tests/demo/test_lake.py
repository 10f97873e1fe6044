"""The demo lake: its content, atomic writing, and protection of other files."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.dataset as ds
import pytest

from probclass_core.demo.lake import lay_out
from probclass_core.errors import TableError


def modification_times(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*")}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return ds.dataset(
        lay_out(tmp_path_factory.mktemp("demo") / "lake"), partitioning="hive"
    ).to_table()


def test_the_lake_contains_every_hour_of_five_years(table: pa.Table) -> None:
    assert table.num_rows == 43_824
    months = sorted(set(table["month"].to_pylist()))
    assert (len(months), months[0], months[-1]) == (60, "2010-01", "2014-12")
    assert table["air"].null_count == table["pm25"].null_count == 2_067


def test_derived_columns(table: pa.Table) -> None:
    for row in table.take(list(range(0, table.num_rows, 97))).to_pylist():
        assert row["month"] == f"{row['time']:%Y-%m}"
        assert row["hour"] == row["time"].hour
        assert row["log_wind_speed"] == pytest.approx(math.log(row["wind_speed"]), rel=1e-14)
        if row["pm25"] is not None:
            expected = "good" if row["pm25"] <= 35 else "moderate"
            assert row["air"] == (expected if row["pm25"] <= 115 else "unhealthy")


def test_the_lake_can_be_partitioned_by_day(table: pa.Table, tmp_path: Path) -> None:
    days = ds.dataset(lay_out(tmp_path / "days", "day"), partitioning="hive").to_table()
    assert days["day"].equals(pac.strftime(days["time"], "%Y-%m-%d"))
    assert len(set(days["day"].to_pylist())) == 5 * 365 + 1
    columns = table.column_names[:-1]
    by_time = [("time", "ascending")]
    assert days.select(columns).sort_by(by_time) == table.select(columns).sort_by(by_time)


def test_writing_the_lake_again_changes_nothing(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "lake")
    before = modification_times(root)
    assert lay_out(str(root)) == root
    assert modification_times(root) == before
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    with pytest.raises(TableError, match="is not a demo lake"):
        lay_out(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
