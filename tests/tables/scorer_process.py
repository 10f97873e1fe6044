"""A process whose scorings are killed, run as ``python scorer_process.py``; see `Scorer`.

Each line of the input is a JSON object with the table, the lake, and when to kill the child process
that scores it: ``after`` some seconds, ``at`` a step, or None. The answer is the id of that process
in one line, and then a line of JSON: how long the scoring took (null if it was killed), and the
step it was killed at or the number of steps it passed.

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
import scored_lakes
from backends import BACKENDS
from monthly_lake import model

import probclass_core as pc
from probclass_core import io
from probclass_core.io import cleaning  # noqa: F401
from probclass_core.io.commit import parquet_writer
from probclass_core.io.delta import sink as delta_sink  # noqa: F401
from probclass_core.io.iceberg import sink as iceberg_sink  # noqa: F401
from probclass_core.io.parquet import directory_sink, files, units  # noqa: F401
from probclass_core.scoring import partition as scored_partition

READING = {"__init__", "dataset", "discovery", "files", "table", "units"}
WRITING = {
    str(path)
    for pattern in ("local_files.py", "commit/*.py", "delta/*.py", "iceberg/*.py", "parquet/*.py")
    for path in Path(io.__file__).parent.glob(pattern)
    if path.stem not in READING
}


class Steps:
    """A profile function that counts steps and kills the process at one of them.

    Args:
        last: number of the step to kill the process at.
        pipe: file descriptor to which the last step is written.
    """

    def __init__(self, last: int, pipe: int) -> None:
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


def say(value: object) -> None:
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


def attempt(
    folder: str, sink: dict[str, Any], lake: str, at: int | None, after: float | None
) -> None:
    read_end, write_end = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        steps = Steps(-1 if at is None else at, write_end)
        if at is not None:
            sys.setprofile(steps)
        scored_lakes.score(Path(folder), pc.TableRef(**sink), lake)
        sys.setprofile(None)
        os.write(write_end, str(len(steps.passed)).encode())
        os._exit(0)
    os.close(write_end)
    say(child)
    if after is not None:
        time.sleep(max(0.0, start + after - time.monotonic()))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise ChildProcessError(f"the scoring of {lake!r} failed on its own")
    with os.fdopen(read_end) as pipe:
        last = pipe.read()
    say({"seconds": time.monotonic() - start if last.isdigit() else None, "last": last})


if __name__ == "__main__":
    for seed in scored_lakes.SEEDS.values():
        model(seed)
    # A small partition then has as many stages as a large one.
    parquet_writer._ROW_GROUP = 100
    files.read_rows = lambda schema: 100
    scored_partition.PART_ROWS = scored_lakes.PART_ROWS
    units._UNIT_ROWS = 1  # each file is a unit
    # What the first scoring of a process imports and allocates, child processes then need not. The
    # library of Delta does not work in a child of a process that used it.
    for warm in {"parquet", sys.argv[1]} & {"parquet", "iceberg"}:
        with tempfile.TemporaryDirectory() as scratch:
            scored_lakes.set_up(Path(scratch), BACKENDS[warm](Path(scratch)).ref("scored"))
    say("ready")
    for line in sys.stdin:
        attempt(**json.loads(line))
