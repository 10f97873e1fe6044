"""Statistics kept by fragment: what is read, what is reused, and that the model is the same."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.footer import Footer, KnownFooters
from probclass_core.plugins import registry
from probclass_core.tables import open_table
from probclass_core.tables.row_groups import RowGroups
from probclass_core.tables.table import Plan, knowing

FIT = Path(__file__).parent / "cached_fit.py"
SPEC = pc.ModelSpec(
    "air",
    [pc.Block("gaussian_full", ["x", "y"]), pc.Block("categorical", ["wind"])],
    weight="w",
)
DAYS = [f"2014-01-{day:02d}" for day in range(1, 9)]


def rows_of(seed: int, rows: int = 60) -> pa.Table:
    noise = np.random.default_rng(seed)
    good = noise.random(rows) < 0.5
    return pa.table(
        {
            "x": noise.normal(np.where(good, 1.0, -1.0), 1e3),
            "y": noise.normal(size=rows),
            "wind": pa.array(noise.choice(["N", "S"], rows), mask=noise.random(rows) < 0.1),
            "w": noise.random(rows),
            "air": np.where(good, "good", "bad"),
        }
    )


def write_day(lake: Path, day: str, rows: pa.Table) -> None:
    folder = lake / f"day={day}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "rows.parquet")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """One file a day."""
    for seed, day in enumerate(DAYS):
        write_day(tmp_path / "lake", day, rows_of(seed))
    return tmp_path / "lake"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "models"


@dataclasses.dataclass
class Counted:
    """A table that counts the rows that are read of it."""

    path: Path
    rows: int = 0
    footers: KnownFooters = lambda file: None

    def __getattr__(self, name: str) -> Any:
        return getattr(open_table(self.path), name)

    def knowing(self, footers: KnownFooters) -> Counted:
        self.footers = footers
        return self

    def plan(self, *columns: Any, **options: Any) -> Plan:
        plan = knowing(open_table(self.path), self.footers).plan(*columns, **options)
        fragments = [CountedFragment(self, fragment) for fragment in plan.fragments]
        return dataclasses.replace(plan, fragments=fragments)


@dataclasses.dataclass
class CountedFragment:
    """A fragment that tells its table."""

    table: Counted
    fragment: RowGroups

    @property
    def digest(self) -> str | None:
        return self.fragment.digest

    @property
    def footer(self) -> Footer | None:
        return self.fragment.footer

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.fragment.read():
            self.table.rows += batch.num_rows
            yield batch


def fitted(lake: Path, store: object, spec: pc.ModelSpec = SPEC, **rows: Any) -> tuple[int, int]:
    """Fit with the cache; equal to a fit without it. Rows read, and fragments reused."""
    source = Counted(lake)
    model = pc.fit(source, spec, cache=store, workers=2, **rows)
    assert model.id == pc.fit(lake, spec, **rows).id
    return source.rows, model.training["cache"]["reused"]


def between(first: str, last: str) -> list[tuple[str, str, str]]:
    return [("day", ">=", first), ("day", "<=", last)]


def entries(store: object) -> list[Any]:
    return pc.StatisticsCache(store).entries()


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_what_was_summarised_once_is_not_read_again(lake: Path, store: Path) -> None:
    assert fitted(lake, store) == (480, 0)
    assert fitted(lake, store) == (0, 8)
    assert fitted(lake, pc.ModelStore(store)) == (0, 8)
    statistics = pc.summarize(source := Counted(lake), SPEC, cache=str(store))
    assert (statistics.rows, source.rows) == (480, 0)
    assert len(entries(store)) == 8
    assert pc.ModelStore(store).models() == [], "kept statistics are no model"


def test_a_sliding_window_reads_the_new_day_alone(lake: Path, store: Path) -> None:
    assert fitted(lake, store, where=between(DAYS[0], DAYS[5])) == (360, 0)
    assert fitted(lake, store, where=between(DAYS[1], DAYS[6])) == (60, 5)
    assert fitted(lake, store, where=[("day", "in", DAYS[2:])]) == (60, 5)
    assert fitted(lake, store, partition={"day": DAYS[7]}) == (0, 1)
    assert fitted(lake, store, where=[("day", "!=", DAYS[3]), ("day", "not in", DAYS[:2])]) == (
        0,
        5,
    )


def test_erasing_rows_reads_their_file_alone(lake: Path, store: Path) -> None:
    fitted(lake, store)
    write_day(lake, DAYS[4], rows_of(4).slice(1))
    assert fitted(lake, store) == (59, 7)


def test_a_file_of_the_same_size_written_later_is_another(lake: Path, store: Path) -> None:
    fitted(lake, store)
    path = lake / f"day={DAYS[4]}" / "rows.parquet"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert fitted(lake, store) == (60, 7)


def test_conditions_on_rows_are_part_of_what_is_kept(lake: Path, store: Path) -> None:
    fitted(lake, store)
    north = [("wind", "==", "N")]
    read, reused = fitted(lake, store, where=north)
    assert (0 < read < 480, reused) == (True, 0)
    assert fitted(lake, store, where=north) == (0, 8)
    assert fitted(lake, store, where=[*north, *between(DAYS[2], DAYS[4])]) == (0, 3)
    assert fitted(lake, store, where=[("wind", "==", "S")])[1] == 0
    assert fitted(lake, store, where=[("wind", "in", ["N", "S"])])[1] == 0
    assert fitted(lake, store, where=[("x", ">", 0)])[1] == 0
    assert fitted(lake, store, where=[("x", ">", 0.5)])[1] == 0


def test_what_has_no_text_of_its_own_is_read_each_time(lake: Path, store: Path) -> None:
    for where in (pa.compute.field("day") >= DAYS[6], [("wind", "in", pa.array(["N"]))]):
        first, second = (fitted(lake, store, where=where) for _ in range(2))
        assert first == second
        assert second[1] == 0
    in_memory = pc.fit(rows_of(0), SPEC, cache=store)
    assert in_memory.training["cache"] == {"fragments": 1, "reused": 0}
    unnamed = ds.dataset(lake, format="parquet")
    for _ in range(2):
        assert pc.fit(unnamed, SPEC, cache=store).training["cache"]["reused"] == 0
    assert entries(store) == []


def test_days_without_a_name_meet_conditions_row_by_row(lake: Path, store: Path) -> None:
    write_day(lake, "__HIVE_DEFAULT_PARTITION__", rows_of(99))
    assert fitted(lake, store) == (540, 0)
    assert fitted(lake, store, where=[("day", "!=", DAYS[0])])[1] == 7
    assert fitted(lake, store, where=[("day", "!=", None)])[1] == 8
    assert fitted(lake, store, where=[("day", "==", None)]) == (60, 0)


def test_the_prior_is_not_summarised_but_everything_else_is(lake: Path, store: Path) -> None:
    fitted(lake, store)
    assert fitted(lake, store, dataclasses.replace(SPEC, prior="uniform")) == (0, 8)
    full, winds = SPEC.blocks
    others = [
        dataclasses.replace(SPEC, weight=None),
        dataclasses.replace(SPEC, label="wind", blocks=[full]),
        dataclasses.replace(SPEC, blocks=[full]),
        dataclasses.replace(SPEC, blocks=[pc.Block("gaussian_full", ["y", "x"]), winds]),
        dataclasses.replace(SPEC, blocks=[pc.Block("gaussian_shared", ["x", "y"]), winds]),
        dataclasses.replace(SPEC, blocks=[pc.Block("gaussian_full", ["x", "y"], ddof=1), winds]),
    ]
    for other in others:
        assert fitted(lake, store, other) == (480, 0)
    for other in others:
        assert fitted(lake, store, other) == (0, 8)


def test_another_release_reads_anew(
    lake: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(lake, store)
    release = pc.__version__
    with monkeypatch.context() as patch:
        patch.setattr(pc, "__version__", "99.0")
        assert fitted(lake, store) == (480, 0)
        assert {entry.stale for entry in entries(store)} == {None, f"of release {release}"}
    plugin = dataclasses.replace(registry().estimators["categorical"], statistics_version=2)
    monkeypatch.setitem(registry().estimators, "categorical", plugin)
    assert fitted(lake, store) == (480, 0)
    stale = {entry.stale for entry in entries(store)}
    assert stale == {None, "of release 99.0", "of another version of categorical"}
    assert len(pc.StatisticsCache(store).collect()) == 16
    assert fitted(lake, store) == (0, 8)


def test_files_read_as_other_types_are_summarised_as_such(tmp_path: Path, store: Path) -> None:
    spec = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", ["x"]), pc.Block("categorical", "u")])
    lake = tmp_path / "mixed"
    label = ["a", "b", "a", "b"]
    for day, x in (("1", [1, 2, 3, 4]), ("2", [5, 6, 8, 7])):
        write_day(lake, day, pa.table({"x": x, "u": ["p", "q", "q", "p"], "air": label}))
    assert fitted(lake, store, spec) == (8, 0)
    write_day(lake, "3", pa.table({"x": [0.5, 1.5, 2.5, 4.5], "u": ["p"] * 4, "air": label}))
    assert fitted(lake, store, spec) == (12, 0), "whole numbers are read as floats beside floats"
    assert fitted(lake, store, spec) == (0, 3)
    assert fitted(lake, store, spec, where=[("day", "<", 3)])[1] in (0, 2)
    assert fitted(lake, store, spec, where=[("day", "<", 3)]) == (0, 2)


def test_one_relative_path_is_two_tables_in_two_folders(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        folder = tmp_path / str(number)
        write_day(folder / "lake", "1", rows_of(0).set_column(0, "x", [np.arange(60.0) - number]))
        os.utime(folder / "lake" / "day=1" / "rows.parquet", ns=(0, 0))
        monkeypatch.chdir(folder)
        assert fitted(Path("lake"), store) == (60, 0)
    assert fitted(Path("../0/lake"), store) == (0, 1)


def packs(store: Path) -> list[Path]:
    """The files that statistics are kept in, the largest first."""
    return sorted(store.rglob("*.pack"), key=lambda path: -path.stat().st_size)


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "index", "other", "text"])
def test_what_is_damaged_is_told_of_and_computed_anew(
    lake: Path, store: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    fitted(lake, store)
    (pack,) = packs(store)
    data = bytearray(pack.read_bytes())
    if damage in ("flipped", "index"):
        data[-100 if damage == "flipped" else 100] ^= 1
    pack.write_bytes(
        {
            "cut": data[:-100],
            "emptied": b"",
            "flipped": data,
            "index": data,
            "other": b"\xff" * 100,
            "text": b"\x02\0\0\0\0\0\0\0{}",
        }[damage]
    )
    (entry,) = [each for each in entries(store) if each.stale]
    assert entry.stale == "damaged"
    assert fitted(lake, store) == ((60, 7) if damage in ("cut", "flipped") else (480, 0))
    (line,) = warned(caplog)
    assert line.startswith(f"Statistics are computed anew: {pack}")
    assert fitted(lake, store) == (0, 8)
    assert [each.stale for each in entries(store)] == [None] * 8
    assert warned(caplog) == [line]


def test_statistics_of_another_model_are_not_taken_for_its_own(
    lake: Path, store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two models of the same columns: fragments have the same digests."""
    other = dataclasses.replace(
        SPEC, blocks=[pc.Block("gaussian_shared", ["x", "y"]), SPEC.blocks[1]]
    )
    fitted(lake, store)
    (ours,) = packs(store)
    fitted(lake, store, other)
    (theirs,) = set(packs(store)) - {ours}
    theirs.write_bytes(ours.read_bytes())
    assert {entry.stale for entry in entries(store)} == {None, "not what its name says"}
    assert fitted(lake, store, other) == (480, 0)
    (line,) = warned(caplog)
    assert line == f"Statistics are computed anew: {theirs} is of another summary."
    assert fitted(lake, store, other) == fitted(lake, store) == (0, 8)


