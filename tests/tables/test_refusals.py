"""Scorings that are refused or fail change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import contents, write_rows
from monthly_lake import model, rows_of, write_lake
from permissions import as_nobody, make_readable
from refusals import refused

import probclass_core as pc
from probclass_core.errors import TableError, TableMismatchError


def lake_in(root: Path) -> Path:
    return write_lake(root / "lake", "2014-01")


def rows_in(root: Path) -> Path:
    return write_rows(root / "rows", rows_of(1), rows_of(2))


def note(path: Path, text: str = "about these rows") -> Path:
    """Write a text file, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def hidden_partition(root: Path) -> Path:
    table = rows_of(1).append_column("_month", pa.array(["2014-01"] * 40))
    return write_rows(root / "rows", table)


REFUSED: dict[str, tuple[Callable[[Path], tuple[Path, Path]], dict[str, Any], str]] = {
    "a foreign file": (
        lambda root: (
            lake_in(root),
            note(write_lake(root / "scored", "2014-01") / "month=2014-01" / "notes.txt").parents[1],
        ),
        {},
        "contains 'notes.txt', which is not part of a table written here",
    ),
    "a foreign table": (
        lambda root: (lake_in(root), note(root / "scored" / "other_table" / "notes").parents[1]),
        {},
        "contains 'other_table' next to partitions by 'month'",
    ),
    "partitions under an unpartitioned table": (
        lambda root: (rows_in(root), write_lake(root / "scored", "2014-01")),
        {},
        "contains 'month=2014-01', which is not part",
    ),
    "an unpartitioned table under partitions": (
        lambda root: (lake_in(root), write_rows(root / "scored", rows_of(1))),
        {},
        r"contains '0\.parquet' next to partitions by 'month'",
    ),
    "another partition column": (
        lambda root: (lake_in(root), write_lake(root / "scored" / "day=1", "2014-01").parent),
        {},
        "contains 'day=1' next to partitions by 'month'",
    ),
    "the source itself": (
        lambda root: (lake_in(root), root / "x" / ".." / "lake"),
        {},
        "lake is the source; write the scored table somewhere else",
    ),
    "inside the source": (
        lambda root: (lake_in(root), root / "lake" / "scored"),
        {},
        "lake/scored is inside .*/lake; write the scored table outside its source",
    ),
    "a partition of the source": (
        lambda root: (lake_in(root), root / "lake" / "month=2014-01"),
        {"partition": {"month": "2014-01"}},
        "month=2014-01 is inside .*/lake",
    ),
    "a file of the source": (
        lambda root: (rows_in(root), root / "rows" / "0.parquet"),
        {},
        r"rows/0\.parquet is inside .*/rows",
    ),
    "around the source": (
        lambda root: (rows_in(root) / "0.parquet", root / "rows"),
        {},
        r"rows/0\.parquet is inside .*/rows",
    ),
    "an append to a single file": (
        lambda root: (rows_in(root), root / "scored.parquet"),
        {"options": {"overwrite": "append"}},
        "tables of this format cannot be appended to",
    ),
    "a text file": (
        lambda root: (lake_in(root), note(root / "scored")),
        {},
        "scored is a file; name a directory",
    ),
    "below a file": (
        lambda root: (lake_in(root), note(root / "file") / "scored"),
        {},
        "cannot write to .*/file: ",
    ),
    "a column that hides its directories": (
        lambda root: (hidden_partition(root), root / "scored"),
        {"partition": {"_month": "2014-01"}},
        "column '_month' cannot be a partition column",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_sources_and_sinks(tmp_path: Path, kind: str) -> None:
    make, options, message = REFUSED[kind]
    source, sink = make(tmp_path)
    before = contents(tmp_path)
    with refused(TableError, message):
        pc.score(model(), source, sink, **options)
    assert contents(tmp_path) == before
    assert not list(tmp_path.rglob("_staging*"))


def test_a_source_without_rows_is_refused(tmp_path: Path) -> None:
    no_rows = rows_of(1)[:0]
    for source in (no_rows, write_rows(tmp_path / "rows", no_rows)):
        with pytest.raises(TableError, match="has no rows to score"):
            pc.score(model(), source, tmp_path / "scored")
    assert not (tmp_path / "scored").exists()


def test_a_table_in_a_read_only_directory_is_written(tmp_path: Path) -> None:
    make_readable(tmp_path)
    lake, sink = lake_in(tmp_path), tmp_path / "scored"
    sink.mkdir()
    sink.chmod(0o777)
    tmp_path.chmod(0o555)
    try:
        with as_nobody():
            for number in (50, 51):
                assert pc.score(model(number), lake, sink).counts["unchanged"] == 0
    finally:
        tmp_path.chmod(0o755)
    assert [path.name for path in sink.iterdir()] == ["month=2014-01"]
    assert set(pq.read_table(sink)["model_id"].to_pylist()) == {model(51).id}


def test_only_an_error_that_may_go_away_is_transient(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01")
    with pytest.raises(TableMismatchError) as inside:
        pc.score(model(), lake, lake / "scored")
    assert not inside.value.is_transient
    with pytest.raises(TableError) as absent:
        pc.score(model(), lake, tmp_path / "scored", partition={"month": "2014-02"})
    assert absent.value.is_transient
