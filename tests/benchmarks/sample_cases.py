"""Cases for tests of the runner: implementations that are right, wrong, incomplete or broken."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.case import Case, Outcome, Target


def calls_file(cache: Path, rows: int) -> Path:
    """The file in which implementations record their calls."""
    return cache / "calls"


def record_call(path: Path, name: str) -> None:
    with path.open("a") as lines:
        lines.write(f"{name} {os.getpid()}\n")


counting: Case[Path] = Case(
    name="counting",
    title="count to four",
    rows=4,
    prepare=calls_file,
    reference="right",
    targets=(
        Target(1e9, "baseline", "right"),
        Target(1e-9, "baseline", "right"),
        Target(1e9, "baseline", "wrong"),
    ),
)
starting: Case[Path] = Case(
    name="starting", title="start a process", rows=4, prepare=calls_file, fresh=True
)
CASES = (counting, starting)


@counting.implementation("baseline", is_baseline=True)
def baseline(path: Path) -> Outcome:
    """Only counts."""
    record_call(path, "baseline")
    return {"rows": 4}


@counting.implementation("right")
def right(path: Path) -> Outcome:
    """Counts and adds."""
    record_call(path, "right")
    return {"rows": 4, "sums": [1.0, 2.0]}


@counting.implementation("almost equal")
def almost_equal(path: Path) -> Outcome:
    """Differs by rounding."""
    record_call(path, "almost equal")
    return {"rows": 4, "sums": [1.0, 2.0 + 1e-12]}


@counting.implementation("wrong")
def wrong(path: Path) -> Outcome:
    """Differs by more than rounding."""
    return {"rows": 4, "sums": [1.0, 2.001]}


@counting.implementation("too few rows")
def too_few_rows(path: Path) -> Outcome:
    """Leaves a row out."""
    return {"rows": 3, "sums": [1.0, 2.0]}


@counting.implementation("incomplete")
def incomplete(path: Path) -> Outcome:
    """Does not return the sums."""
    return {"rows": 4}


@counting.implementation("raises")
def raises(path: Path) -> Outcome:
    """Raises an error."""
    raise ValueError("no such luck")


@counting.implementation("exits")
def exits(path: Path) -> Outcome:
    """Ends its process."""
    os._exit(7)


@starting.implementation("record", is_baseline=True)
def record(path: Path) -> None:
    """Records the call."""
    record_call(path, "record")
