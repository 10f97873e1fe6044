"""table inspect, table clean, table formats: what they tell, and what they refuse."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.plugins import manager as plugins

ROWS = 60


def rows(month: str) -> pa.Table:
    values = [float(number) for number in range(ROWS)]
    labels = ["low" if value < 30.0 else "high" for value in values]
    return pa.table({"x": values, "name": [month] * ROWS, "y": labels})


@pytest.fixture
def lake(probclass: Any) -> Path:
    for month in ("2014-01", "2014-02"):
        probclass.table(f"lake/month={month}/rows.parquet", rows(month))
    return Path(probclass.folder / "lake")


@pytest.fixture
def model(lake: Path) -> pc.Model:
    return pc.fit(lake, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])]))


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_a_scored_table_tells_what_it_is(
    probclass: Any, lake: Path, model: pc.Model, name: str
) -> None:
    place = pc.TableRef("scored", format=name)
    pc.score(model, lake, place)
    told = probclass.done("table", "inspect", "scored", "--format", name, "--json").json
    files = list(Path("scored").rglob("*.parquet"))
    columns = pq.read_schema(files[0]).names
    assert told["format"] == name
    assert told["version"] == (1 if name == "delta" else None)
    assert (told["rows"], told["files"], told["row_groups"]) == (2 * ROWS, 2, 2)
    assert told["bytes"] == sum(path.stat().st_size for path in files)
    assert told["models"] == [model.id]
    assert told["statistics_coverage"] == 1.0
    assert told["partition_columns"] == ["month"]
    stored = {column["name"]: column for column in told["schema"]}
    assert stored["month"] == {"name": "month", "type": "string", "statistics": None}
    assert stored["p_low"] == {"name": "p_low", "type": "double", "statistics": 1.0}
    assert set(stored) == {*columns, "month"}
    assert [each["partition"] for each in told["partitions"]] == [
        {"month": "2014-01"},
        {"month": "2014-02"},
    ]
    assert {(each["rows"], *each["models"]) for each in told["partitions"]} == {(ROWS, model.id)}
    shown = lines(probclass.done("table", "inspect", "scored").out)
    assert f"scored by {model.id}" in shown
    assert "partitions 2: month=2014-01 … month=2014-02" in shown
    assert any(line.startswith(f"month=2014-02 1 {ROWS}") for line in shown)
    narrow = probclass.done("table", "inspect", "scored", "--where", "month > 2014-01", "--json")
    assert (narrow.json["rows"], narrow.json["files"]) == (ROWS, 1)


def test_statistics_that_are_missing_are_told(probclass: Any) -> None:
    pq.write_table(rows("2014-01"), "rows.parquet", write_statistics=["x"], row_group_size=25)
    told = probclass.done("table", "inspect", "rows.parquet", "--json").json
    assert {column["name"]: column["statistics"] for column in told["schema"]} == {
        "x": 1.0,
        "name": 0.0,
        "y": 0.0,
    }
    assert told["statistics_coverage"] == pytest.approx(1 / 3)
    assert (told["row_groups"], told["partitions"], told["models"]) == (3, [], [])
    shown = lines(probclass.done("table", "inspect", "rows.parquet").out)
    assert "min and max in 33% of row groups × columns" in shown


def test_an_earlier_version_is_inspected(probclass: Any, lake: Path, model: pc.Model) -> None:
    pc.score(model, lake, pc.TableRef("scored", format="delta"))
    assert probclass.done("table", "inspect", "scored", "--version", 0, "--json").json["rows"] == 60
    assert "keeps no versions" in probclass.refused("table", "inspect", lake, "--version", 0)


def test_many_partitions_are_counted(probclass: Any) -> None:
    for day in range(30):
        probclass.table(f"days/day={day:02}/rows.parquet", rows("x"))
    shown = lines(probclass.done("table", "inspect", "days").out)
    assert "partitions 30: day=0 … day=29" in shown
    assert "Partitions" not in shown
    assert len(probclass.done("table", "inspect", "days", "--json").json["partitions"]) == 30


def test_leftovers_are_shown_then_removed(probclass: Any, lake: Path, model: pc.Model) -> None:
    pc.score(model, lake, "scored")
    left = Path(f"_staging-scored-{'0' * 32}")
    (left / "content").mkdir(parents=True)
    (left / "content" / "part-0.parquet").write_bytes(bytes(1_000))
    assert "Nothing older than 24 hours" in probclass.done("table", "clean", "scored").out
    dry = probclass.done("table", "clean", "scored", "--older-than", 0, "--dry-run").out
    assert left.is_dir()
    assert lines(dry)[0] == "Would be removed"
    hour_ago = time.time() - 3_700
    for path in (left / "content" / "part-0.parquet", left / "content", left):
        os.utime(path, (hour_ago, hour_ago))
    told = probclass.done("table", "clean", "scored", "--older-than", 1, "--json").json
    assert [(each["path"], each["bytes"]) for each in told["removed"]] == [
        (str(left.resolve()), 1_000)
    ]
    assert not told["dry_run"]
    assert not left.exists()


def test_formats_are_listed(probclass: Any) -> None:
    told = {
        each["name"]: each for each in probclass.done("table", "formats", "--json").json["formats"]
    }
    assert {"delta", "parquet"} <= set(told)
    assert told["delta"]["written"]
    assert told["parquet"]["cleaned"]
    shown = lines(probclass.done("table", "formats").out)
    assert any(
        line.startswith("delta ") and line.endswith("read, written, cleaned") for line in shown
    )


@pytest.fixture
def only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A format of somebody's, whose tables are not made of files."""
    held = pc.TableFormat(
        name="numbers",
        summary="numbers from nowhere",
        recognizes=lambda ref: ref.uri.startswith("numbers"),
        open=lambda ref: pc.open_table({"x": [1.0, 2.0]}),
    )
    formats = {**plugins.registry().table_formats, "numbers": held}
    changed = dataclasses.replace(plugins.registry(), table_formats=formats)
    monkeypatch.setattr("probclass_core.io.open.registry", lambda: changed)


