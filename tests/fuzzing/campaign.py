"""Trials of hostile input, each given by its seed, in processes that may die.

Trials run in batches, each in a process of its own: a trial that kills its process, takes longer
than a minute or needs more than 2 GB is a defect of its seed, and the other trials go on.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

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


def run(trial: Trial, seeds: range, *, longest: float = LONGEST) -> Tally:
    """Run trials in other processes, a new one for each batch and after each that died.

    Args:
        trial: runs a trial by its seed.
        seeds: seeds of the trials.
        longest: seconds that a trial may take.
    """
    tally = Tally()
    while rest := seeds[tally.trials :]:
        _in_another_process(trial, rest[:BATCH], longest, tally)
    return tally


def _in_another_process(trial: Trial, seeds: range, longest: float, tally: Tally) -> None:
    """Run trials until one needs too much memory or ends the process, and add their results."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        status = 1
        # Libraries leave handlers: that of ClickHouse would wait for a thread of the parent.
        faults = signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV
        for fatal in (*faults, signal.SIGALRM):
            signal.signal(fatal, signal.SIG_DFL)
        try:
            with os.fdopen(writer, "w") as answers:
                _run(trial, seeds, longest, answers)
            status = 0
        except BaseException:  # nothing of the parent may run in the child
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    waiting = iter(seeds)
    with os.fdopen(reader) as answers:
        for answer in answers:
            tally.add(next(waiting), Result(*json.loads(answer)))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 1:
        message = f"the trial of seed {next(waiting)} raised an error that it should report"
        raise RuntimeError(message)
    if status:
        hung = status == -signal.SIGALRM
        ended = f"still running after {longest:g} s" if hung else f"ended with status {status}"
        tally.add(next(waiting), Result("any", "process", "died", f"the process {ended}"))


def _run(trial: Trial, seeds: range, longest: float, answers: TextIO) -> None:
    """Write the result of each trial as a line; an alarm ends the process if one takes too long."""
    warnings.simplefilter("ignore")
    for seed in seeds:
        signal.setitimer(signal.ITIMER_REAL, longest)
        result = trial(seed)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if memory > MOST_MEMORY:
            result = result._replace(outcome="memory", defect=f"needs {memory:,} bytes")
        answers.write(json.dumps(result) + "\n")
        answers.flush()
        if memory > MOST_MEMORY:
            break