def test_every_cut_and_flip_is_noticed(lake: Path, store: Path) -> None:
    pc.fit(lake, SPEC, partition={"day": DAYS[0]}, cache=store)
    (path,) = packs(store)
    whole = path.read_bytes()
    true = pc.summarize(lake, SPEC, partition={"day": DAYS[0]})
    for place in range(0, len(whole), 89):
        flipped = bytearray(whole)
        flipped[place] ^= 0x20
        for data in (whole[:place], bytes(flipped)):
            path.write_bytes(data)
            found = pc.summarize(lake, SPEC, partition={"day": DAYS[0]}, cache=store)
            assert found.rows == true.rows
            assert found.classes.equals(true.classes)
            assert all(table.equals(true.blocks[name]) for name, table in found.blocks.items())


def test_kept_files_are_not_opened(lake: Path, store: Path) -> None:
    """Not even their footers are read: what opens the table looks at the first file and the last.

    Elsewhere nothing is known of them, and the damage is told of.
    """
    whole = pc.fit(lake, SPEC, where=between(DAYS[0], DAYS[6]), cache=store)
    for day in DAYS[1:7]:
        path = lake / f"day={day}" / "rows.parquet"
        before = path.stat()
        path.write_bytes(bytes(before.st_size))
        os.utime(path, ns=(0, before.st_mtime_ns))
    source = Counted(lake)
    again = pc.fit(source, SPEC, cache=store)
    assert again.training["cache"] == {"fragments": 8, "reused": 7}
    assert source.rows == 60
    assert pc.fit(lake, SPEC, where=between(DAYS[0], DAYS[6]), cache=store).id == whole.id
    assert pc.plan_shards(lake, SPEC, cache=store).kept == 8
    with pytest.raises(pc.TableError, match=DAYS[1]):
        pc.fit(lake, SPEC)


