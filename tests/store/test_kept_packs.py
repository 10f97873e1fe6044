"""Statistics as they lie in a store: damaged, written by many at once, listed, removed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from cached_lakes import (
    DAYS,
    SPEC,
    entries,
    fitted,
    packs,
    rows_of,
    warned,
    write_day,
)

import probclass_core as pc

FIT = Path(__file__).parent / "cached_fit.py"


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
