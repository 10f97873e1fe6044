"""table inspect, labels, clean and formats: reports and errors."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc

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


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_inspect_reports_rows_files_and_models_of_a_scored_table(
    probclass: Any, lake: Path, model: pc.Model, name: str
) -> None:
    pc.score(model, lake, pc.TableRef("scored", format=name))
    report = probclass.ok(f"table inspect scored --format {name} --json").json
    files = list(Path("scored").rglob("*.parquet"))
    columns = pq.read_schema(files[0]).names
    assert report["format"] == name
    assert report["version"] == (1 if name == "delta" else None)
    assert (report["rows"], report["files"], report["row_groups"]) == (2 * ROWS, 2, 2)
    assert report["bytes"] == sum(path.stat().st_size for path in files)
    assert report["models"] == [model.id]
    assert report["partition_columns"] == ["month"]
    columns_by_name = {column["name"]: column for column in report["schema"]}
    assert columns_by_name["month"] == {"name": "month", "type": "string"}
    assert columns_by_name["p_low"] == {"name": "p_low", "type": "double"}
    assert set(columns_by_name) == {*columns, "month"}
    assert [record["partition"] for record in report["partitions"]] == [
        {"month": "2014-01"},
        {"month": "2014-02"},
    ]
    assert {(record["rows"], *record["models"]) for record in report["partitions"]} == {
        (ROWS, model.id)
    }
    shown = probclass.ok("table inspect scored").lines
    assert f"scored by {model.id}" in shown
    assert "2 partitions from month=2014-01 to month=2014-02" in shown
    assert any(line.startswith(f"month=2014-02 1 {ROWS}") for line in shown)
    selected = probclass.ok("table inspect scored --where 'month > 2014-01' --json")
    assert (selected.json["rows"], selected.json["files"]) == (ROWS, 1)


def test_labels_counts_rows_with_a_label(probclass: Any) -> None:
    probclass.table("lake/month=2014-01/rows.parquet", rows("2014-01"))
    unlabeled = rows("2014-02").set_column(2, "y", [pa.nulls(ROWS, pa.string())])
    probclass.table("lake/month=2014-02/rows.parquet", unlabeled)
    report = probclass.ok("table labels lake y --json").json
    assert report == {"uri": "lake", "label": "y", "rows": 120, "labeled": 60, "share": 0.5}
    february = probclass.ok("table labels lake y --partition month=2014-02")
    assert february.lines == ["0 of 60 rows have a label (0.0%)."]


def test_inspect_reads_an_earlier_version(probclass: Any, lake: Path, model: pc.Model) -> None:
    pc.score(model, lake, pc.TableRef("scored", format="delta"))
    assert probclass.ok("table inspect scored --version 0 --json").json["rows"] == 60


def test_clean_lists_leftovers_and_removes_them(
    probclass: Any, lake: Path, model: pc.Model
) -> None:
    pc.score(model, lake, "scored")
    leftover = Path(f"_staging-scored-{'0' * 32}")
    (leftover / "content").mkdir(parents=True)
    (leftover / "content" / "part-0.parquet").write_bytes(bytes(1_000))
    assert "no leftover files older than 24 hours" in probclass.ok("table clean scored").out
    dry_run = probclass.ok("table clean scored --older-than 0 --dry-run")
    assert leftover.is_dir()
    assert dry_run.lines[0] == "Would be removed"
    hour_ago = time.time() - 3_700
    for path in (leftover / "content" / "part-0.parquet", leftover / "content", leftover):
        os.utime(path, (hour_ago, hour_ago))
    report = probclass.ok("table clean scored --older-than 1 --json").json
    assert [(record["path"], record["bytes"]) for record in report["removed"]] == [
        (str(leftover.resolve()), 1_000)
    ]
    assert not report["dry_run"]
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("inspect nowhere", "nowhere does not exist"),
        ("inspect lake --format delta", "is not a Delta table"),
        ("clean lake --older-than -1", "--older-than"),
        ("clean lake --older-than inf", "inf is not in the range"),
        ("clean lake --older-than 1e20", "--older-than"),
    ],
)
def test_invalid_arguments_are_errors(
    probclass: Any, lake: Path, arguments: str, line: str
) -> None:
    assert line in probclass.error(f"table {arguments}")


def test_what_differs_is_scored_and_a_damaged_partition_fails(
    probclass: Any, iris: pa.Table
) -> None:
    probclass.spec("species", gaussian_full=["sepal_length"])
    lake = probclass.folder / "lake"
    for day in range(22):
        probclass.table(f"lake/day={day:02d}x/rows.parquet", iris)
    fit = "fit lake --spec spec.json --name iris --alias champion"
    probclass.ok(f"{fit} --partition day=00x")
    score = "score iris@champion lake scored"
    planned = probclass.ok(f"{score} --dry-run")
    assert max(map(len, planned.out.splitlines())) <= 80
    assert "… and 2 more rows" in planned.out
    assert not (probclass.folder / "scored").exists()
    scored = probclass.ok(f"{score} --json --limit 20").json
    assert (scored["scored"], scored["pending"], scored["rows"]) == (20, 2, 20 * 150)
    assert scored["partitions"][0]["reasons"] == ["missing"]

    (lake / "day=05x" / "rows.parquet").write_bytes(b"PAR1")
    failed = probclass(f"{score} --json")
    assert failed.code == 2
    assert json.loads(failed.err)["type"] == "PartitionError"
    document = json.loads(failed.out)
    assert (document["scored"], document["unchanged"], document["failed"]) == (2, 19, 1)
    shown = probclass(score)
    assert shown.code == 2
    assert "21 unchanged, 1 failed" in shown.out
    assert shown.err.startswith("error: 1 of 22 partitions failed: day=05x: cannot read")
    assert shown.err.count("\n") == 1
    assert [one["outcome"] for one in document["partitions"]] == ["failed", "scored", "scored"]
    again = probclass("score iris@champion lake other --run-id 'by hand'")
    assert (again.code, again.err) == (2, shown.err)
    assert again.lines[0].startswith("Scored 3,150 rows by model ")
    records = pc.ModelStore("models").scorings("iris")
    assert [(len(one.partitions), one.provenance) for one in records] == [
        (20, {}),
        (2, {}),
        (21, {"run_id": "by hand"}),
    ]

    (lake / "day=05x" / "rows.parquet").unlink()
    gone = probclass.ok(f"{score} --deleted remove --json").json
    assert (gone["removed"], gone["unchanged"]) == (1, 21)
    probclass.ok(fit)
    assert probclass.ok(f"{score} --scored-by {scored['model']} --json").json["scored"] == 21
    wrong = probclass.error(f"{score} --partition day=00x --partitions 'day >= 03x'")
    assert wrong == "error: give --partition or --partitions, not both.\n"
