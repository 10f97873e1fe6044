"""Who runs the map: the same work, in the same order, on one thread or on many machines.

built_in   the engines that come with probclass: threads, processes, spark
local      threads of this process
shipping   work, items and results on their way to another process and back
sharing    what is large among the work: one copy of it on a machine
executors  worker processes of this machine, and the executors of others
spark      the executors of a Spark session
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from probclass_core.engine import Engine, EngineOption
from probclass_core.errors import SpecError, one_of
from probclass_core.plugins import find_engine, registry

_DEFAULT_ENGINE = "threads"


@contextmanager
def open_engine(engine: EngineOption = None, workers: int | None = None) -> Iterator[Engine]:
    """The workers that were asked for.

    Args:
        engine: see `EngineOption`.
        workers: how many; by default as many as the engine thinks fit.

    Raises:
        PluginError: no engine has that name.
        SpecError: nobody knows what it is.
        NotSupportedError: the library that it needs is not installed.
    """
    if isinstance(engine, Engine):
        yield engine
        return
    if engine is None or isinstance(engine, str):
        found, handle = find_engine(engine or _DEFAULT_ENGINE), None
    else:
        engines = registry().engines
        claims = [one for one in engines.values() if one.recognises(engine)]
        if not claims:
            raise SpecError(
                f"{engine!r} is no engine; give an executor, what an engine recognises, or one of "
                f"{one_of(engines)}."
            )
        found, handle = claims[0], engine
    with found.open(handle, workers) as opened:
        yield opened
