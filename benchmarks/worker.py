"""One contestant in a process of its own: its memory, its warm caches, its threads are its own.

Spoken to over the standard streams in pickles: first an `Order`, then one ``True`` per
measurement wanted, each answered by a `Measurement`.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from benchmarks.case import Case

MEGABYTE = 1e6


@dataclass(frozen=True)
class Order:
    """What a worker is to measure; by name, since functions do not travel."""

    module: str
    case: str
    contestant: str
    inputs: Any


@dataclass(frozen=True)
class Measurement:
    """One call.

    Attributes:
        seconds: wall time.
        cpu_seconds: processor time of all threads, which other people's work disturbs less.
        peak_megabytes: of the process so far.
        outcome: what the contestant found; none where it failed.
        failure: why it failed.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_megabytes: float = 0.0
    outcome: Mapping[str, Any] | None = None
    failure: str | None = None


class Worker:
    """A process that measures one contestant whenever it is asked."""

    def __init__(self, order: Order) -> None:
        # The child finds modules where this process does, tests included.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from benchmarks.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._say(order)

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()

    def measure(self) -> Measurement:
        """Have the contestant called."""
        try:
            self._say(True)
            assert self._process.stdout is not None
            answer: Measurement = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            return Measurement(failure=f"its process ended with {self._process.wait()}")
        return answer

    def _say(self, what: Order | bool) -> None:
        assert self._process.stdin is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()


def measured(case: Case[Any], order: Order) -> Measurement:
    """Call the contestant, then make an outcome of what it returned."""
    run = case.contestants[order.contestant].run
    try:
        cpu_began, began = time.process_time(), time.perf_counter()
        for _ in range(case.calls):
            returned = run(order.inputs)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
        peak = peak_megabytes()
        outcome = case.outcome(order.inputs, returned)
    except Exception as error:  # a contestant that fails must not end the others
        traceback.print_exc()
        return Measurement(failure=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Measurement(seconds / case.calls, cpu_seconds / case.calls, peak, dict(outcome))


def peak_megabytes() -> float:
    """The most memory that this process has held."""
    # Linux counts what the parent held into ru_maxrss, but not into VmHWM.
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / MEGABYTE
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Measure whenever asked, until the requests end."""
    order: Order = pickle.load(requests)
    cases: Sequence[Case[Any]] = importlib.import_module(order.module).CASES
    case = next(one for one in cases if one.name == order.case)
    while True:
        try:
            pickle.load(requests)
        except EOFError:
            return
        pickle.dump(measured(case, order), answers)
        answers.flush()


def main() -> None:
    """Serve the process that started this one."""
    # What a library prints must not stand among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)
