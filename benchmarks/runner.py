"""Rounds of A B C A B C …: each implementation is measured in every round, in its own process.

Interleaving spreads other load on the machine over all implementations, and ratios are taken within
a round. An implementation whose outcome differs from that of the reference is rejected: it did
different work, so its time does not count.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Case, Implementation, Outcome, Target
from benchmarks.environment import Environment, environment
from benchmarks.worker import Job, Measurement, Worker


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of a list of figures."""

    median: float
    minimum: float
    maximum: float

    @classmethod
    def of(cls, figures: list[float]) -> Spread:
        """The spread of at least one figure."""
        return cls(statistics.median(figures), min(figures), max(figures))


@dataclass
class Entry:
    """The measurements of one implementation.

    Attributes:
        implementation: the implementation.
        figures: in the unit of the case, one per round.
        cpu_seconds: processor time of all threads, one per round.
        rejected: why the figures do not count, or None if they do.
    """

    implementation: Implementation[Any]
    figures: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    rejected: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether there are figures and they count."""
        return self.rejected is None and bool(self.figures)

    @property
    def median(self) -> float:
        """The median of the figures."""
        return statistics.median(self.figures)


@dataclass
class Result:
    """The measurements of a case.

    Attributes:
        case: the case.
        rows: number of rows.
        rounds: number of rounds.
        entries: measurements by name of the implementation, in the order of the case.
        load: load average of the machine before and after.
        environment: date, machine and versions.
    """

    case: Case[Any]
    rows: int
    rounds: int
    entries: dict[str, Entry]
    load: tuple[float, float]
    environment: Environment

    def ratio(self, name: str, against: str, *, cpu: bool = False) -> Spread | None:
        """The ratios of two implementations, round by round; None unless both count.

        Args:
            name: the implementation.
            against: the other implementation.
            cpu: whether to compare processor times.
        """
        over, under = self.entries.get(name), self.entries.get(against)
        if over is None or under is None or not (over.is_valid and under.is_valid):
            return None
        pairs = (
            zip(over.cpu_seconds, under.cpu_seconds, strict=True)
            if cpu
            else zip(over.figures, under.figures, strict=True)
        )
        return Spread.of([a / b for a, b in pairs])

    def ratio_to_baseline(self, name: str) -> Spread | None:
        """The ratios to the first baseline; None if either does not count."""
        return self.ratio(name, self.case.baseline.name)

    def rival(self, target: Target) -> str | None:
        """The implementation that the target compares with: the one with the least median."""
        valid = [name for name in target.rivals if name in self.entries]
        valid = [name for name in valid if self.entries[name].is_valid]
        return min(valid, key=lambda name: self.entries[name].median, default=None)

    def ratio_of(self, target: Target) -> Spread | None:
        """The ratios that the target limits; None if there are none."""
        rival = self.rival(target)
        return None if rival is None else self.ratio(target.implementation, rival)

    def meets(self, target: Target) -> bool | None:
        """Whether the median ratio is within the limit; None if there is no ratio."""
        ratio = self.ratio_of(target)
        return None if ratio is None else ratio.median <= target.limit


def run_case(
    case: Case[Any],
    module: str,
    cache: Path,
    *,
    rows: int | None = None,
    rounds: int = 5,
    log: Callable[[str], None] = lambda text: None,
) -> Result:
    """Measure every implementation of a case.

    Args:
        case: the case.
        module: module in whose tuple ``CASES`` a worker finds the case.
        cache: directory for generated tables.
        rows: number of rows; by default the case's own.
        rounds: number of measurements per implementation.
        log: function that reports the progress, given a line of text.
    """
    rows = case.rows if rows is None else rows
    log(f"{case.name}: preparing {rows:,} rows")
    inputs = case.prepare(cache, rows)
    entries = {name: Entry(each) for name, each in case.implementations.items()}
    load_before = round(os.getloadavg()[0], 1)
    jobs = {name: Job(module, case.name, name, inputs) for name in entries}
    round_numbers = range(rounds) if case.fresh else range(-1, rounds)
    with ExitStack() as stack:
        workers = {} if case.fresh else {n: stack.enter_context(Worker(jobs[n])) for n in jobs}
        for number in round_numbers:
            log(f"{case.name}: round {number + 1} of {rounds}" if number >= 0 else "warming up")
            outcomes = {}
            for name, entry in entries.items():
                if entry.rejected is not None:
                    continue
                measurement = _measure(jobs[name], workers.get(name))
                entry.rejected = measurement.failure
                outcomes[name] = measurement.outcome
                if number >= 0:
                    figures = {"s": measurement.seconds, "CPU s": measurement.cpu_seconds}
                    entry.figures.append(figures[case.unit])
                    entry.cpu_seconds.append(measurement.cpu_seconds)
            for name, reason in disagreements(case, outcomes):
                entries[name].rejected = reason
    load = load_before, round(os.getloadavg()[0], 1)
    return Result(case, rows, rounds, entries, load, environment())


def _measure(job: Job, worker: Worker | None) -> Measurement:
    if worker is not None:
        return worker.measure()
    with Worker(job) as new_worker:
        return new_worker.measure()


def disagreements(
    case: Case[Any], outcomes: Mapping[str, Outcome | None]
) -> Iterator[tuple[str, str]]:
    """Implementations whose outcome differs from the reference's, each with the difference.

    An implementation must give every value that the reference gives; a baseline may give fewer.
    """
    if case.reference is None:
        return
    expected = outcomes.get(case.reference)
    for name, outcome in outcomes.items():
        if outcome is None or name == case.reference:
            continue
        if expected is None:
            yield name, f"nothing to compare with: {case.reference} failed"
            continue
        missing = [key for key in expected if key not in outcome]
        if missing and not case.implementations[name].is_baseline:
            yield name, f"gives no {missing[0]}"
            continue
        for key in expected.keys() & outcome.keys():
            reason = difference(outcome[key], expected[key], case.tolerance)
            if reason is not None:
                yield name, f"{key} {reason} from {case.reference}'s"
                break


def difference(value: Any, expected: Any, tolerance: float) -> str | None:
    """How a number, array or label differs from the expected one; None if it does not."""
    actual, true = np.asarray(value), np.asarray(expected)
    if actual.shape != true.shape:
        return f"of shape {actual.shape} differs in shape {true.shape}"
    if not np.issubdtype(true.dtype, np.number):
        return None if np.array_equal(actual, true) else "differs"
    scale = np.maximum(np.abs(true), 1.0)
    worst = float(np.max(np.abs(actual - true) / scale, initial=0.0))
    return None if worst <= tolerance else f"differs by {worst:.1e}"
