"""What the tests of scored tables run in processes of their own: scorers that are killed.

Run as ``python scoring_processes.py <what> <folder> …``. The folder holds a store of the models
``old`` and ``new``, and the lakes of the same names.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset  # here once, not in every child
import pyarrow.parquet  # noqa: F401

import probclass_core as pc
from probclass_core.io.commit import swap

STEPS = ("open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "os.listdir", "os.scandir")


def score(folder: Path, which: str, sink: Path) -> None:
    model = pc.ModelStore(folder / "store").load(which)
    pc.score(model, folder / which, sink, partition={"month": "2014-02"}, workers=1)


def killed_before_every_step(folder: Path) -> None:
    """Score ``new`` over ``old`` in ``<folder>/steps/<n>``, killed just before the n-th step.

    Steps are what Python reports to audit hooks, every fsync, and the exchange. Ends with the first
    that lives.
    """
    for step in itertools.count():
        place = folder / "steps" / f"{step:03d}"
        sink = place / "scored"
        shutil.copytree(folder / "scored", sink)
        child = os.fork()
        if child == 0:
            kill_before(step, place)
            score(folder, "new", sink)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


def kill_before(step: int, place: Path) -> None:
    steps = itertools.count()

    def count() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event in STEPS and str(arguments[0]).startswith(str(place)):
            count()

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            count()
            function(*arguments)

        return call

    os.fsync = counted(os.fsync)
    swap._exchange = counted(swap._exchange)
    sys.addaudithook(audit)


def replaced_again_and_again(folder: Path, times: str) -> None:
    """Score old and new in turn, so many times."""
    for number in range(int(times)):
        score(folder, ("new", "old")[number % 2], folder / "scored")


if __name__ == "__main__":
    what: dict[str, Callable[..., None]] = {
        function.__name__: function
        for function in (killed_before_every_step, replaced_again_and_again)
    }
    what[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
