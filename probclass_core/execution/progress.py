"""Progress of work on rows: counted across threads, reported to a function or drawn as a bar."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from probclass_core.errors import SpecError, shown

Progress = Callable[[int, int | None], None]
"""Called with ``(rows done, total rows or None if unknown)`` after each batch and once more right
before a commit. An exception that it raises cancels the work, and nothing is committed."""

ProgressOption = Progress | bool | None
"""A `Progress`; or True for a bar, in a notebook or on a terminal, and elsewhere for a line on
stderr every few seconds."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_DRAWINGS = 0.1
_BAR_WIDTH = 30


class RowCounter:
    """Counts rows and reports them to a `Progress`; safe to use from many threads.

    Args:
        progress: function to report to, or None for none.
        total: total number of rows, or None if unknown.
    """

    def __init__(self, progress: ProgressOption, total: int | None) -> None:
        self._progress = progress if callable(progress) else None
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def add(self, rows: int) -> None:
        """Count rows as done and report."""
        with self._lock:
            self._done += rows
            self.report()

    def report(self) -> None:
        """Report the rows done so far."""
        if self._progress is not None:
            self._progress(self._done, self._total)

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches and count the rows of each once the next one is asked for."""
        for batch in batches:
            yield batch
            self.add(batch.num_rows)


def draws_progress(
    task: str, unit: str = "rows"
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a function with the keyword ``progress`` take a `ProgressOption`, and pass it a function.

    Args:
        task: what the function does, for the line of the bar.
        unit: what is counted.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            progress = kwargs.get("progress")
            if progress is True:
                with progress_bar(task, unit) as report:
                    kwargs["progress"] = report
                    return function(*args, **kwargs)
            if not (callable(progress) or progress is None or progress is False):
                raise SpecError(
                    "progress must be True for a bar, or a function that is called with the number "
                    f"of rows done and the total, got {shown(progress)}."
                )
            return function(*args, **kwargs)

        return call

    return decorate


@contextmanager
def progress_bar(task: str, unit: str = "rows") -> Iterator[Progress]:
    """A `Progress` that draws: a bar on a terminal or in a notebook, else lines on stderr.

    Args:
        task: what is done, such as ``"training"``.
        unit: what is counted.
    """
    is_bar = sys.stderr.isatty() or _in_notebook()
    seconds = _SECONDS_BETWEEN_DRAWINGS if is_bar else _SECONDS_BETWEEN_LINES
    drawn, width = time.monotonic() - (seconds if is_bar else 0.0), 0

    def draw(done: int, total: int | None) -> None:
        nonlocal drawn, width
        now = time.monotonic()
        if now - drawn < seconds and not (is_bar and done == total):
            return
        drawn = now
        count = f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
        if is_bar:
            filled = round(_BAR_WIDTH * min(done / total, 1.0)) if total else 0
            bar = f"[{'#' * filled:{_BAR_WIDTH}}] " if total else ""
            line = f"{task} {bar}{count}"
            sys.stderr.write(f"\r{line:{width}}")
            width = len(line)
        else:
            sys.stderr.write(f"{task}: {count}\n")
        sys.stderr.flush()

    try:
        yield draw
    finally:
        if is_bar:
            sys.stderr.write(f"\r{'':{width}}\r")
            sys.stderr.flush()


def _in_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel")
