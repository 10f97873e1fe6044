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
from probclass_core.plugins import registry
from probclass_core.tables import open_table
from probclass_core.tables.table import Fragment, Plan

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

    def __getattr__(self, name: str) -> Any:
        return getattr(open_table(self.path), name)

    def plan(self, *columns: Any, **options: Any) -> Plan:
        plan = open_table(self.path).plan(*columns, **options)
        fragments = [CountedFragment(self, fragment) for fragment in plan.fragments]
        return dataclasses.replace(plan, fragments=fragments)


@dataclasses.dataclass
class CountedFragment:
    """A fragment that tells its table."""

    table: Counted
    fragment: Fragment

    @property
    def digest(self) -> str | None:
        return self.fragment.digest

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


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "swapped", "other", "text"])
def test_a_damaged_entry_is_told_of_and_computed_anew(
    lake: Path, store: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    fitted(lake, store)
    first, second = sorted(store.rglob("*.packed"))[:2]
    data = bytearray(first.read_bytes())
    if damage == "flipped":
        data[-100] ^= 1
    first.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "emptied": b"",
            "flipped": data,
            "swapped": second.read_bytes(),
            "other": b"\xff" * 100,
            "text": b"\x02\0\0\0\0\0\0\0{}",
        }[damage]
    )
    (entry,) = [each for each in entries(store) if each.stale]
    assert entry.stale == ("not what its name says" if damage == "swapped" else "damaged")
    assert fitted(lake, store) == (60, 7)
    (line,) = warned(caplog)
    assert line.startswith(f"Statistics are computed anew: {first}")
    assert fitted(lake, store) == (0, 8)


def test_every_cut_and_flip_of_an_entry_is_noticed(lake: Path, store: Path) -> None:
    pc.fit(lake, SPEC, partition={"day": DAYS[0]}, cache=store)
    (path,) = store.rglob("*.packed")
    whole = path.read_bytes()
    true = pc.summarize(lake, SPEC, partition={"day": DAYS[0]})
    for place in range(0, len(whole), 37):
        flipped = bytearray(whole)
        flipped[place] ^= 0x20
        for data in (whole[:place], bytes(flipped)):
            path.write_bytes(data)
            found = pc.summarize(lake, SPEC, partition={"day": DAYS[0]}, cache=store)
            assert found.rows == true.rows
            assert found.classes.equals(true.classes)
            assert all(table.equals(true.blocks[name]) for name, table in found.blocks.items())


def test_a_store_that_refuses_is_told_of_once(
    lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert fitted(lake, tmp_path / "file" / "models") == (480, 0)
    (line,) = warned(caplog)
    assert line.startswith("Statistics are neither kept nor reused: cannot ")


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
