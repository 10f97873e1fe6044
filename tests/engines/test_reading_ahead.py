"""Reading ahead in a thread.

The garbage collector may end a reading in any thread, also in the one that reads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

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
