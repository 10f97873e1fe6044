"""Scorings that are refused or fail change nothing."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from monthly_lake import contents, model, rows_of, write_lake, write_rows
from permissions import as_nobody, make_readable

import probclass_core as pc

Setup = Callable[[Path], tuple[Path, Path, dict[str, Any]]]
"""Creates files in a directory; returns the source, the sink and other options of a scoring."""


def foreign_file(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    sink = root / "scored"
    write_lake(sink, "2014-01")
    (sink / "month=2014-01" / "notes.txt").write_text("mine")
    return write_lake(root / "lake", "2014-01"), sink, {}


def foreign_table(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    sink = root / "scored"
    (sink / "other_table").mkdir(parents=True)
    return write_lake(root / "lake", "2014-01"), sink, {}


def partitions_under_an_unpartitioned_table(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    sink = write_lake(root / "scored", "2014-01")
    return write_rows(root / "rows", rows_of(1)), sink, {}


def an_unpartitioned_table_under_partitions(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    sink = write_rows(root / "scored", rows_of(1))
    return write_lake(root / "lake", "2014-01"), sink, {}


def another_partition_column(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    sink = root / "scored"
    write_rows(sink / "day=2014-01-01", rows_of(1))
    return write_lake(root / "lake", "2014-01"), sink, {}


def the_source_itself(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    lake = write_lake(root / "lake", "2014-01")
    return lake, root / "x" / ".." / "lake", {}


def inside_the_source(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    lake = write_lake(root / "lake", "2014-01")
    return lake, lake / "scored", {}


def a_partition_of_the_source(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    lake = write_lake(root / "lake", "2014-01", "2014-02")
    return lake, lake / "month=2014-01", {"partition": {"month": "2014-01"}}


def a_file_of_the_source(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    rows = write_rows(root / "rows", rows_of(1), rows_of(2))
    return rows, rows / "0.parquet", {}


def around_the_source(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    rows = write_rows(root / "rows", rows_of(1))
    return rows / "0.parquet", rows, {}


def notes_next_to_the_rows(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    rows = write_rows(root / "rows", rows_of(1))
    (rows / "README.md").write_text("about these rows")
    return rows, root / "scored", {}


def text(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    (root / "rows.txt").write_text("id,x\n1,2.5\n")
    return root / "rows.txt", root / "scored", {}


def a_text_file(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    (root / "scored").write_text("mine")
    return write_lake(root / "lake", "2014-01"), root / "scored", {}


def below_a_file(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    (root / "file").write_text("mine")
    return write_lake(root / "lake", "2014-01"), root / "file" / "scored", {}


def a_column_that_hides_its_directories(root: Path) -> tuple[Path, Path, dict[str, Any]]:
    table = rows_of(1).append_column("_month", pa.array(["2014-01"] * 40))
    return write_rows(root / "rows", table), root / "scored", {"partition": {"_month": "2014-01"}}


REFUSED: list[tuple[Setup, str]] = [
    (foreign_file, "contains 'notes.txt', which is not part of a table written here"),
    (foreign_table, "contains 'other_table' next to partitions by 'month'"),
    (partitions_under_an_unpartitioned_table, "contains 'month=2014-01', which is not part"),
    (
        an_unpartitioned_table_under_partitions,
        r"contains '0\.parquet' next to partitions by 'month'",
    ),
    (another_partition_column, "contains 'day=2014-01-01' next to partitions by 'month'"),
    (the_source_itself, "lake is the source; write the scored table somewhere else"),
    (inside_the_source, "lake/scored is inside .*/lake; write the scored table outside its source"),
    (a_partition_of_the_source, "month=2014-01 is inside .*/lake"),
    (a_file_of_the_source, r"rows/0\.parquet is inside .*/rows"),
    (around_the_source, r"rows/0\.parquet is inside .*/rows"),
    (a_text_file, "scored is a file; name a directory"),
    (below_a_file, "cannot write to .*/file: "),
    (notes_next_to_the_rows, r"cannot read .*/rows: .*/README\.md is not a Parquet file"),
    (text, r"cannot read .*/rows\.txt: it is not a Parquet file.* name the format of text files"),
    (a_column_that_hides_its_directories, "column '_month' cannot be a partition column"),
]


@pytest.mark.parametrize(
    ("setup", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", "")
)
def test_refused_sources_and_sinks(tmp_path: Path, setup: Setup, message: str) -> None:
    source, sink, options = setup(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(pc.TableError, match=message) as caught:
        pc.score(model(), source, sink, **options)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before
    assert not list(tmp_path.rglob("_staging*"))


@pytest.mark.parametrize(
    ("sink", "message"),
    [(5, "is not a path"), ("sea://bucket/scored", "Protocol not known")],
)
def test_sinks_that_are_not_paths_are_refused(sink: Any, message: str) -> None:
    with pytest.raises(pc.TableError, match=message):
        pc.score(model(), rows_of(1), sink)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"overwrite": "always"},
            "overwrite must be one of 'append', 'never', 'partition', got 'always'",
        ),
        ({"posterior": "rows"}, "posterior must be one of 'columns', 'list', got 'rows'"),
    ],
)
def test_unknown_choices_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pc.SpecError, match=message):
        pc.score(model(), rows_of(1), tmp_path / "scored", **options)
    assert not (tmp_path / "scored").exists()


def test_a_source_without_rows_is_refused(tmp_path: Path) -> None:
    no_rows = rows_of(1)[:0]
    for source in (no_rows, write_rows(tmp_path / "rows", no_rows)):
        with pytest.raises(pc.TableError, match="has no rows to score"):
            pc.score(model(), source, tmp_path / "scored")
    assert not (tmp_path / "scored").exists()


INVALID_COLUMNS: dict[str, tuple[str, pa.Array, str]] = {
    "infinite": ("y", pa.array([0.0] * 39 + [float("inf")]), "'y' contains 1 infinite value"),
    "text": ("y", pa.array(["tall"] * 40), "'y' is string, not a number; cast it or re-train"),
    "a number": (
        "wind",
        pa.array([0.5] * 40),
        "column 'wind': double values, such as 0.5, are not categories",
    ),
}


@pytest.mark.parametrize("kind", sorted(INVALID_COLUMNS))
def test_an_invalid_row_leaves_the_old_partition(tmp_path: Path, kind: str) -> None:
    lake, sink = write_lake(tmp_path / "lake", "2014-01"), tmp_path / "scored"
    pc.score(model(), lake, sink)
    before = contents(sink)
    column, values, message = INVALID_COLUMNS[kind]
    invalid = rows_of(2)
    invalid = invalid.set_column(invalid.column_names.index(column), column, values)
    write_rows(lake / "month=2014-01", invalid)
    with pytest.raises(pc.DataError, match=message):
        pc.score(model(), lake, sink)
    assert contents(sink) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "scored"]


@pytest.fixture
def readable_by_all(tmp_path: Path) -> Path:
    make_readable(tmp_path)
    return tmp_path


def test_a_directory_without_write_permission_is_refused(readable_by_all: Path) -> None:
    lake, sink = write_lake(readable_by_all / "lake", "2014-01"), readable_by_all / "scored"
    pc.score(model(), lake, sink)
    before = contents(readable_by_all)
    sink.chmod(0o555)
    readable_by_all.chmod(0o555)
    try:
        with (
            as_nobody(),
            pytest.raises(pc.TableError, match=r"cannot write to .*: Permission denied"),
        ):
            pc.score(model(51), lake, sink)
    finally:
        readable_by_all.chmod(0o755)
    assert contents(readable_by_all) == before


def test_a_table_in_a_read_only_directory_is_written(readable_by_all: Path) -> None:
    lake, sink = write_lake(readable_by_all / "lake", "2014-01"), readable_by_all / "scored"
    sink.mkdir()
    sink.chmod(0o777)
    readable_by_all.chmod(0o555)
    try:
        with as_nobody():
            for number in (50, 51):
                assert pc.score(model(number), lake, sink).skipped == 0
    finally:
        readable_by_all.chmod(0o755)
    assert [path.name for path in sink.iterdir()] == ["month=2014-01"]
    assert set(pq.read_table(sink)["model_id"].to_pylist()) == {model(51).id}


def test_a_full_disk_leaves_the_old_partition(tmp_path: Path) -> None:
    lake, sink = write_lake(tmp_path / "lake", "2014-01"), tmp_path / "scored"
    pc.score(model(), lake, sink)
    write_rows(lake / "month=2014-01", rows_of(2, rows=50_000))
    before = contents(sink)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(pc.TableError, match=r"cannot write .*the existing data is unchanged"):
            pc.score(model(), lake, sink)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(sink) == before
    assert not list(tmp_path.glob("_staging*"))
    assert pc.score(model(), lake, sink).rows == 50_000


def test_of_concurrent_scorings_of_one_partition_one_remains(tmp_path: Path) -> None:
    lake, sink = write_lake(tmp_path / "lake", "2014-01"), tmp_path / "scored"
    reports: list[pc.ScoreReport] = []
    start = threading.Barrier(4)

    def score(number: int) -> None:
        start.wait()
        reports.extend(pc.score(model(number), lake, sink) for _ in range(5))

    for number in (50, 51):
        model(number)
    threads = [threading.Thread(target=score, args=(50 + n % 2,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 20
    table = pq.read_table(sink)
    assert table.num_rows == 47
    assert set(table["model_id"].to_pylist()) in ({model(50).id}, {model(51).id})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake", "scored"]


def test_only_an_error_that_may_go_away_is_transient(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01")
    with pytest.raises(pc.TableMismatchError) as inside:
        pc.score(model(), lake, lake / "scored")
    assert not inside.value.is_transient
    with pytest.raises(pc.TableError) as absent:
        pc.score(model(), lake, tmp_path / "scored", partition={"month": "2014-02"})
    assert absent.value.is_transient
