"""The interface of engines, and how to open one.

Training, scoring and evaluation are a map over parts of a table; the results are merged or
committed in the order of the parts. An engine runs the work of that map on its workers, and nothing
else: it plans nothing, merges nothing and commits nothing. So a result does not depend on the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from probclass_core.errors import SpecError, one_of
from probclass_core.plugins.manager import find_engine, registry

Item = TypeVar("Item")
Result = TypeVar("Result")

_DEFAULT_ENGINE = "threads"


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


@contextmanager
def open_engine(engine: EngineOption = None, workers: int | None = None) -> Iterator[Engine]:
    """Open an engine for as long as the context lasts.

    Args:
        engine: engine to open; see `EngineOption`.
        workers: number of workers; None for the engine's default.

    Raises:
        PluginError: if no engine has that name.
        SpecError: if no engine recognizes the object.
        NotSupportedError: if the library that the engine needs is not installed.
    """
    if isinstance(engine, Engine):
        yield engine
        return
    if engine is None or isinstance(engine, str):
        plugin, handle = find_engine(engine or _DEFAULT_ENGINE), None
    else:
        engines = registry().engines
        matches = [plugin for plugin in engines.values() if plugin.recognizes(engine)]
        if not matches:
            raise SpecError(
                f"{engine!r} is not an engine; give an executor, an object that an engine "
                f"recognizes, or one of {one_of(engines)}."
            )
        plugin, handle = matches[0], engine
    with plugin.open(handle, workers) as opened:
        yield opened
