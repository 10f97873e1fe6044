"""The interface of engines.

Training, scoring and evaluation are a map over parts of a table; the results are merged or
committed in the order of the parts. An engine runs the work of that map on its workers, and nothing
else: it plans nothing, merges nothing and commits nothing. So a result does not depend on the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

Item = TypeVar("Item")
Result = TypeVar("Result")


@runtime_checkable
class Engine(Protocol):
    """Workers that are ready to run work."""

    @property
    def in_process(self) -> bool:
        """Whether the workers are threads of this process, so that nothing is serialized."""
        ...

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Call ``work`` on every item; the results are in the order of the items.

        Work, items and results can be pickled; tables among them are pickled as Arrow IPC.
        ``str(item)`` names an item in messages. If an engine can lose workers, it gives their items
        to others, a limited number of times.

        Args:
            work: function to call once for each item; after a failure it may be called again.
            items: items, drawn in this thread.

        Raises:
            TableError: if an item failed on every attempt, or its workers were lost; the message
                names it.
        """
        ...


EngineOption: TypeAlias = "Engine | Executor | str | Any | None"
"""Engine that runs the work: the name of a registered engine, an executor, an object that a
registered engine recognizes (such as a Spark session), or an `Engine`. None is the threads of this
process."""
