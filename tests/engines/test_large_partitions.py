"""A large partition is written as several files, by several workers, in one commit."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workloads
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from lakes import digests
from pyiceberg.catalog import load_catalog
from reversed_engine import ReversedEngine
from workloads import SPEC, FaultyTable, rows_of

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.parquet import units
from probclass_core.io.table import Plan
from probclass_core.scoring import partition as scoring

FILES, ROWS_PER_FILE = 6, 60
ROWS = FILES * ROWS_PER_FILE
PARTS = 3


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Cut partitions into parts of two files each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "PART_ROWS", ROWS // PARTS)
        patch.setattr(units, "_UNIT_ROWS", 1)  # each file is a unit
        yield


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table without partitions."""
    root = tmp_path_factory.mktemp("large") / "lake"
    root.mkdir()
    for number in range(FILES):
        pq.write_table(rows_of(number, ROWS_PER_FILE), root / f"{number}.parquet")
    return root


@pytest.fixture(scope="module")
def model(lake: Path) -> pc.Model:
    return pc.fit(lake, SPEC)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


TableFactory = Callable[[str], pc.TableRef]


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def table_at(request: pytest.FixtureRequest, tmp_path: Path) -> TableFactory:
    """References to tables by name, in each format."""
    if request.param != "iceberg":
        return lambda name: pc.TableRef(str(tmp_path / name), format=request.param)
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    return lambda name: pc.TableRef(f"iceberg://home/a.{name}", options={"type": "sql", **catalog})


def commits_and_files(ref: pc.TableRef) -> tuple[int, int]:
    """The number of commits of a table, and of its current files."""
    if ref.format == "delta":
        table = DeltaTable(ref.uri)
        return table.version() + 1, len(table.file_uris())
    if ref.uri.startswith("iceberg"):
        loaded = load_catalog("home", **ref.options).load_table(
            ref.uri.removeprefix("iceberg://home/")
        )
        return len(list(loaded.snapshots())), len(list(loaded.scan().plan_files()))
    return 1, len(list(Path(ref.uri).glob("part-*.parquet")))


def ids_in(table: Any) -> list[int]:
    """The ids of a table, in its order."""
    plan = pc.open_table(table).plan(["id"])
    return pa.Table.from_batches(plan.batches(), plan.schema)["id"].to_pylist()


IDS = [1000 * number + row for number in range(FILES) for row in range(ROWS_PER_FILE)]


