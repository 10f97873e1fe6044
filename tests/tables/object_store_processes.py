"""Scorings into an object store, run in another process so that they can be killed.

Run as ``python object_store_processes.py <folder> <sink>``, with the options of the sink as JSON in
``OPTIONS``. The folder contains a store with the model ``new`` and the lake ``new``. Each line
of input, ``partition`` to replace the partition or ``append`` to append to it, starts a scoring in
a child process. The output is the id of that process and then how it ended.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset  # imported here, so that child processes need not
import pyarrow.parquet  # noqa: F401

import probclass_core as pc


def score(folder: Path, sink: str, overwrite: Any) -> None:
    model = pc.ModelStore(folder / "store").load("new")
    ref = pc.TableRef(sink, options=json.loads(os.environ["OPTIONS"]))
    month = {"month": "2014-02"}
    pc.score(model, folder / "new", ref, partition=month, overwrite=overwrite, workers=1)


def report(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        score(Path(sys.argv[1]), sys.argv[2], line.strip())
        os._exit(0)
    report(child)
    _, status = os.waitpid(child, 0)
    report("killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
