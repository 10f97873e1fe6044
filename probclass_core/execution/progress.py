"""Progress of work on rows, counted across threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with ``(rows done, total rows or None if unknown)`` after each batch and once more right
before a commit. An exception that it raises cancels the work, and nothing is committed."""


class RowCounter:
    """Counts rows and reports them to a `Progress`; safe to use from many threads.

    Args:
        progress: function to report to, or None for none.
        total: total number of rows, or None if unknown.
    """

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self._progress = progress
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
