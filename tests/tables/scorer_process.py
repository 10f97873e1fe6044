"""A process whose scorings are killed: ``python scorer_process.py <folder> <format>``.

Each line of the input, ``<lake> after <seconds>`` or ``<lake> at <step>``, starts a scoring in a
child process that is killed after that time, or at that step. The answer is one line of JSON: how
long the scoring took (null if it was killed), and the step it was killed at or the number of steps
it passed.

A step is a call that the code of a commit makes or receives, or the return from one, the first time
that it occurs at a line of that code. There are steps before and after the staging directory, each
row group, the close of the file, its check, the swap or the log entry, and the removal of the
replaced files.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

import deltalake.transaction  # noqa: F401  # imported here, so that child processes need not
import pyarrow.dataset
import pyarrow.parquet  # noqa: F401
import tested_formats

from probclass_core import io
from probclass_core.io import cleaning  # noqa: F401
from probclass_core.io.commit import parquet_writer
from probclass_core.io.delta import sink as delta_sink  # noqa: F401
from probclass_core.io.iceberg import sink as iceberg_sink  # noqa: F401
from probclass_core.io.parquet import directory_sink, files  # noqa: F401
from probclass_core.scoring import partition as scored_partition

READING = {"__init__", "dataset", "discovery", "files", "table"}
WRITING = {
    str(path)
    for pattern in ("local_files.py", "commit/*.py", "delta/*.py", "iceberg/*.py", "parquet/*.py")
    for path in Path(io.__file__).parent.glob(pattern)
    if path.stem not in READING
}


class Steps:
    """A profile function that counts steps and kills the process at one of them.

    Args:
        last: number of the step to kill the process at, or None to only count.
        pipe: file descriptor to which the last step is written.
    """

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
    lake, how, when = line.split()
    read_end, write_end = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        steps = Steps(int(when) if how == "at" else None, write_end)
        if how == "at":
            sys.setprofile(steps)
        tested_formats.score(folder, name, lake)
        sys.setprofile(None)
        os.write(write_end, str(len(steps.passed)).encode())
        os._exit(0)
    os.close(write_end)
    deadline = start + float(when) if how == "after" else float("inf")
    while (status := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return answer(read_end, None)
        time.sleep(0.0005)
    if os.WIFEXITED(status[1]) and os.WEXITSTATUS(status[1]):
        raise ChildProcessError(f"the attempt {line!r} failed on its own")
    return answer(read_end, time.monotonic() - start)


def answer(read_end: int, seconds: float | None) -> dict[str, Any]:
    with os.fdopen(read_end) as pipe:
        last = pipe.read()
    finished = last.isdigit()
    return {"seconds": seconds if finished else None, "last": last}


if __name__ == "__main__":
    folder, name = Path(sys.argv[1]), sys.argv[2]
    for lake in tested_formats.LAKES:
        tested_formats.model(lake)
    # A small partition then has as many stages as a large one.
    parquet_writer._ROW_GROUP = 1_000
    files.read_rows = lambda schema: 1_000
    scored_partition.PART_ROWS = tested_formats.PART_ROWS
    # What the first scoring of a process imports and allocates, child processes then need not. The
    # library of Delta does not work in a child of a process that used it.
    with tempfile.TemporaryDirectory() as scratch:
        tested_formats.set_up(Path(scratch), "parquet" if name == "delta" else name)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(attempt(folder, name, line)) + "\n")
        sys.stdout.flush()
