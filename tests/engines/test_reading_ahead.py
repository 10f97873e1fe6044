"""Reading ahead in a thread.

The garbage collector may end a reading in any thread, also in the one that reads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import FrameType

from probclass_core.execution.threads import prefetch


def test_the_thread_that_reads_may_end_the_reading() -> None:
    paused, ended = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        paused.wait(10)
        reading.close()
        ended.set()
        yield 2

    reading = prefetch(items())
    assert next(reading) == 1
    paused.set()
    assert ended.wait(10)
    assert list(reading) == []


def test_the_thread_that_reads_may_end_the_reading_between_two_items() -> None:
    paused, drawn, ended = threading.Event(), threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def items() -> Iterator[int]:
        yield 1
        paused.wait(10)
        drawn.set()
        yield 2

    def end_after_the_second(frame: FrameType, event: str, _: object) -> None:
        """End the reading where the pool's thread has drawn an item and returns from its task."""
        is_task = event == "return" and frame.f_code.co_name == "run"
        if is_task and drawn.is_set() and not ended.is_set():
            try:
                reading.close()
            except BaseException as error:
                errors.append(error)
            ended.set()

    threading.setprofile(end_after_the_second)
    try:
        reading = prefetch(items())
        assert next(reading) == 1
    finally:
        threading.setprofile(None)
    paused.set()
    assert ended.wait(10)
    assert errors == []
    assert list(reading) == []
