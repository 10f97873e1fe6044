"""Killed at any instant and at every step: the old partition or the new one, in every format.

Where rows are added, those are the old rows, or the old and the new.

``PROBCLASS_KILLS`` says how many scorings of each format to kill at random, and that every step is
to be killed at; without it a few of each will do. ``make faults`` is the whole campaign.
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
from campaign import FORMATS, LEAVES, arrange

import probclass_core as pc

WHOLE = "PROBCLASS_KILLS" in os.environ
KILLS = int(os.environ.get("PROBCLASS_KILLS", "4"))
NEVER = 60.0
WAVE = 25
"""Strikes on one table; the next wave gets a new one, for every look reads the whole history."""


class Tally:
    """What was seen in all waves, and the chance that they share."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: Counter[str] = Counter()
        self.chance = random.Random(0)

    def report(self, kind: str) -> None:
        told = ", ".join(f"{count} {what}" for what, count in sorted(self.seen.items()))
        sys.stdout.write(f"{self.name}, {kind}: {told}\n")


class Campaign:
    """Attempts on the table of one folder, and what was seen after each."""

    def __init__(self, folder: Path, tally: Tally, scorer: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.format = FORMATS[tally.name]
        self.scorer = scorer
        self.present = "old"
        self.seen = tally.seen
        self.chance = tally.chance
        self.lately: deque[float] = deque(maxlen=5)

    def attempt(self, which: str, how: str, when: float) -> dict[str, Any]:
        assert self.scorer.stdin is not None
        assert self.scorer.stdout is not None
        print(which, how, when, file=self.scorer.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.scorer.stdout.readline())
        return answer

    def complete(self, which: str) -> None:
        """Score to the end; all readers then see it."""
        took = self.attempt(which, "after", NEVER)["seconds"]
        assert took is not None
        assert self.format.states(self.folder) == {LEAVES[which]}
        self.present = LEAVES[which]
        self.lately.append(took)

    @property
    def usual(self) -> float:
        """Seconds that a scoring takes, as busy as the machine is at present."""
        return statistics.median(self.lately)

    def strike(self, how: str, when: float) -> None:
        """Strike a replacement of what stands there by the other one."""
        self.strike_at("old" if self.present == "new" else "new", how, when)

    def strike_at(self, which: str, how: str, when: float) -> None:
        """Kill an attempt, and look; clean, and look; complete it, and look."""
        wanted = LEAVES[which]
        answer = self.attempt(which, how, when)
        last = answer["last"]
        killed = answer["seconds"] is None
        found = self.format.states(self.folder)
        assert found in ([{self.present}, {wanted}] if killed else [{wanted}]), last
        self.seen["killed" if killed else "lived"] += 1
        if killed:
            self.seen["new" if found == {wanted} else "old"] += 1
        if self.chance.random() < 0.5:
            self.clean(last)
            assert self.format.states(self.folder) == found, last
        self.complete(which)
        self.clean(last)
        assert self.format.states(self.folder) == {wanted}, last

    def clean(self, last: str) -> None:
        before = self.contents()
        removed = pc.clean_table(self.format.place(self.folder), older_than=timedelta(0))
        assert self.format.strangers(self.folder) == [], last
        after = self.contents()
        gone = [path for path in before if path not in after]
        assert before == {**after, **{path: before[path] for path in gone}}, last
        left = [each.path for each in removed]
        assert all(any(str(path).startswith(one) for one in left) for path in gone), last
        self.seen["leftovers"] += len(removed)

    def contents(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}


@contextmanager
def campaign_on(folder: Path, tally: Tally) -> Iterator[Campaign]:
    arrange(folder, tally.name)
    with subprocess.Popen(
        [sys.executable, Path(__file__).with_name("killed.py"), folder, tally.name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as scorer:
        assert scorer.stdout is not None
        assert scorer.stdout.readline() == "ready\n"
        yield Campaign(folder, tally, scorer)
        assert scorer.stdin is not None
        scorer.stdin.close()
    assert scorer.returncode == 0


@pytest.mark.parametrize("name", FORMATS)
def test_killed_at_random_all_is_old_or_new(tmp_path: Path, name: str) -> None:
    tally = Tally(name)
    seen = tally.seen
    for wave in itertools.count():
        if seen["killed"] >= KILLS:
            break
        with campaign_on(tmp_path / str(wave), tally) as campaign:
            for which in ("new", "old", "new"):
                campaign.complete(which)
            for _ in range(WAVE):
                if seen["killed"] < KILLS:
                    when = tally.chance.uniform(0.0, 1.05 * campaign.usual)
                    campaign.strike("after", when)
    tally.report("at random")
    assert seen["killed"] >= 0.3 * (seen["killed"] + seen["lived"])


@pytest.mark.parametrize("name", FORMATS)
def test_killed_at_a_step_all_is_old_or_new(tmp_path: Path, name: str) -> None:
    tally = Tally(name)
    with campaign_on(tmp_path / "steps", tally) as campaign:
        steps = int(campaign.attempt("new", "at", 10**9)["last"])
    assert steps > 50
    struck = range(0, steps, 1 if WHOLE else steps // KILLS)
    for start in range(0, len(struck), WAVE):
        with campaign_on(tmp_path / str(start), tally) as campaign:
            campaign.complete("new")
            for step in struck[start : start + WAVE]:
                campaign.strike("at", step)
    tally.report(f"at {steps} steps")
    assert tally.seen["old"]
    assert tally.seen["new"] or not WHOLE


@pytest.mark.parametrize("name", FORMATS)
def test_killed_while_rows_are_added_all_are_there_once_or_none(tmp_path: Path, name: str) -> None:
    tally = Tally(name)
    struck: deque[tuple[str, float]] = deque([("count", 0)])
    for wave in itertools.count():
        if not struck:
            break
        with campaign_on(tmp_path / str(wave), tally) as campaign:
            if wave == 0:
                struck, steps = strikes_while_adding(campaign)
            for how, when in [struck.popleft() for _ in range(min(WAVE, len(struck)))]:
                campaign.complete("old")
                campaign.strike_at("more", how, when)
    tally.report(f"while rows are added, at {steps} steps and at random")
    assert (tally.seen["old"] and tally.seen["new"]) or not WHOLE


def strikes_while_adding(campaign: Campaign) -> tuple[deque[tuple[str, float]], int]:
    """When to kill those who add: at steps and at random; and how many steps there are."""
    campaign.complete("more")
    campaign.complete("old")
    steps = int(campaign.attempt("more", "at", 10**9)["last"])
    assert steps > 50
    at = range(steps) if WHOLE else [campaign.chance.randrange(steps)]
    times = [campaign.chance.uniform(0.0, 1.05 * campaign.usual) for _ in range(KILLS // 4)]
    return deque([*(("at", step) for step in at), *(("after", time) for time in times)]), steps
