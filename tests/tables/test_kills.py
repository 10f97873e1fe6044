"""A scoring killed at any instant or step leaves the old partition or the new one, in every format.

If rows are appended, it leaves the old rows, or the old and the new ones.

``PROBCLASS_KILLS`` is the number of scorings of each format to kill at random instants; if it is
set, one more is killed at every step. By default one is killed at random, and a few at steps that
close in on the commit. ``make faults`` runs the full number.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from backends import BACKENDS
from scored_lakes import FILES, STATE_AFTER, set_up, states, unknown_files
from scorer import Scorer

import probclass_core as pc

EVERY_STEP = "PROBCLASS_KILLS" in os.environ
KILLS = int(os.environ.get("PROBCLASS_KILLS", "1"))
MOST = 5
"""Steps to kill at if not every step is."""
WAVE = 25
"""Kills on one table; the next wave has a new table, for every check reads the whole history."""


@pytest.fixture(scope="module", params=FILES)
def scorer(request: pytest.FixtureRequest) -> Iterator[tuple[str, Scorer]]:
    """A format, and a process that scores into tables of it."""
    with Scorer(request.param) as process:
        yield request.param, process


class Kills:
    """Scorings into tables of one format, with checks after each, and their outcomes.

    Args:
        folder: empty folder.
        scorer: the format and the process that scores.
        kind: when scorings are killed.
    """

    def __init__(self, folder: Path, scorer: tuple[str, Scorer], kind: str) -> None:
        self.root = folder
        self.name, self.scorer = scorer
        self.kind = kind
        self.counts: Counter[str] = Counter()
        self.rng = random.Random(0)
        self.last_seconds: deque[float] = deque(maxlen=5)
        self.new_table()

    def new_table(self) -> None:
        """Set up another table, scored from the lake ``old``."""
        self.folder = self.root / str(len([*self.root.iterdir()]))
        self.sink = BACKENDS[self.name](self.folder).ref("scored")
        self.folder.mkdir()
        set_up(self.folder, self.sink)
        self.state = "old"

    def complete(self, lake: str) -> None:
        """Run a scoring to its end."""
        seconds, _ = self.scorer.score(self.folder, self.sink, lake)
        assert seconds is not None
        self.state = STATE_AFTER[lake]
        self.last_seconds.append(seconds)

    def steps(self, lake: str) -> int:
        """Run a scoring, and return the number of its steps."""
        _, steps = self.scorer.score(self.folder, self.sink, lake, at=10**9)
        self.state = STATE_AFTER[lake]
        assert steps is not None
        assert steps > 50
        return steps

    def instants(self, count: int) -> list[float]:
        """Return random times within, and a little after, the usual time of a scoring."""
        return [
            self.rng.uniform(0.0, 1.05 * statistics.median(self.last_seconds)) for _ in range(count)
        ]

    def kill(self, lake: str, how: str, when: float) -> bool:
        """Kill a scoring, clean the table, complete the scoring, and check the rows after each.

        Returns:
            Whether the scoring had committed.
        """
        if self.state != "old":
            self.complete("old")
        old, new, killed = {"old"}, {STATE_AFTER[lake]}, f"killed {how} {when}"
        seconds, _ = self.scorer.score(self.folder, self.sink, lake, **{how: when})
        found = states(self.folder, self.name)
        assert found in ([new] if seconds else [old, new]), killed
        self.counts["completed" if seconds else "killed"] += 1
        if not seconds:
            self.counts["new" if found == new else "old"] += 1
        if self.rng.random() < 0.5:
            self.clean(killed)
            assert states(self.folder, self.name) == found, killed
        self.complete(lake)
        self.clean(killed)
        assert states(self.folder, self.name) == new, killed
        return found == new

    def kill_each(self, lake: str, ends: Sequence[tuple[str, float]]) -> None:
        """Kill a scoring of a lake onto ``old`` ``at`` each step or ``after`` each time."""
        for number, (how, when) in enumerate(ends, start=1):
            if number % WAVE == 0:
                self.new_table()
            self.kill(lake, how, when)
        self.report()

    def clean(self, killed: str) -> None:
        """Clean the table, and check that only the reported leftovers are removed."""
        before = self.contents()
        leftovers = pc.clean_table(self.sink, older_than=timedelta(0))
        assert unknown_files(self.folder, self.name) == [], killed
        after = self.contents()
        removed = [path for path in before if path not in after]
        assert before == {**after, **{path: before[path] for path in removed}}, killed
        reported = tuple(leftover.path for leftover in leftovers)
        assert all(str(path).startswith(reported) for path in removed), killed
        self.counts["leftovers"] += len(leftovers)

    def contents(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def report(self) -> None:
        """Print the counts so far."""
        kills, old, new, left = (self.counts[x] for x in ("killed", "old", "new", "leftovers"))
        sys.stdout.write(
            f"{self.name}, killed {self.kind}: of {kills} kills, {old} left the old rows, "
            f"{new} the new ones, none a mixture; {left} leftovers removed\n"
        )


def test_killed_at_random_the_partition_is_old_or_new(
    tmp_path: Path, scorer: tuple[str, Scorer]
) -> None:
    kills = Kills(tmp_path, scorer, "at random")
    for lake in ("new", "old", "new"):
        kills.complete(lake)
    kills.kill_each("new", [("after", time) for time in kills.instants(KILLS)])
    assert kills.counts["killed"] >= 0.3 * KILLS or not EVERY_STEP


def test_killed_at_a_step_the_partition_is_old_or_new(
    tmp_path: Path, scorer: tuple[str, Scorer]
) -> None:
    kills = Kills(tmp_path, scorer, "at each step")
    count = kills.steps("new")
    if EVERY_STEP:
        kills.kill_each("new", [("at", step) for step in range(count)])
    else:
        last_old, first_new = 0, count
        while first_new - last_old > 1 and kills.counts["killed"] < MOST:
            step = (last_old + first_new) // 2
            if kills.kill("new", "at", step):
                first_new = step
            else:
                last_old = step
        kills.report()
    assert kills.counts["old"]
    assert kills.counts["new"] or not EVERY_STEP


def test_killed_during_an_append_all_rows_are_there_once_or_none(
    tmp_path: Path, scorer: tuple[str, Scorer]
) -> None:
    kills = Kills(tmp_path, scorer, "while appending")
    kills.complete("more")
    kills.complete("old")
    count = kills.steps("more")
    steps = range(count) if EVERY_STEP else [count // 2, count - 10]
    times = kills.instants(KILLS // 4)
    kills.kill_each("more", [*(("at", s) for s in steps), *(("after", t) for t in times)])
    assert (kills.counts["old"] and kills.counts["new"]) or not EVERY_STEP
