"""A large partition is several files, each scored by a worker, and committed at once."""

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
import tasks
from backwards import Backwards
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from tasks import SPEC, CursedTable, digests, rows_of

import probclass_core as pc
from probclass_core.io.table import Plan
from probclass_core.scoring import partition as scoring

FILES, EACH = 6, 60
ROWS = FILES * EACH
PARTS = 3


@pytest.fixture(autouse=True, scope="module")
def large() -> Iterator[None]:
    """Two files of the lake are as many rows as one file is to have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "PART_ROWS", ROWS // PARTS)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One large table without partitions."""
    root = tmp_path_factory.mktemp("large") / "lake"
    root.mkdir()
    for number in range(FILES):
        pq.write_table(rows_of(number, EACH), root / f"{number}.parquet")
    return root


@pytest.fixture(scope="module")
def model(whole: Path) -> pc.Model:
    return pc.fit(whole, SPEC)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


Place = Callable[[str], pc.TableRef]


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where a table of that name goes, in each format."""
    if request.param != "iceberg":
        return lambda name: pc.TableRef(str(tmp_path / name), format=request.param)
    home = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}
    return lambda name: pc.TableRef(f"iceberg://home/a.{name}", options={"type": "sql", **home})


def commits_and_files(ref: pc.TableRef) -> tuple[int, int]:
    """How often something was committed to a table, and the files that it has now."""
    if ref.format == "delta":
        table = DeltaTable(ref.uri)
        return table.version() + 1, len(table.file_uris())
    if ref.uri.startswith("iceberg"):
        loaded = load_catalog("home", **ref.options).load_table(
            ref.uri.removeprefix("iceberg://home/")
        )
        return len(list(loaded.snapshots())), len(list(loaded.scan().plan_files()))
    return 1, len(list(Path(ref.uri).glob("*.parquet")))


def ids(place: Any) -> list[int]:
    """As they stand in the table."""
    plan = pc.open_table(place).plan(["id"])
    return pa.Table.from_batches(plan.batches(), plan.schema)["id"].to_pylist()


IDS = [1000 * number + row for number in range(FILES) for row in range(EACH)]


def test_the_files_are_the_same_whoever_writes_them(
    model: pc.Model, whole: Path, tmp_path: Path, pool: Executor
) -> None:
    engines: dict[str, dict[str, Any]] = {
        "threads": {},
        "one": {"workers": 1},
        "processes": {"engine": pool},
        "backwards": {"engine": Backwards()},
    }
    reports = []
    for name, engine in engines.items():
        told: list[tuple[int, int | None]] = []

        def tell(done: int, total: int | None, told: list[Any] = told) -> None:
            told.append((done, total))

        reports.append(pc.score(model, whole, tmp_path / name, progress=tell, **engine))
        assert {total for _, total in told} == {ROWS}
        assert [done for done, _ in told] == sorted(done for done, _ in told)
        assert told[-1] == (ROWS, ROWS)
    found = [digests(tmp_path / name) for name in engines]
    assert all(each == found[0] for each in found)
    assert sorted(found[0]) == ["_SUCCESS", *(f"part-{part}.parquet" for part in range(PARTS))]
    assert {report.rows for report in reports} == {ROWS}
    assert len({report.commit_id for report in reports}) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(engines), "nothing is left"


def test_what_is_scored_is_what_one_file_would_have(
    model: pc.Model, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = pc.score(model, whole, tmp_path / "parts")
    monkeypatch.setattr(scoring, "PART_ROWS", ROWS)
    one = pc.score(model, whole, tmp_path / "one")
    assert one.commit_id == parts.commit_id
    assert [path.name for path in (tmp_path / "one").glob("*.parquet")] == ["part-0.parquet"]
    rows = [pq.read_table(tmp_path / name).to_pylist() for name in ("parts", "one")]
    assert rows[0] == rows[1]
    assert pc.score(model, whole, tmp_path / "parts").skipped == 1, "however many files it has"


@pytest.mark.parametrize("engine", [None, "pool"])
def test_a_partition_in_parts_is_committed_once_and_known_again(
    model: pc.Model, whole: Path, place: Place, pool: Executor, engine: str | None
) -> None:
    workers = pool if engine else None
    sink = place("scored")
    report = pc.score(model, whole, sink, columns=["id"], engine=workers)
    assert (report.rows, report.skipped) == (ROWS, 0)
    assert commits_and_files(sink) == (1, PARTS)
    assert ids(sink) == IDS, "in the order of the source"
    again = pc.score(model, whole, sink, columns=["id"], engine=workers)
    assert (again.rows, again.skipped, again.commit_id) == (ROWS, 1, report.commit_id)
    fewer = pc.score(model, whole, sink, columns=["id"], where=[("id", "<", 3000)], engine=workers)
    assert (fewer.rows, fewer.skipped) == (ROWS // 2, 0)
    assert ids(sink) == IDS[: ROWS // 2]


@pytest.mark.parametrize("engine", [None, "pool"])
def test_parts_without_rows_are_no_missing_ones(
    model: pc.Model, whole: Path, place: Place, pool: Executor, engine: str | None
) -> None:
    workers = pool if engine else None
    few: dict[str, Any] = {"columns": ["id"], "where": [("id", ">=", 1000 * (FILES - 1))]}
    assert pc.score(model, whole, place("scored"), engine=workers, **few).rows == EACH
    assert ids(place("scored")) == IDS[-EACH:]
    assert pc.score(model, whole, place("scored"), **few).skipped == 1
    assert pc.score(model, whole, place("scored"), overwrite="append", **few).skipped == 1
    pc.score(model, whole, place("scored"), columns=["id"])
    assert pc.score(model, whole, place("scored"), engine=workers, **few).skipped == 0
    assert pc.score(model, whole, place("scored"), **few).skipped == 1
    none: dict[str, Any] = {"columns": ["id"], "where": [("id", "<", 0)]}
    with pytest.raises(pc.TableError, match="has no rows to score"):
        pc.score(model, whole, place("none"), engine=workers, **none)


def test_rows_in_parts_are_added_once(
    model: pc.Model, whole: Path, place: Place, pool: Executor
) -> None:
    sink = place("scored")
    wide = {"columns": ["id"], "overwrite": "append"}
    first = pc.score(model, whole, sink, where=[("id", "<", 1000)], **wide)
    for engine in (pool, None):
        added = pc.score(model, whole, sink, engine=engine, **wide)
        assert (added.rows, added.skipped) == (ROWS, int(engine is None))
    assert sorted(ids(sink)) == sorted([*IDS, *IDS[:EACH]])
    assert pc.score(model, whole, sink, where=[("id", "<", 1000)], **wide).skipped == 1
    assert first.rows == EACH


def test_a_partition_that_lost_a_part_is_scored_again(
    model: pc.Model, whole: Path, tmp_path: Path
) -> None:
    sink = tmp_path / "scored"
    pc.score(model, whole, sink)
    before = digests(sink)
    (sink / "part-1.parquet").unlink()
    assert pc.score(model, whole, sink).skipped == 0
    assert digests(sink) == before


def test_a_file_stays_one_file(
    model: pc.Model, whole: Path, tmp_path: Path, pool: Executor
) -> None:
    for name, engine in (("here", None), ("there", pool)):
        pc.score(model, whole, tmp_path / f"{name}.parquet", engine=engine)
    here, there = (tmp_path / f"{name}.parquet" for name in ("here", "there"))
    assert here.read_bytes() == there.read_bytes()
    assert ids(here) == IDS


def test_workers_share_one_table(model: pc.Model, whole: Path, tmp_path: Path) -> None:
    source = CursedTable(
        CursedTable(whole, 0, tasks.meet, tmp_path / "met"), 2, tasks.meet, tmp_path / "met"
    )
    report = pc.score(model, source, tmp_path / "scored", engine="processes", workers=2)
    assert report.rows == ROWS
    assert len(list((tmp_path / "met").iterdir())) == 2, "each part waited for the other"


def test_a_part_whose_worker_died_is_written_anew(
    model: pc.Model, whole: Path, tmp_path: Path
) -> None:
    pc.score(model, whole, tmp_path / "scored")
    # The second fragment of a part: half of its file is there when the worker dies.
    source = CursedTable(whole, 3, tasks.die_once, tmp_path / "died")
    pc.score(model, source, tmp_path / "again", engine="processes", workers=2)
    assert (tmp_path / "died").exists()
    assert digests(tmp_path / "again") == digests(tmp_path / "scored")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "died", "scored"]


def test_a_part_that_always_fails_is_named_and_nothing_is_committed(
    model: pc.Model, whole: Path, place: Place, tmp_path: Path, pool: Executor
) -> None:
    sink = place("scored")
    pc.score(model, whole, sink, columns=["id"])
    before = commits_and_files(sink)
    source = CursedTable(whole, FILES - 1, tasks.fail, tmp_path / "flag")
    with pytest.raises(pc.TableError, match="scored, part 3 of 3: failed 3 times"):
        pc.score(model, source, sink, columns=["id"], where=[("id", ">=", 0)], engine=pool)
    assert commits_and_files(sink) == before
    assert pc.clean_table(sink, older_than=timedelta(0)) == [], "nothing is left"


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(1, 20))
def test_a_plan_is_cut_between_fragments_into_like_parts(sizes: list[int], most: int) -> None:
    sizes = [*sizes, 1]  # a plan without rows is not cut
    plan = Plan(pa.schema([]), range(len(sizes)), sum(sizes), "state", 7, fragment_rows=sizes)
    parts = plan.split(most)
    assert [number for part in parts for number in part.fragments] == [*range(len(sizes))]
    assert 1 <= len(parts) <= most
    for part in parts:
        assert (
            part.rows == sum(part.fragment_rows) == sum(sizes[number] for number in part.fragments)
        )
        assert part.rows <= sum(sizes) / most + max(sizes)
        assert (part.snapshot, part.version) == ("state", 7)
