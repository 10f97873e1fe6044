"""Trials of hostile input, each given by its seed, in processes that may die.

Trials run in batches, each in a process of its own: a trial that kills its process, takes longer
than a minute or needs more than 2 GB is a defect of its seed, and the other trials go on.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import signal
import struct
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

BATCH = 2_000
"""Trials in one process."""

LONGEST = 60.0
"""Seconds that a trial may take."""

MOST_MEMORY = 2 * 10**9
"""Bytes of memory that a process may need, in its worst trial."""


class Result(NamedTuple):
    """The result of a trial.

    Attributes:
        change: kind of the change.
        field: what was changed.
        outcome: a word for what happened.
        defect: what is wrong with it, or "" if it is as promised.
    """

    change: str
    field: str
    outcome: str
    defect: str = ""


Trial = Callable[[int], Result]


@dataclass
class Tally:
    """Results of trials.

    Attributes:
        trials: their number.
        outcomes: trials by change and outcome.
        defects: seed, change, field and what is wrong.
    """

    trials: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    defects: list[tuple[int, str, str, str]] = field(default_factory=list)

    def add(self, seed: int, result: Result) -> None:
        self.trials += 1
        self.outcomes[f"{result.change}: {result.outcome}"] += 1
        if result.defect:
            self.defects.append((seed, result.change, result.field, result.defect[:500]))

    def merge(self, other: Tally) -> None:
        self.trials += other.trials
        self.outcomes.update(other.outcomes)
        self.defects += [(seed, *rest) for seed, *rest in other.defects]


def run(trial: Trial, seeds: range, *, longest: float = LONGEST) -> Tally:
    """Run trials in other processes, a new one for each batch and after each that died.

    Args:
        trial: runs a trial by its seed.
        seeds: seeds of the trials.
        longest: seconds that a trial may take.
    """
    tally = Tally()
    waiting = [seeds[first : first + BATCH] for first in range(0, len(seeds), BATCH)]
    while waiting:
        batch = waiting.pop()
        answer, last, reason = _in_another_process(trial, batch, longest)
        if answer is not None:
            tally.merge(answer)
            rest = [batch[answer.trials :]]  # it ends early if it needed too much memory
        else:
            tally.add(last, Result("any", "process", "died", reason))
            place = batch.index(last)
            rest = [batch[:place], batch[place + 1 :]]
        waiting += [part for part in rest if part]
    return tally


def _in_another_process(
    trial: Trial, seeds: range, longest: float
) -> tuple[Tally | None, int, str]:
    """Results of trials; or None, the seed at which the process died, and why."""
    progress = mmap.mmap(-1, 8)
    progress[:8] = struct.pack("q", seeds.start)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        status = 1
        # Libraries leave handlers: that of ClickHouse would wait for a thread of the parent.
        for fatal in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV):
            signal.signal(fatal, signal.SIG_DFL)
        try:
            with os.fdopen(writer, "w") as answer:
                json.dump(vars(_run(trial, seeds, progress)), answer)
            status = 0
        except BaseException:  # nothing of the parent may run in the child
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    received, seed, since, hung = b"", seeds.start, time.monotonic(), False
    while True:
        if select.select([reader], [], [], 1.0)[0]:
            if not (data := os.read(reader, 1 << 20)):
                break
            received += data
        (now,) = struct.unpack("q", progress[:8])
        if now != seed:
            seed, since = now, time.monotonic()
        elif time.monotonic() - since > longest:
            hung = True
            os.kill(child, signal.SIGKILL)
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    (seed,) = struct.unpack("q", progress[:8])
    if not status:
        return Tally(**json.loads(received)), seed, ""
    if status == 1:
        raise RuntimeError(f"the trial of seed {seed} raised an error that it should report")
    ended = f"the process ended with status {status}"
    return None, seed, f"still running after {longest:g} s" if hung else ended


def _run(trial: Trial, seeds: range, progress: mmap.mmap) -> Tally:
    warnings.simplefilter("ignore")
    tally = Tally()
    for seed in seeds:
        progress[:8] = struct.pack("q", seed)
        result = trial(seed)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if memory > MOST_MEMORY:
            tally.add(seed, result._replace(outcome="memory", defect=f"needs {memory:,} bytes"))
            break
        tally.add(seed, result)
    return tally
