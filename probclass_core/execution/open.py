"""Open an engine by name, executor or session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from probclass_core.errors import SpecError, one_of
from probclass_core.execution.engine import Engine, EngineOption
from probclass_core.plugins.manager import find_engine, registry

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
        claims = [one for one in engines.values() if one.recognizes(engine)]
        if not claims:
            raise SpecError(
                f"{engine!r} is no engine; give an executor, what an engine recognizes, or one of "
                f"{one_of(engines)}."
            )
        found, handle = claims[0], engine
    with found.open(handle, workers) as opened:
        yield opened
