"""Open an engine by name, executor or session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from probclass_core.errors import SpecError, one_of, shown
from probclass_core.execution.engine import Engine, EngineOption
from probclass_core.plugins.manager import find_engine, registry

_DEFAULT_ENGINE = "threads"


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
    if engine is not None and isinstance(engine, Engine):
        yield engine
        return
    if engine is None or isinstance(engine, str):
        plugin, handle = find_engine(engine or _DEFAULT_ENGINE), None
    else:
        engines = registry().engines
        matches = [plugin for plugin in engines.values() if plugin.recognizes(engine)]
        if not matches:
            raise SpecError(
                f"{shown(engine)} is not an engine; give an executor, an object that an engine "
                f"recognizes, or one of {one_of(engines)}."
            )
        plugin, handle = matches[0], engine
    with plugin.open(handle, workers) as opened:
        yield opened
