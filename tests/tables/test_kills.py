"""A scoring killed at any instant or step leaves the old partition or the new one, in every format.

If rows are appended, it leaves the old rows, or the old and the new ones.

``PROBCLASS_KILLS`` is the number of scorings of each format to kill at random instants; if it is
set, one more is killed at every step. By default a few of each are killed. ``make faults`` runs the
full number.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fault_report import record
from tested_formats import FORMATS, STATE_AFTER, set_up

import probclass_core as pc

EVERY_STEP = "PROBCLASS_KILLS" in os.environ
KILLS = int(os.environ.get("PROBCLASS_KILLS", "4"))
NEVER = 600.0
WAVE = 25
"""Kills on one table; the next wave has a new table, for every check reads the whole history."""


class Tally:
    """The outcomes of all waves of a test, and their common random numbers."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.counts: Counter[str] = Counter()
        self.rng = random.Random(0)

    def report(self) -> None:
        """Record the counts so far."""
        kills, old, new, left = (self.counts[x] for x in ("killed", "old", "new", "leftovers"))
        happened = f"{old} old, {new} new, none in between; {left} leftovers removed"
        record(f"a scoring killed {self.kind}", self.name, happened, f"{kills} kills")


class Wave:
    """Attempts at scorings into the table of one folder, with checks after each."""

    def __init__(self, folder: Path, tally: Tally, scorer: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.format = FORMATS[tally.name]
        self.scorer = scorer
        self.state = "old"
        self.counts = tally.counts
        self.rng = tally.rng
        self.last_seconds: deque[float] = deque(maxlen=5)

    def attempt(self, lake: str, how: str, when: float) -> dict[str, Any]:
        """Start a scoring and kill it ``after`` some seconds or ``at`` a step."""
        assert self.scorer.stdin is not None
        assert self.scorer.stdout is not None
        print(lake, how, when, file=self.scorer.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.scorer.stdout.readline())
        return answer

    def complete(self, lake: str) -> None:
        """Run a scoring to its end, and check that all readers see its rows."""
        seconds = self.attempt(lake, "after", NEVER)["seconds"]
        assert seconds is not None
        assert self.format.states(self.folder) == {STATE_AFTER[lake]}
        self.state = STATE_AFTER[lake]
        self.last_seconds.append(seconds)

    @property
    def usual_seconds(self) -> float:
        """Seconds that a scoring takes under the present load of the machine."""
        return statistics.median(self.last_seconds)

    def kill_replacement(self, how: str, when: float) -> None:
        """Kill a replacement of ``old`` by ``new``, or the reverse."""
        self.kill("old" if self.state == "new" else "new", how, when)

    def kill(self, lake: str, how: str, when: float) -> None:
        """Kill a scoring, clean the table, complete the scoring, and check the rows after each."""
        state_after = STATE_AFTER[lake]
        answer = self.attempt(lake, how, when)
        last_step = answer["last"]
        killed = answer["seconds"] is None
        states = self.format.states(self.folder)
        allowed = [{self.state}, {state_after}] if killed else [{state_after}]
        assert states in allowed, last_step
        self.counts["killed" if killed else "completed"] += 1
        if killed:
            self.counts["new" if states == {state_after} else "old"] += 1
        if self.rng.random() < 0.5:
            self.clean(last_step)
            assert self.format.states(self.folder) == states, last_step
        self.complete(lake)
        self.clean(last_step)
        assert self.format.states(self.folder) == {state_after}, last_step

    def clean(self, last_step: str) -> None:
        """Clean the table, and check that only the reported leftovers are removed."""
        before = self.contents()
        leftovers = pc.clean_table(self.format.sink(self.folder), older_than=timedelta(0))
        assert self.format.unknown_files(self.folder) == [], last_step
        after = self.contents()
        removed = [path for path in before if path not in after]
        assert before == {**after, **{path: before[path] for path in removed}}, last_step
        reported = tuple(leftover.path for leftover in leftovers)
        assert all(str(path).startswith(reported) for path in removed), last_step
        self.counts["leftovers"] += len(leftovers)

    def contents(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


@contextmanager
def wave_on(folder: Path, tally: Tally) -> Iterator[Wave]:
    """Set up a table, and start the process whose scorings are killed."""
    set_up(folder, tally.name)
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("scorer_process.py"), folder, tally.name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as scorer:
        assert scorer.stdout is not None
        assert scorer.stdout.readline() == "ready\n"
        yield Wave(folder, tally, scorer)
        assert scorer.stdin is not None
        scorer.stdin.close()
    assert scorer.returncode == 0


@pytest.mark.parametrize("name", FORMATS)
def test_killed_at_random_the_partition_is_old_or_new(tmp_path: Path, name: str) -> None:
    tally = Tally(name, "at random")
    counts = tally.counts
    for number in itertools.count():
        if counts["killed"] >= KILLS:
            break
        with wave_on(tmp_path / str(number), tally) as wave:
            for lake in ("new", "old", "new"):
                wave.complete(lake)
            for _ in range(WAVE):
                if counts["killed"] < KILLS:
                    when = tally.rng.uniform(0.0, 1.05 * wave.usual_seconds)
                    wave.kill_replacement("after", when)
        tally.report()
    assert counts["killed"] >= 0.3 * (counts["killed"] + counts["completed"])


@pytest.mark.parametrize("name", FORMATS)
def test_killed_at_a_step_the_partition_is_old_or_new(tmp_path: Path, name: str) -> None:
    tally = Tally(name, "at each step")
    with wave_on(tmp_path / "steps", tally) as wave:
        count = int(wave.attempt("new", "at", 10**9)["last"])
    assert count > 50
    steps = range(0, count, 1 if EVERY_STEP else count // KILLS)
    for start in range(0, len(steps), WAVE):
        with wave_on(tmp_path / str(start), tally) as wave:
            wave.complete("new")
            for step in steps[start : start + WAVE]:
                wave.kill_replacement("at", step)
        tally.report()
    assert tally.counts["old"]
    assert tally.counts["new"] or not EVERY_STEP


@pytest.mark.parametrize("name", FORMATS)
def test_killed_during_an_append_all_rows_are_there_once_or_none(tmp_path: Path, name: str) -> None:
    tally = Tally(name, "while appending")
    with wave_on(tmp_path / "steps", tally) as wave:
        kills = kills_during_an_append(wave)
    for number in itertools.count():
        if not kills:
            break
        with wave_on(tmp_path / str(number), tally) as wave:
            for how, when in [kills.popleft() for _ in range(min(WAVE, len(kills)))]:
                wave.complete("old")
                wave.kill("more", how, when)
        tally.report()
    assert (tally.counts["old"] and tally.counts["new"]) or not EVERY_STEP


def kills_during_an_append(wave: Wave) -> deque[tuple[str, float]]:
    """Return when to kill appends, at steps and at random."""
    wave.complete("more")
    wave.complete("old")
    count = int(wave.attempt("more", "at", 10**9)["last"])
    assert count > 50
    steps = range(count) if EVERY_STEP else [wave.rng.randrange(count)]
    times = [wave.rng.uniform(0.0, 1.05 * wave.usual_seconds) for _ in range(KILLS // 4)]
    return deque([*(("at", step) for step in steps), *(("after", time) for time in times)])
