"""The engine of a Spark session, classic or Connect.

No rows pass through Spark. It distributes a frame of numbers, one per item, and runs a task for
each; the function that `mapInArrow` runs has the serialized items, and returns binary answers.
The workers read the tables themselves, as this process would.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from probclass_core.errors import NotSupportedError
from probclass_core.execution.engine import Item, Result
from probclass_core.execution.serialization import resolve, run, serialize
from probclass_core.execution.threads import available_processors, ordered_map

_CONCURRENT_JOBS = 2
"""Number of concurrent jobs: the next one runs while one waits for its last task."""

_MIN_WAVE = 16
"""Items of a job, unless fewer are left: a job has a cost of its own."""


def spark_session() -> SparkSession:
    """Return the active session, or a new one from the environment and Spark's configuration."""
    # Spark would look for a `python3`, but its workers need the packages of this interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


class Spark:
    """An engine over a Spark session, which stays open.

    Args:
        session: session; its executors have the same release of probclass, and reach the tables.
        workers: number of concurrent tasks; None for the parallelism of the session.
    """

    in_process = False

    def __init__(self, session: SparkSession, workers: int | None = None) -> None:
        self.session = session
        self.workers = _parallelism(session) if workers is None else workers

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """See `Engine.map`; a job runs a wave of items, and the results come wave by wave."""
        serialized = serialize(work)
        waves = _waves(items, max(_MIN_WAVE, 2 * self.workers))
        run_wave = partial(self._run_wave, serialized)
        for results in ordered_map(run_wave, waves, _CONCURRENT_JOBS):
            yield from results

    def _run_wave(self, work: bytes, wave: Sequence[tuple[Item, bytes]]) -> list[Any]:
        """The results of a wave; if its job is lost, each item becomes a job of its own."""

        def run_alone(item: bytes) -> bytes | Exception:
            answers = self._run_job(work, [item])
            return answers if isinstance(answers, Exception) else answers[0]

        outcome = self._run_job(work, [serialized for _, serialized in wave])
        answers: Iterable[bytes | Exception] = (
            (run_alone(serialized) for _, serialized in wave)
            if isinstance(outcome, Exception)
            else outcome
        )
        return [
            resolve(item, answer, partial(run_alone, serialized))
            for (item, serialized), answer in zip(wave, answers, strict=True)
        ]

    def _run_job(self, work: bytes, items: Sequence[bytes]) -> list[bytes] | Exception:
        """The answers in order, or the error of the job, such as that of lost workers."""

        def answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    row = [[number], [run(work, items[number])]]
                    yield pa.record_batch(row, names=["number", "answer"])

        numbers = self.session.range(0, len(items), 1, len(items))
        try:
            table = numbers.mapInArrow(answers, "number long, answer binary").toArrow()
        except Exception as error:  # of PySpark, Py4J or gRPC
            if "No module named 'probclass_core'" in str(error):
                raise NotSupportedError(
                    "the workers of the Spark session lack probclass; install the same release "
                    "there, and let PYSPARK_PYTHON name the Python that has it."
                ) from error
            return error
        in_order: list[bytes] = table.sort_by("number")["answer"].to_pylist()
        return in_order


def _waves(items: Iterable[Item], size: int) -> Iterator[list[tuple[Item, bytes]]]:
    remaining = iter(items)
    while wave := [(item, serialize(item)) for item in islice(remaining, size)]:
        yield wave


def _parallelism(session: SparkSession) -> int:
    """Number of tasks that the session runs at once; sessions of Spark Connect do not report it."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except PySparkException:
        return available_processors()