def test_a_footer_that_is_known_is_that_of_one_state_of_a_file(lake: Path, store: Path) -> None:
    fitted(lake, store)
    pq.write_table(rows_of(9, 500), lake / f"day={DAYS[4]}" / "rows.parquet", row_group_size=90)
    assert fitted(lake, store) == (500, 7)
    narrow = rows_of(9, 50).set_column(0, "x", pa.array(range(50)))
    write_day(lake, DAYS[4], narrow)
    assert fitted(lake, store) == (50, 7)
    shutil.copytree(lake, lake.parent / "copy")
    assert fitted(lake.parent / "copy", store) == (470, 0), "another place is another table"


def test_a_file_that_is_replaced_after_the_plan_is_told_of(lake: Path) -> None:
    plan = open_table(lake).plan()
    for number, rows in ((0, rows_of(0, 50)), (1, rows_of(1, 70))):
        write_day(lake, DAYS[number], rows)
        with pytest.raises(pc.TableError, match=DAYS[number]):
            list(plan.fragments[number].read())
    assert sum(batch.num_rows for batch in plan.fragments[2].read()) == 60


def test_a_file_that_is_not_as_its_known_footer_says_is_told_of(lake: Path) -> None:
    fragments = knowing(open_table(lake), lambda file: None).plan().fragments
    footers = {fragment.footer.file: fragment.footer for fragment in fragments}
    plan = knowing(open_table(lake), footers.get).plan()
    assert [str(part) for part in plan.fragments] == [str(part) for part in fragments]
    assert [part.digest for part in plan.fragments] == [part.digest for part in fragments]
    write_day(lake, DAYS[0], rows_of(0, 70))
    with pytest.raises(pc.TableError, match=rf"{DAYS[0]}.* has changed while it was being read"):
        list(plan.fragments[0].read())
    assert sum(batch.num_rows for batch in plan.fragments[1].read()) == 60


