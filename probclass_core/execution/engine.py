"""Who runs the map: what a plugin registers so that its workers read and score parts of a table.

Training, scoring and evaluation are a map over parts of a table, and what is done with the results
in the order of the parts. An engine runs that map, and nothing else: it plans nothing, merges
nothing and commits nothing. So a result does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

Item = TypeVar("Item")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """Workers that are ready."""

    @property
    def in_process(self) -> bool:
        """Whether they are threads of this process, so that nothing has to cross to another."""
        ...

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """``work`` of every item, in the order of the items, whoever is done first.

        Work, items and results pickle; tables among them do so as Arrow IPC. ``str(item)`` names an
        item in messages. An engine whose workers can be lost gives their items to others, a bounded
        number of times.

        Args:
            work: to be called once for each item; it may be called again after a failure.
            items: drawn in this thread.

        Raises:
            TableError: an item failed time and again, or its workers were lost; it is named.
        """
        ...


EngineOption: TypeAlias = "Engine | Executor | str | Any | None"
"""Who does the work: the name of a registered engine, an executor, what a registered engine
recognizes (a Spark session), or an `Engine`. None is the threads of this process."""
