"""A scorer in a process of its own, for tests that kill it.

Run as ``python object_store_processes.py <folder> <sink>``; ``OPTIONS`` holds the sink's, as JSON.
The folder holds a store with the model ``new`` and the lake of that name. Scores once for each line
of input, which says whether to replace the ``partition`` or to ``append`` to it; tells the number
of the process, and then what became of it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset  # here once, not in every child
import pyarrow.parquet  # noqa: F401

import probclass_core as pc


def score(folder: Path, sink: str, overwrite: Any) -> None:
    model = pc.ModelStore(folder / "store").load("new")
    place = pc.TableRef(sink, options=json.loads(os.environ["OPTIONS"]))
    month = {"month": "2014-02"}
    pc.score(model, folder / "new", place, partition=month, overwrite=overwrite, workers=1)


def tell(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        score(Path(sys.argv[1]), sys.argv[2], line.strip())
        os._exit(0)
    tell(child)
    _, status = os.waitpid(child, 0)
    tell("killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
