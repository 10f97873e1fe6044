"""Runs one implementation in its own process, with its own memory, caches and threads.

The parent sends pickles over stdin: first a `Job`, then ``True`` for each measurement. The worker
answers each ``True`` with a `Measurement`.
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
class Job:
    """What a worker measures; names instead of functions, which cannot be pickled."""

    module: str
    case: str
    implementation: str
    inputs: Any


@dataclass(frozen=True)
class Measurement:
    """The measurement of one call.

    Attributes:
        seconds: wall time.
        cpu_seconds: processor time of all threads, which depends less on the load of the machine.
        outcome: outcome of the implementation, or None if it failed.
        failure: why it failed, or None if it did not.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    outcome: Mapping[str, Any] | None = None
    failure: str | None = None


class Worker:
    """A process that measures one implementation on request."""

    def __init__(self, job: Job) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from benchmarks.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(),
        )
        self._send(job)

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
        """Call the implementation once."""
        try:
            self._send(True)
            assert self._process.stdout is not None
            answer: Measurement = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            return Measurement(failure=f"its process ended with {self._process.wait()}")
        return answer

    def _send(self, message: Job | bool) -> None:
        assert self._process.stdin is not None
        pickle.dump(message, self._process.stdin)
        self._process.stdin.flush()


def child_environment() -> dict[str, str]:
    """Environment variables of a process that finds the modules of this one, those of tests too."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # Modules are compiled once, as by an installation, not in each process that imports them.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def measure(case: Case[Any], job: Job) -> Measurement:
    """Call the implementation, then make an outcome of what it returned."""
    run = case.implementations[job.implementation].run
    try:
        cpu_start, start = time.process_time(), time.perf_counter()
        returned = run(job.inputs)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        outcome = case.outcome(job.inputs, returned)
    except Exception as error:  # the other implementations must still be measured
        traceback.print_exc()
        return Measurement(failure=f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Measurement(seconds, cpu_seconds, dict(outcome))


def peak_megabytes() -> float:
    """The peak memory of this process, in MB."""
    # On Linux ru_maxrss includes memory of the parent process, VmHWM does not.
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024 / MEGABYTE
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer each request with a measurement, until the requests end."""
    job: Job = pickle.load(requests)
    cases: Sequence[Case[Any]] = importlib.import_module(job.module).CASES
    case = next(case for case in cases if case.name == job.case)
    while True:
        try:
            pickle.load(requests)
        except EOFError:
            return
        pickle.dump(measure(case, job), answers)
        answers.flush()


def main() -> None:
    """Serve the parent process."""
    # Whatever a library prints must not mix with the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)
