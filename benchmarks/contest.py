"""Rounds of A B C A B C …: every contestant in every round, in a process of its own.

Interleaving spreads what else the machine does over all of them. A ratio is taken within a round,
between neighbors in time. A contestant whose outcome is not that of the reference is rejected: it
did other work, and its time means nothing.
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

from benchmarks.case import Bar, Case, Contestant, Outcome
from benchmarks.worker import Measurement, Order, Worker


@dataclass(frozen=True)
class Spread:
    """Median, least and largest of some figures."""

    median: float
    least: float
    largest: float

    @classmethod
    def of(cls, figures: list[float]) -> Spread:
        """Of at least one figure."""
        return cls(statistics.median(figures), min(figures), max(figures))


@dataclass
class Entry:
    """What one contestant achieved.

    Attributes:
        contestant: who.
        figures: one per round: seconds per call, or MB.
        cpu_seconds: one per round, of all threads.
        rejected: why the figures do not count; none where they do.
    """

    contestant: Contestant[Any]
    figures: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    rejected: str | None = None

    @property
    def counts(self) -> bool:
        """Whether there are figures and they stand for the work."""
        return self.rejected is None and bool(self.figures)


@dataclass
class Result:
    """A case measured.

    Attributes:
        case: what.
        rows: how many.
        rounds: how often.
        entries: contestant to what it achieved, in order.
        load: the machine's load average before and after.
    """

    case: Case[Any]
    rows: int
    rounds: int
    entries: dict[str, Entry]
    load: tuple[float, float] = (0.0, 0.0)

    def ratio(self, contestant: str, against: str) -> Spread | None:
        """Round by round; none where either does not count."""
        over, under = self.entries[contestant], self.entries[against]
        if not (over.counts and under.counts):
            return None
        return Spread.of([a / b for a, b in zip(over.figures, under.figures, strict=True)])

    def to_floor(self, contestant: str) -> Spread | None:
        """The ratio to the first floor."""
        return self.ratio(contestant, self.case.floor.name)

    def clears(self, bar: Bar) -> bool | None:
        """Whether the median ratio is within the limit; none where there is no ratio."""
        ratio = self.ratio(bar.contestant, bar.against)
        return None if ratio is None else ratio.median <= bar.limit


def hold(
    case: Case[Any],
    module: str,
    cache: Path,
    *,
    rows: int | None = None,
    rounds: int = 5,
    tell: Callable[[str], None] = lambda text: None,
) -> Result:
    """Measure every contestant of a case.

    Args:
        case: what to measure.
        module: where a worker finds it, in a sequence named ``CASES``.
        cache: directory for generated tables.
        rows: instead of the case's own number.
        rounds: how often each contestant is measured.
        tell: told what is going on.
    """
    rows = case.rows if rows is None else rows
    tell(f"{case.name}: preparing {rows:,} rows")
    inputs = case.prepare(cache, rows)
    entries = {name: Entry(contestant) for name, contestant in case.contestants.items()}
    before = os.getloadavg()[0]
    orders = {name: Order(module, case.name, name, inputs) for name in entries}
    numbers = range(rounds) if case.fresh else range(-1, rounds)
    with ExitStack() as stack:
        lasting = {} if case.fresh else {n: stack.enter_context(Worker(orders[n])) for n in orders}
        for number in numbers:
            tell(f"{case.name}: round {number + 1} of {rounds}" if number >= 0 else "warming up")
            outcomes = {}
            for name, entry in entries.items():
                if entry.rejected is not None:
                    continue
                measurement = _measure(orders[name], lasting.get(name))
                entry.rejected = measurement.failure
                outcomes[name] = measurement.outcome
                if number >= 0:
                    _note(entry, case, measurement)
            for name, reason in disagreements(case, outcomes):
                entries[name].rejected = reason
    return Result(case, rows, rounds, entries, (before, os.getloadavg()[0]))


def _measure(order: Order, lasting: Worker | None) -> Measurement:
    if lasting is not None:
        return lasting.measure()
    with Worker(order) as worker:
        return worker.measure()


def _note(entry: Entry, case: Case[Any], measurement: Measurement) -> None:
    in_memory = case.unit == "MB"
    entry.figures.append(measurement.peak_megabytes if in_memory else measurement.seconds)
    entry.cpu_seconds.append(measurement.cpu_seconds)


def disagreements(
    case: Case[Any], outcomes: Mapping[str, Outcome | None]
) -> Iterator[tuple[str, str]]:
    """Contestants whose outcome is not the reference's, each with what differs.

    A contestant must give all that the reference gives, a floor only what it can.
    """
    if case.reference is None:
        return
    truth = outcomes.get(case.reference)
    for name, outcome in outcomes.items():
        if outcome is None or name == case.reference:
            continue
        if truth is None:
            yield name, f"nothing to compare with: {case.reference} failed"
            continue
        missing = [key for key in truth if key not in outcome]
        if missing and not case.contestants[name].is_floor:
            yield name, f"gives no {missing[0]}"
            continue
        for key in truth.keys() & outcome.keys():
            reason = difference(outcome[key], truth[key], case.tolerance)
            if reason is not None:
                yield name, f"{key} {reason} from {case.reference}'s"
                break


def difference(value: Any, truth: Any, tolerance: float) -> str | None:
    """How a number, array or label differs from the true one; none where it does not."""
    found, true = np.asarray(value), np.asarray(truth)
    if found.shape != true.shape:
        return f"of shape {found.shape} differs in shape {true.shape}"
    if not np.issubdtype(true.dtype, np.number):
        return None if np.array_equal(found, true) else "differs"
    scale = np.maximum(np.abs(true), 1.0)
    worst = float(np.max(np.abs(found - true) / scale, initial=0.0))
    return None if worst <= tolerance else f"differs by {worst:.1e}"
