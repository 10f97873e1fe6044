"""A scorer in a process of its own, to be killed: ``python killed.py <folder> <format>``.

Each line ``<which> after <seconds>`` or ``<which> at <step>`` on its input is one attempt, in a
child that is killed so long after its start, or at that step. The answer is one line of JSON: how
long it took where it lived (else null), the steps it passed, and the last of them.

A step is a call that the code of tables makes or that is made to it while it writes, or the return
from such a call, the first time that it comes to pass at a line of that code: before and after the
staging directory, a row group, the close of the file, its check, the swap or the entry of the log,
the removal of what was replaced.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import campaign
import deltalake.transaction  # noqa: F401  # once here, and not in every child
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401

from probclass_core import io
from probclass_core.io import cleaning  # noqa: F401
from probclass_core.io.commit import parquet_writer
from probclass_core.io.delta import sink as delta_sink  # noqa: F401
from probclass_core.io.iceberg import sink as iceberg_sink  # noqa: F401
from probclass_core.io.parquet import directory_sink, row_groups  # noqa: F401
from probclass_core.scoring import partition as scored_partition

READING = {
    "__init__",
    "discovery",
    "dataset",
    "files",
    "pieces",
    "planned_file",
    "row_groups",
    "table",
}
WRITING = {
    str(path)
    for folder in ("commit", "delta", "iceberg", "parquet")
    for path in (Path(io.__file__).parent / folder).glob("*.py")
    if path.stem not in READING
}


class Steps:
    """Counts steps, tells of the last one, and kills the process at the one it is to die at."""

    def __init__(self, last: int | None, pipe: int) -> None:
        self.last = last
        self.pipe = pipe
        self.passed: set[tuple[object, ...]] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        caller = frame.f_back
        if event.startswith("c_"):
            ours, called = frame, getattr(argument, "__qualname__", "")
        elif frame.f_code.co_filename in WRITING or caller is None:
            ours, called = frame, frame.f_code.co_qualname
        else:
            ours, called = caller, frame.f_code.co_qualname
        if ours.f_code.co_filename not in WRITING:
            return
        step = (ours.f_code, ours.f_lineno, called, event)
        if step in self.passed:
            return
        if len(self.passed) == self.last:
            when = "after" if "return" in event else "before"
            os.write(self.pipe, f"{when} {called}, in {ours.f_code.co_qualname}".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        self.passed.add(step)


def attempt(folder: Path, name: str, line: str) -> dict[str, Any]:
    which, how, when = line.split()
    heard, told = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        steps = Steps(int(when) if how == "at" else None, told)
        if how == "at":
            sys.setprofile(steps)
        campaign.score(folder, name, which)
        sys.setprofile(None)
        os.write(told, str(len(steps.passed)).encode())
        os._exit(0)
    os.close(told)
    end = began + float(when) if how == "after" else float("inf")
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return answer(heard, None)
        time.sleep(0.0005)
    if os.WIFEXITED(ended[1]) and os.WEXITSTATUS(ended[1]):
        raise ChildProcessError(f"the attempt {line!r} failed by itself")
    took = time.monotonic() - began
    return answer(heard, took)


def answer(heard: int, took: float | None) -> dict[str, Any]:
    with os.fdopen(heard) as words:
        last = words.read()
    lived = last.isdigit()
    return {"seconds": took if lived else None, "last": last}


if __name__ == "__main__":
    folder, name = Path(sys.argv[1]), sys.argv[2]
    for which in campaign.ROWS:
        campaign.model(which)
    # A small partition passes through every stage of a large one.
    parquet_writer._ROW_GROUP = 1_000
    row_groups.batch_rows = lambda columns: 1_000
    scored_partition.PART_ROWS = campaign.PART_ROWS
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(attempt(folder, name, line)) + "\n")
        sys.stdout.flush()
