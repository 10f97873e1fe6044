"""Threads of this process, the engine that needs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from probclass_core.execution.engine import Item, Result
from probclass_core.execution.threads import ordered_map


@dataclass(frozen=True)
class Threads:
    """Threads of this process.

    Attributes:
        workers: how many; by default, the processors this process may use.
    """

    workers: int | None = None
    in_process: bool = True

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """See `ordered_map`."""
        return ordered_map(work, items, self.workers)