def test_many_days_make_few_packs(tmp_path: Path, store: Path) -> None:
    lake, days = tmp_path / "month", 24
    for day in range(days):
        write_day(lake, f"{day:03d}", rows_of(day))
        pc.summarize(lake, SPEC, where=[("day", ">=", max(0, day - 20))], cache=store)
    assert len(packs(store)) <= 1 + np.log2(days)
    assert len(entries(store)) == days
    assert fitted(lake, store) == (0, days)


def test_a_store_that_refuses_is_told_of_once(
    lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert fitted(lake, tmp_path / "file" / "models") == (480, 0)
    (line,) = warned(caplog)
    assert line.startswith("Statistics are not kept: cannot ")


def test_points_are_not_kept(lake: Path, store: Path) -> None:
    spec = pc.ModelSpec("air", [pc.Block("knn_density", ["x"]), pc.Block("categorical", ["wind"])])
    for _ in range(2):
        assert fitted(lake, store, spec) == (480, 0)
    assert entries(store) == []


def test_true_is_the_store_of_the_environment(
    lake: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBCLASS_STORE", str(store))
    assert fitted(lake, True) == (480, 0)
    assert fitted(lake, store) == (0, 8)
    monkeypatch.delenv("PROBCLASS_STORE")
    with pytest.raises(pc.SpecError, match="PROBCLASS_STORE"):
        pc.fit(lake, SPEC, cache=True)
    assert "cache" not in pc.fit(lake, SPEC, cache=False).training


def test_statistics_are_kept_wherever_fsspec_reaches(lake: Path) -> None:
    store = "memory://kept-statistics"
    assert fitted(lake, store) == (480, 0)
    assert fitted(lake, store) == (0, 8)
    assert len(entries(store)) == len(pc.StatisticsCache(store).collect(timedelta(0))) == 8
    assert entries(store) == []
    assert fitted(lake, store) == (480, 0)


def test_files_of_a_delta_table_are_read_once(tmp_path: Path, store: Path) -> None:
    import deltalake

    lake = tmp_path / "delta"
    for seed in range(3):
        deltalake.write_deltalake(str(lake), rows_of(seed), mode="append")
        assert fitted(lake, store) == (60, seed)


def test_processes_that_race_make_one_model(lake: Path, store: Path) -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, FIT, lake, store],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    ids = {run.communicate()[0] for run in runs}
    assert ids == {pc.fit(lake, SPEC).id}
    assert fitted(lake, store) == (0, 8)
    assert not list(store.rglob(".staging-*"))


def test_entries_tell_what_they_are_and_are_removed_by_age(lake: Path, store: Path) -> None:
    fitted(lake, store)
    cache = pc.StatisticsCache(store)
    for entry in cache.entries():
        assert (entry.label, entry.rows, entry.stale) == ("air", 60, None)
        assert entry.estimators == ("gaussian_full", "categorical")
        assert entry.bytes > 1_000
    assert cache.collect() == cache.collect(timedelta(days=1)) == []
    assert len(cache.collect(timedelta(0), dry_run=True)) == len(cache.entries()) == 8
    assert len(cache.collect(timedelta(0))) == 8
    assert cache.entries() == []
    shutil.rmtree(store)
    assert cache.entries() == cache.collect() == []


def test_one_damaged_entry_is_removed_and_the_others_stay(lake: Path, store: Path) -> None:
    fitted(lake, store)
    (pack,) = packs(store)
    data = bytearray(pack.read_bytes())
    data[-100] ^= 1
    pack.write_bytes(data)
    cache = pc.StatisticsCache(store)
    assert [entry.stale for entry in cache.collect(dry_run=True)] == ["damaged"]
    assert pack.exists()
    assert len(cache.collect()) == 1
    assert cache.collect() == []
    assert len(cache.entries()) == 7
    assert fitted(lake, store) == (60, 7)


def test_files_of_an_earlier_layout_are_removed(lake: Path, store: Path) -> None:
    fitted(lake, store)
    earlier = store / "_statistics" / ("0" * 64) / "ab" / f"ab{'0' * 62}.packed"
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"what it holds is of no use")
    (stale,) = [entry for entry in entries(store) if entry.stale]
    assert (stale.fragment, stale.bytes) == (earlier.stem, 26)
    assert stale.stale == "of an earlier layout"
    assert pc.StatisticsCache(store).collect() == [stale]
    assert not earlier.exists()
    assert fitted(lake, store) == (0, 8)
