"""Open an engine by name, executor or session; the built-in ones are imported when opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from probclass_core.errors import NotSupportedError, SpecError, one_of, shown
from probclass_core.execution.engine import Engine, EngineOption
from probclass_core.plugins.hookspecs import PROBCLASS_API, EnginePlugin, hookimpl
from probclass_core.plugins.manager import find_engine, registry

__all__ = ["PROBCLASS_API", "probclass_engines"]


_DEFAULT_ENGINE = "threads"

_Opened = AbstractContextManager[Engine]


def _open_threads(handle: None, workers: int | None) -> _Opened:
    from probclass_core.execution.threads import Threads

    return nullcontext(Threads(workers))


def _open_processes(handle: Executor | None, workers: int | None) -> _Opened:
    from probclass_core.execution.executors import ExecutorEngine, Processes

    return Processes(workers) if handle is None else nullcontext(ExecutorEngine(handle, workers))


def _open_spark(handle: Any, workers: int | None) -> _Opened:
    try:
        from probclass_core.execution.spark import Spark, spark_session
    except ImportError as error:
        raise NotSupportedError("Spark needs pyspark: pip install 'probclass[spark]'.") from error

    return nullcontext(Spark(spark_session() if handle is None else handle, workers))


def _is_spark_session(handle: object) -> bool:
    # By name, because pyspark has two kinds of sessions and must not be imported for this.
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(handle).__mro__}
    sessions = ("pyspark.sql.session.SparkSession", "pyspark.sql.connect.session.SparkSession")
    return not kinds.isdisjoint(sessions)


@hookimpl
def probclass_engines() -> Iterable[EnginePlugin]:
    """Register threads, processes and Spark."""
    yield EnginePlugin(
        name="threads",
        summary="threads of this process",
        recognizes=lambda handle: False,  # they have no handle
        open=_open_threads,
    )
    yield EnginePlugin(
        name="processes",
        summary="processes of this machine, or any concurrent.futures.Executor",
        recognizes=lambda handle: isinstance(handle, Executor),
        open=_open_processes,
    )
    yield EnginePlugin(
        name="spark",
        summary="executors of a Spark session, classic or Connect",
        recognizes=_is_spark_session,
        open=_open_spark,
    )


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
