"""The executors of a Spark session, classic or Connect: descriptors go out, answers come back.

No rows go through Spark. What it distributes is a frame of numbers, one for each item and each a
task; the function that `mapInArrow` runs on them holds the items, packed, and gives back answers as
binary. The workers read the tables themselves, as this process would.
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
from probclass_core.execution.serialization import answer_of, packed, settled
from probclass_core.execution.threads import available_processors, ordered_map

_JOBS_AT_ONCE = 2
"""While one job waits for its last task, the next has begun."""

_SMALLEST_WAVE = 16
"""Items of a job, unless fewer are left: a job has a cost of its own."""


def spark_session() -> SparkSession:
    """The session that there is, or one as the environment and Spark's configuration have it."""
    # Spark looks for a `python3`, and its workers need what is installed for this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


class Spark:
    """An engine over a Spark session, which lasts beyond it.

    Args:
        session: its executors have probclass, of the same release, and reach the tables.
        workers: how many tasks run at once; by default, what the session says.
    """

    in_process = False

    def __init__(self, session: SparkSession, workers: int | None = None) -> None:
        self.session = session
        self.workers = _parallelism(session) if workers is None else workers

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """See `Engine.map`; one job is a wave of items, and answers come wave by wave."""
        parcel = packed(work)
        waves = _waves(items, max(_SMALLEST_WAVE, 2 * self.workers))
        for results in ordered_map(lambda wave: self._done(parcel, wave), waves, _JOBS_AT_ONCE):
            yield from results

    def _done(self, work: bytes, wave: Sequence[tuple[Item, bytes]]) -> list[Any]:
        """The results of a wave; where its job is lost, each item is a job of its own."""

        def alone(sent: bytes) -> bytes | Exception:
            answers = self._asked(work, [sent])
            return answers if isinstance(answers, Exception) else answers[0]

        together = self._asked(work, [sent for _, sent in wave])
        answers: Iterable[bytes | Exception] = (
            (alone(sent) for _, sent in wave) if isinstance(together, Exception) else together
        )
        return [
            settled(item, answer, partial(alone, sent))
            for (item, sent), answer in zip(wave, answers, strict=True)
        ]

    def _asked(self, work: bytes, sent: Sequence[bytes]) -> list[bytes] | Exception:
        """Answers in order, or how the job failed, as it does when workers are lost."""

        def answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    row = [[number], [answer_of(work, sent[number])]]
                    yield pa.record_batch(row, names=["number", "answer"])

        numbers = self.session.range(0, len(sent), 1, len(sent))
        try:
            found = numbers.mapInArrow(answers, "number long, answer binary").toArrow()
        except Exception as error:  # PySpark has errors of its own, Py4J's and gRPC's
            if "No module named 'probclass_core'" in str(error):
                raise NotSupportedError(
                    "the workers of the Spark session lack probclass; install the same release "
                    "there, and let PYSPARK_PYTHON name the Python that has it."
                ) from error
            return error
        in_order: list[bytes] = found.sort_by("number")["answer"].to_pylist()
        return in_order


def _waves(items: Iterable[Item], size: int) -> Iterator[list[tuple[Item, bytes]]]:
    remaining = iter(items)
    while wave := [(item, packed(item)) for item in islice(remaining, size)]:
        yield wave


def _parallelism(session: SparkSession) -> int:
    """How many tasks the session runs at once; over Connect it does not say."""
    try:
        return int(session.sparkContext.defaultParallelism)
    except PySparkException:
        return available_processors()
