"""Processes that save and promote: killed at every step, or at the same time as others.

Run as ``python processes.py <function> <store> …``.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from sample_models import SampleModel

from probclass_core.errors import StoreError
from probclass_core.store.model_store import ModelStore

STEPS = ("open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "os.listdir", "os.scandir")


def save_and_promote(root: Path) -> None:
    store = ModelStore(root)
    store.promote("air", store.save(SampleModel(1), "air"), "champion")


def killed(folder: Path) -> None:
    """For n = 0, 1, …: save and promote in ``<folder>/<n>``, killed just before the n-th step.

    Steps are the file operations that Python reports to audit hooks, and every fsync. Stops once a
    process has survived.
    """
    with TemporaryDirectory() as before:
        save_and_promote(Path(before))  # imports what each child would import again
    for step in itertools.count():
        root = folder / f"{step:03d}"
        child = os.fork()
        if child == 0:
            kill_before(step, root)
            save_and_promote(root)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


def kill_before(step: int, root: Path) -> None:
    """Kill this process just before the n-th step on the files below a folder."""
    steps = itertools.count()

    def count() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event in STEPS and str(arguments[0]).startswith(str(root)):
            count()

    sync = os.fsync

    def counting_sync(descriptor: int) -> None:
        count()
        sync(descriptor)

    os.fsync = counting_sync
    sys.addaudithook(audit)


def race(root: Path, start: str) -> None:
    """Save ten models, the same ones at the same time as the other processes."""
    store = ModelStore(root)
    models = [SampleModel(seed, {"process": os.getpid()}) for seed in range(10)]
    time.sleep(max(0.0, float(start) - time.time()))
    for model in models:
        assert store.save(model, "air").id == model.id


def swap(root: Path, first: str, last: str, output: str) -> None:
    """Promote versions, each in place of the current champion; write each move to a file."""
    store = ModelStore(root)
    with Path(output).open("w") as moves:
        for seed in range(int(first), int(last)):
            version = store.save(SampleModel(seed), "air")
            while True:
                champion = store.aliases("air")["champion"]
                with suppress(StoreError):
                    moved = store.promote("air", version, "champion", expected=champion.id)
                    break
            moves.write(f"{moved.previous} {moved.id}\n")


if __name__ == "__main__":
    functions: dict[str, Callable[..., None]] = {"killed": killed, "race": race, "swap": swap}
    functions[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
