"""The files of the statistics cache: damaged, written by many at once, listed and removed."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from daily_lake import DAYS, SPEC, fit_and_count, packs, rows_of, units, warnings_in
from lakes import write_rows
from python_processes import start_python

import probclass_core as pc
from probclass_core.store.statistics_cache import StatisticsCache, decode_pack, encode_pack

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
    "a column": lambda data: flip(data, data.index(b"footers")),  # the name of a column
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
    assert fit_and_count(lake, store) == (480, 0)
    (line,) = warnings_in(caplog)
    assert line.startswith(f"Statistics are computed again: {pack}")
    assert fit_and_count(lake, store) == (0, 8)
    assert len(units(store)) == 8
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
    assert fit_and_count(lake, store, other) == (480, 0)
    (line,) = warnings_in(caplog)
    assert line == f"Statistics are computed again: {theirs} is of another summary."
    assert fit_and_count(lake, store, other) == fit_and_count(lake, store) == (0, 8)


def test_small_packs_are_joined(tmp_path: Path, store: pc.ModelStore) -> None:
    lake, days = tmp_path / "month", 24
    for day in range(days):
        write_rows(lake / f"day={day:03d}", rows_of(day))
        pc.summarize(lake, SPEC, where=[("day", ">=", max(0, day - 20))], cache=store)
    assert len(packs(store)) == 8, "17 packs were joined"
    assert len(units(store)) == days
    assert fit_and_count(lake, store) == (0, days)


def test_the_bytes_of_a_pack_do_not_depend_on_the_order_of_its_units(
    lake: Path, store: pc.ModelStore
) -> None:
    pc.summarize(lake, SPEC, cache=store)
    (pack,) = packs(store)
    summary, entries = decode_pack(pack.read_bytes(), pack.stem, "the pack")
    assert encode_pack(summary, dict(reversed(entries.items()))) == pack.read_bytes()


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


def test_files_are_removed_by_their_age(lake: Path, store: pc.ModelStore) -> None:
    for day in DAYS[:2]:
        pc.summarize(lake, SPEC, partition={"day": day}, cache=store)
    old, new = packs(store)
    week_ago = time.time() - timedelta(days=7).total_seconds()
    os.utime(old, (week_ago, week_ago))
    cache = StatisticsCache(store)
    assert cache.collect() == cache.collect(timedelta(days=8)) == []
    (removed,) = cache.collect(timedelta(days=6), dry_run=True)
    assert (Path(removed.path), removed.bytes) == (old, old.stat().st_size)
    assert [one.path for one in cache.collect(timedelta(days=6))] == [removed.path]
    assert packs(store) == [new]
    assert len(cache.collect(timedelta(0))) == 1
    shutil.rmtree(store.uri)
    assert cache.collect() == []
