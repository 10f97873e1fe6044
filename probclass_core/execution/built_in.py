"""Registers the built-in engines; their modules are imported when one is opened."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from probclass_core.errors import NotSupportedError
from probclass_core.execution.engine import Engine
from probclass_core.plugins.descriptors import PROBCLASS_API, EnginePlugin
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "probclass_engines"]


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
