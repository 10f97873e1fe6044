"""A process whose scorings are killed, run as ``python scorer_process.py``; see `Scorer`.

Each line of the input is a JSON object with the table, the lake, and when to kill the child process
that scores it: ``after`` some seconds, ``at`` a step, or None. The answer is the id of that process
in one line, and then a line of JSON: how long the scoring took and the number of its steps, both
null if it was killed.

Steps are those of the laws of a sink, in code that writes. There are steps before and after the
staging directory, each row group, the close of the file, its check, the swap or the log entry, and
the removal of the replaced files.
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
from probclass_core.io.commit import parquet_writer
from probclass_core.io.delta import sink as delta_sink  # noqa: F401
from probclass_core.io.iceberg import sink as iceberg_sink  # noqa: F401
from probclass_core.io.parquet import directory_sink, files, units  # noqa: F401
from probclass_core.scoring import partition as scored_partition
from probclass_core.testing.tables import _Steps

READING = {"__init__", "dataset", "discovery", "files", "table", "units"}
WRITING = {
    str(path)
    for pattern in ("local_files.py", "commit/*.py", "delta/*.py", "iceberg/*.py", "parquet/*.py")
    for path in Path(io.__file__).parent.glob(pattern)
    if path.stem not in READING
}


class Steps(_Steps):
    def _is_ours(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename in WRITING


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
        steps = Steps(set(), at)
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
        steps_passed = pipe.read()
    taken = (time.monotonic() - start, int(steps_passed)) if steps_passed else (None, None)
    say(dict(zip(("seconds", "steps"), taken, strict=True)))


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