def test_a_table_that_is_not_of_files(probclass: Any, only_read: None) -> None:
    told = probclass.done("table", "inspect", "numbers", "--json").json
    assert (told["format"], told["rows"], told["partitions"]) == ("numbers", 2, [])
    assert "rows 2" in lines(probclass.done("table", "inspect", "numbers").out)
    assert "is not known" in probclass.refused("table", "clean", "numbers")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("inspect", "nowhere"), "nowhere does not exist"),
        (("clean", "nowhere"), "nowhere does not exist"),
        (("inspect", "lake", "--partition", "month=2015-01"), "has no partition with"),
        (("inspect", "lake", "--format", "delta"), "holds no Delta table"),
        (("inspect", "lake", "--format", "csv"), "csv"),
        (("clean", "lake", "--older-than", "-1"), "--older-than"),
    ],
)
def test_what_is_refused(probclass: Any, lake: Path, arguments: tuple[str, ...], line: str) -> None:
    assert line in probclass.refused("table", *arguments)


def test_rows_are_added_once_by_a_run_with_a_name(
    probclass: Any, lake: Path, model: pc.Model
) -> None:
    pc.ModelStore(Path("models")).save(model, "air")
    january = lake / "month=2014-01" / "rows.parquet"
    adding = ("score", "air", january, "added", "--store", "models", "--overwrite", "append")
    first = probclass.done(*adding, "--run-id", "nightly", "--json").json
    again = probclass.done(*adding, "--json").json
    assert (first["rows"], first["skipped"], again["rows"], again["skipped"]) == (ROWS, 0, ROWS, 1)
    assert "1 of 1: there already, from the same inputs" in probclass.done(*adding).out
    probclass.done("score", "air", lake / "month=2014-02", *adding[3:])
    assert pq.read_table("added").num_rows == 2 * ROWS
    [record] = [
        record
        for file in Path("added").glob("*.parquet")
        if (record := json.loads(pq.read_metadata(file).metadata[b"probclass.commit"]))["source"]
        == str(january)
    ]
    assert record["run_id"] == "nightly"
