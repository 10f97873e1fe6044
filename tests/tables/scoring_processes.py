"""Scorings for the tests of crashes, run in another process so that they can be killed.

Run as ``python scoring_processes.py <function> <folder> …``. The folder contains a store with the
models ``old`` and ``new``, and the lakes of the same names.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset  # imported here, so that child processes need not
import pyarrow.parquet  # noqa: F401

import probclass_core as pc
from probclass_core.io.commit import swap

STEPS = ("open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "os.listdir", "os.scandir")


def score(folder: Path, which: str, sink: Path) -> None:
    model = pc.ModelStore(folder / "store").load(which)
    pc.score(model, folder / which, sink, partition={"month": "2014-02"}, workers=1)


def killed_before_every_step(folder: Path) -> None:
    """Replace ``old`` by ``new`` in ``<folder>/steps/<n>``, killed just before the n-th step.

    A step is an operation on files that Python reports to audit hooks, an fsync, or the exchange of
    two names. Returns after the first attempt that is not killed.
    """
    for step in itertools.count():
        directory = folder / "steps" / f"{step:03d}"
        sink = directory / "scored"
        shutil.copytree(folder / "scored", sink)
        child = os.fork()
        if child == 0:
            kill_before(step, directory)
            score(folder, "new", sink)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


def kill_before(step: int, directory: Path) -> None:
    steps = itertools.count()

    def count() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event in STEPS and str(arguments[0]).startswith(str(directory)):
            count()

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            count()
            function(*arguments)

        return call

    os.fsync = counted(os.fsync)
    swap._exchange = counted(swap._exchange)
    sys.addaudithook(audit)


def replaced_repeatedly(folder: Path, times: str) -> None:
    """Score ``new`` and ``old`` in turn."""
    for number in range(int(times)):
        score(folder, ("new", "old")[number % 2], folder / "scored")


if __name__ == "__main__":
    functions: dict[str, Callable[..., None]] = {
        function.__name__: function for function in (killed_before_every_step, replaced_repeatedly)
    }
    functions[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
