"""The files of the statistics cache: damaged, written by many at once, listed and removed."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from daily_lake import (
    DAYS,
    SPEC,
    entries,
    fit_and_count,
    packs,
    rows_of,
    warnings_in,
    write_day,
)
from python_processes import start_python

import probclass_core as pc
from probclass_core.store.statistics_cache import StatisticsCache

FIT_WITH_CACHE = """
import sys
from daily_lake import SPEC
import probclass_core as pc
sys.stdout.write(pc.fit(sys.argv[1], SPEC, cache=sys.argv[2]).id)
"""


def flip(data: bytes, position: int) -> bytes:
    damaged = bytearray(data)
    damaged[position] ^= 1
    return bytes(damaged)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:-100],
    "emptied": lambda data: b"",
    "one entry": lambda data: flip(data, data.rindex(b"wind")),  # a feature
    "a column": lambda data: flip(data, data.index(b"+00:00")),  # a time of storage
    "other bytes": lambda data: b"\xff" * 100,
    "text": lambda data: b"{}",
}
"""Ways to damage a pack."""


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_statistics_are_reported_and_computed_again(
    lake: Path, store: pc.ModelStore, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    fit_and_count(lake, store)
    (pack,) = packs(store)
    pack.write_bytes(DAMAGE[kind](pack.read_bytes()))
    (entry,) = [entry for entry in entries(store) if entry.stale]
    assert entry.stale == "damaged"
    assert StatisticsCache(store).collect(dry_run=True) == [entry]
    assert fit_and_count(lake, store) == (480, 0)
    (line,) = warnings_in(caplog)
    assert line.startswith(f"Statistics are computed again: {pack}")
    assert fit_and_count(lake, store) == (0, 8)
    assert [entry.stale for entry in entries(store)] == [None] * 8
    assert warnings_in(caplog) == [line]


def test_statistics_of_another_model_are_not_used(
    lake: Path, store: pc.ModelStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The units of two models of the same columns have the same digests."""
    other = dataclasses.replace(
        SPEC, blocks=[pc.Block("gaussian_shared", ["x", "y"]), SPEC.blocks[1]]
    )
    fit_and_count(lake, store)
    (ours,) = packs(store)
    fit_and_count(lake, store, other)
    (theirs,) = set(packs(store)) - {ours}
    theirs.unlink()
    theirs = theirs.with_name(ours.name)
    theirs.write_bytes(ours.read_bytes())
    assert {entry.stale for entry in entries(store)} == {None, "in the folder of another summary"}
    assert fit_and_count(lake, store, other) == (480, 0)
    (line,) = warnings_in(caplog)
    assert line == f"Statistics are computed again: {theirs} is of another summary."
    assert fit_and_count(lake, store, other) == fit_and_count(lake, store) == (0, 8)


def test_small_packs_are_joined(tmp_path: Path, store: pc.ModelStore) -> None:
    lake, days = tmp_path / "month", 24
    for day in range(days):
        write_day(lake, f"{day:03d}", rows_of(day))
        pc.summarize(lake, SPEC, where=[("day", ">=", max(0, day - 20))], cache=store)
    assert len(packs(store)) == 8, "17 packs were joined"
    assert StatisticsCache(store).collect(dry_run=True) == []
    assert len(packs(store)) == 8
    before = entries(store)
    assert len(before) == days
    assert StatisticsCache(store).collect() == []
    assert len(packs(store)) == 1
    assert entries(store) == before
    assert fit_and_count(lake, store) == (0, days)


def test_only_what_is_old_is_removed_of_a_pack(lake: Path, store: pc.ModelStore) -> None:
    pc.summarize(lake, SPEC, partition={"day": DAYS[0]}, cache=store)
    pc.summarize(lake, SPEC, partition={"day": DAYS[1]}, cache=store)
    StatisticsCache(store).collect()
    (first, second) = sorted(entries(store), key=lambda entry: entry.stored)
    age = datetime.now(UTC) - datetime.fromisoformat(first.stored)
    assert StatisticsCache(store).collect(age) == [first]
    assert entries(store) == [second]


def test_a_store_that_cannot_be_written_is_reported_once(
    lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert fit_and_count(lake, tmp_path / "file" / "models") == (480, 0)
    (line,) = warnings_in(caplog)
    assert line.startswith("Statistics are not cached: cannot ")


def test_concurrent_fits_make_the_same_model(lake: Path, store: pc.ModelStore) -> None:
    script = ("-c", FIT_WITH_CACHE, lake, store.uri)
    runs = [start_python(*script, stdout=subprocess.PIPE) for _ in range(2)]
    ids = {run.communicate()[0] for run in runs}
    assert ids == {pc.fit(lake, SPEC).id}
    assert fit_and_count(lake, store) == (0, 8)
    assert not list(Path(store.uri).rglob(".staging-*"))


def test_entries_are_described_and_removed_by_age(lake: Path, store: pc.ModelStore) -> None:
    fit_and_count(lake, store)
    cache = StatisticsCache(store)
    for entry in cache.entries():
        assert (entry.label, entry.rows, entry.stale) == ("air", 60, None)
        assert entry.estimators == ("gaussian_full", "categorical")
        assert entry.bytes > 1_000
    assert cache.collect() == cache.collect(timedelta(days=1)) == []
    assert len(cache.collect(timedelta(0), dry_run=True)) == len(cache.entries()) == 8
    assert len(cache.collect(timedelta(0))) == 8
    assert cache.entries() == []
    shutil.rmtree(store.uri)
    assert cache.entries() == cache.collect() == []
