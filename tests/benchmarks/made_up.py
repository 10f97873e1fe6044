"""Made-up work for the harness: contestants that are right, wrong, silent or broken."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.case import Bar, Case, Outcome


def diary(cache: Path, rows: int) -> Path:
    return cache / "diary"


def noted(path: Path, name: str) -> None:
    with path.open("a") as lines:
        lines.write(f"{name} {os.getpid()}\n")


made_up: Case[Path] = Case(
    name="made_up",
    title="count to four",
    rows=4,
    prepare=diary,
    reference="right",
    bars=(Bar(1e9, "floor", "right"), Bar(1e-9, "floor", "right"), Bar(1e9, "floor", "wrong")),
)
fresh: Case[Path] = Case(name="fresh", title="start", rows=4, prepare=diary, fresh=True, unit="MB")
CASES = (made_up, fresh)


@made_up.contestant("floor", is_floor=True)
def floor(path: Path) -> Outcome:
    """Only counts."""
    noted(path, "floor")
    return {"rows": 4}


@made_up.contestant("right")
def right(path: Path) -> Outcome:
    """Counts and adds."""
    noted(path, "right")
    return {"rows": 4, "sums": [1.0, 2.0]}


@made_up.contestant("as right")
def as_right(path: Path) -> Outcome:
    """The same but for rounding."""
    noted(path, "as right")
    return {"rows": 4, "sums": [1.0, 2.0 + 1e-12]}


@made_up.contestant("wrong")
def wrong(path: Path) -> Outcome:
    """A little off."""
    return {"rows": 4, "sums": [1.0, 2.001]}


@made_up.contestant("short")
def short(path: Path) -> Outcome:
    """Leaves a row out."""
    return {"rows": 3, "sums": [1.0, 2.0]}


@made_up.contestant("silent")
def silent(path: Path) -> Outcome:
    """Says nothing of the sums."""
    return {"rows": 4}


@made_up.contestant("broken")
def broken(path: Path) -> Outcome:
    """Raises."""
    raise ValueError("no such luck")


@made_up.contestant("gone")
def gone(path: Path) -> Outcome:
    """Takes its process along."""
    os._exit(7)


@fresh.contestant("one", is_floor=True)
def one(path: Path) -> None:
    """Notes itself."""
    noted(path, "one")
