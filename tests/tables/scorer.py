"""Scorings in another process, which can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from python_processes import start_python

import probclass_core as pc


class Scorer:
    """A process that scores the lakes of `scored_lakes` in child processes.

    Args:
        name: name of the backend whose scorings are killed.

    Attributes:
        child: id of the process of the scoring in progress.
    """

    def __init__(self, name: str) -> None:
        self.child: int | None = None
        script = Path(__file__).with_name("scorer_process.py")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = start_python(script, name, **pipes)
        assert self._answer() == "ready"

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        assert self._process.returncode == 0

    def score(
        self,
        folder: Path,
        sink: pc.TableRef,
        lake: str,
        *,
        at: int | None = None,
        after: float | None = None,
    ) -> tuple[float | None, int | None]:
        """Score a lake, and kill the scoring at a step or after some seconds.

        Returns:
            The seconds it took and the number of its steps, both None if it was killed.
        """
        table = {"uri": sink.uri, "format": sink.format, "options": dict(sink.options)}
        attempt = {"folder": str(folder), "sink": table, "lake": lake, "at": at, "after": after}
        assert self._process.stdin is not None
        print(json.dumps(attempt), file=self._process.stdin, flush=True)
        self.child = self._answer()
        answer = self._answer()
        self.child = None
        return answer["seconds"], answer["steps"]

    def kill(self) -> None:
        """Kill the scoring in progress, if there is one."""
        if self.child is not None:
            os.kill(self.child, signal.SIGKILL)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)