def test_every_engine_writes_the_same_files(
    model: pc.Model, lake: Path, tmp_path: Path, pool: Executor
) -> None:
    engines: dict[str, dict[str, Any]] = {
        "threads": {},
        "one": {"workers": 1},
        "processes": {"engine": pool},
        "reversed": {"engine": ReversedEngine()},
    }
    progress: list[tuple[int, int | None]] = []
    reports = []
    for name, engine in engines.items():
        progress.clear()
        reports.append(
            pc.score(
                model, lake, tmp_path / name, progress=lambda *rows: progress.append(rows), **engine
            )
        )
        assert {total for _, total in progress} == {ROWS}
        assert progress == sorted(progress)
        assert progress[-1] == (ROWS, ROWS)
    files = [digests(tmp_path / name) for name in engines]
    assert all(each == files[0] for each in files)
    parts = [f"part-{part}.parquet" for part in range(PARTS)]
    assert sorted(files[0]) == ["_SUCCESS", "_summary.parquet", *parts]
    assert {report.rows for report in reports} == {ROWS}
    assert len({report.commit_id for report in reports}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(engines), "nothing is left"


def test_the_rows_are_those_of_one_file(
    model: pc.Model, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = pc.score(model, lake, tmp_path / "parts")
    monkeypatch.setattr(scoring, "PART_ROWS", ROWS)
    one = pc.score(model, lake, tmp_path / "one")
    assert one.commit_id == parts.commit_id
    assert [path.name for path in (tmp_path / "one").glob("part-*.parquet")] == ["part-0.parquet"]
    rows = [pq.read_table(tmp_path / name).to_pylist() for name in ("parts", "one")]
    assert rows[0] == rows[1]
    assert pc.score(model, lake, tmp_path / "parts").counts["unchanged"] == 1, (
        "however many files it has"
    )


def test_a_partition_in_parts_is_committed_once_and_then_skipped(
    model: pc.Model, lake: Path, table_at: TableFactory, pool: Executor
) -> None:
    sink = table_at("scored")
    report = pc.score(model, lake, sink, options=pc.ScoringOptions(columns=["id"]), engine=pool)
    assert (report.rows, report.counts["unchanged"]) == (ROWS, 0)
    assert commits_and_files(sink) == (1, PARTS)
    assert ids_in(sink) == IDS, "in the order of the source"
    again = pc.score(model, lake, sink, options=pc.ScoringOptions(columns=["id"]), engine=pool)
    assert (again.rows, again.counts["unchanged"], again.commit_id) == (ROWS, 1, report.commit_id)
    fewer = pc.score(
        model, lake, sink, options={"columns": ["id"]}, where=[("id", "<", 3000)], engine=pool
    )
    assert (fewer.rows, fewer.counts["unchanged"]) == (ROWS // 2, 0)
    assert ids_in(sink) == IDS[: ROWS // 2]


def test_parts_without_rows_are_not_missing(
    model: pc.Model, lake: Path, table_at: TableFactory, pool: Executor
) -> None:
    few: dict[str, Any] = {
        "options": {"columns": ["id"]},
        "where": [("id", ">=", 1000 * (FILES - 1))],
    }
    assert pc.score(model, lake, table_at("scored"), engine=pool, **few).rows == ROWS_PER_FILE
    assert ids_in(table_at("scored")) == IDS[-ROWS_PER_FILE:]
    assert pc.score(model, lake, table_at("scored"), **few).counts["unchanged"] == 1
    assert (
        pc.score(
            model,
            lake,
            table_at("scored"),
            options={"columns": ["id"], "overwrite": "append"},
            where=few["where"],
        ).counts["unchanged"]
        == 1
    )
    pc.score(model, lake, table_at("scored"), options=pc.ScoringOptions(columns=["id"]))
    assert pc.score(model, lake, table_at("scored"), engine=pool, **few).counts["unchanged"] == 0
    assert pc.score(model, lake, table_at("scored"), **few).counts["unchanged"] == 1
    none: dict[str, Any] = {"options": {"columns": ["id"]}, "where": [("id", "<", 0)]}
    with pytest.raises(TableError, match="has no rows to score"):
        pc.score(model, lake, table_at("none"), engine=pool, **none)


def test_parts_are_appended_once(
    model: pc.Model, lake: Path, table_at: TableFactory, pool: Executor
) -> None:
    sink = table_at("scored")
    append: dict[str, Any] = {"options": {"columns": ["id"], "overwrite": "append"}}
    first_file = pc.score(model, lake, sink, where=[("id", "<", 1000)], **append)
    for engine in (pool, None):
        added = pc.score(model, lake, sink, engine=engine, **append)
        assert (added.rows, added.counts["unchanged"]) == (ROWS, int(engine is None))
    assert sorted(ids_in(sink)) == sorted([*IDS, *IDS[:ROWS_PER_FILE]])
    assert pc.score(model, lake, sink, where=[("id", "<", 1000)], **append).counts["unchanged"] == 1
    assert first_file.rows == ROWS_PER_FILE


def test_a_partition_that_lost_a_part_is_scored_again(
    model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    sink = tmp_path / "scored"
    pc.score(model, lake, sink)
    before = digests(sink)
    (sink / "part-1.parquet").unlink()
    assert pc.score(model, lake, sink).counts["unchanged"] == 0
    assert digests(sink) == before


def test_a_part_that_always_fails_is_named_and_nothing_is_committed(
    model: pc.Model, lake: Path, table_at: TableFactory, tmp_path: Path, pool: Executor
) -> None:
    sink = table_at("scored")
    pc.score(model, lake, sink, options=pc.ScoringOptions(columns=["id"]))
    before = commits_and_files(sink)
    source = FaultyTable(lake, FILES - 1, workloads.raise_error, tmp_path / "flag")
    with pytest.raises(TableError, match="scored, part 3 of 3: failed 3 times"):
        pc.score(
            model, source, sink, options={"columns": ["id"]}, where=[("id", ">=", 0)], engine=pool
        )
    assert commits_and_files(sink) == before
    assert pc.clean_table(sink, older_than=timedelta(0)) == [], "nothing is left"


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 20))
def test_a_plan_is_split_between_units_into_balanced_parts(sizes: list[int], count: int) -> None:
    sizes = [*sizes, 1]  # a plan without rows is not split
    plan = Plan(pa.schema([]), range(len(sizes)), sum(sizes), "state", 7, unit_rows=sizes)
    parts = plan.split(count)
    assert [number for part in parts for number in part.units] == [*range(len(sizes))]
    assert 1 <= len(parts) <= count
    for part in parts:
        assert part.rows == sum(part.unit_rows) == sum(sizes[number] for number in part.units)
        assert part.rows <= sum(sizes) / count + max(sizes)
        assert (part.snapshot, part.version) == ("state", 7)
