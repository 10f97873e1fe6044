"""Retry what fails for a moment: wait and try again, if the error is transient.

Throttling and dropped connections are transient; a missing bucket and a rejected key are not. The
libraries below raise ``OSError`` for all of them, so errors are classified by their text.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

Result = TypeVar("Result")

_TRANSIENT = re.compile(
    r"slow.?down|throttl|too.?many.?requests|service.?unavailable|internal.?(failure|error)"
    r"|server.?busy|timed?.?out|reset|broken pipe|connection aborted|returned nothing"
    r"|network_connection|error sending request|unexpected end of stream|\b(429|500|502|503|504)\b",
    re.IGNORECASE,
)
_PERMANENT = re.compile(r"curlCode: [67]\b|could not (connect|resolve)", re.IGNORECASE)


def is_transient(error: OSError, *, remote: bool = True) -> bool:
    """Whether the operation may succeed if it is tried again.

    Args:
        error: error of the operation.
        remote: whether it reads over a network. On a local disk, an error without a number of the
            operating system says that the file is damaged.
    """
    if not remote and error.errno is None:
        return False
    text = str(error)
    return _TRANSIENT.search(text) is not None and _PERMANENT.search(text) is None


@dataclass(frozen=True)
class RetryPolicy:
    """How often an operation is tried, with pauses that double and vary at random.

    Attributes:
        attempts: attempts in all. Below them, the libraries retry a few times on their own.
        first_pause: least seconds of the first pause; the longest is twice that.
        seconds: seconds in which the libraries retry a request.
    """

    attempts: int = 4
    first_pause: float = 0.2
    seconds: int = 15

    def wait(self, failures: int, error: OSError, *, remote: bool = True) -> None:
        """Sleep before the next attempt; raise the error if there is none.

        Args:
            failures: number of failed attempts, at least 1.
            error: error of the last one.
            remote: see `is_transient`.
        """
        if failures >= self.attempts or not is_transient(error, remote=remote):
            raise error
        time.sleep(random.uniform(0.5, 1.0) * self.first_pause * 2**failures)


RETRIES = RetryPolicy()
"""The policy for all operations on tables and stores."""


CONTENDED_ATTEMPTS = 20
"""Attempts at replacing what other processes replace first, before giving up."""


def contended_attempts() -> Iterator[int]:
    """Yield the numbers of these attempts, with pauses of up to two seconds between them."""
    for attempt in range(CONTENDED_ATTEMPTS):
        yield attempt
        # At random, so that competing processes do not meet again.
        time.sleep(random.uniform(0.0, min(0.05 * 2**attempt, 2.0)))


def retry(operation: Callable[[], Result]) -> Result:
    """Return the result of an operation, repeated while its OSError is transient."""
    failures = 0
    while True:
        try:
            return operation()
        except OSError as error:
            failures += 1
            RETRIES.wait(failures, error)


def read_again(
    open_batches: Callable[[], Iterable[pa.RecordBatch]], *, remote: bool
) -> Iterator[pa.RecordBatch]:
    """Yield batches; after a transient OSError, open them again and continue behind the last one.

    Args:
        open_batches: reads the same rows in the same order at each call.
        remote: see `is_transient`.
    """
    failures = rows_read = 0
    while True:
        try:
            for batch in skip_rows(rows_read, open_batches()):
                rows_read += batch.num_rows
                yield batch
            return
        except OSError as error:
            failures += 1
            RETRIES.wait(failures, error, remote=remote)


def skip_rows(count: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave out the first rows of the batches."""
    for batch in batches:
        skipped = min(count, batch.num_rows)
        count -= skipped
        if skipped < batch.num_rows or not batch.num_rows:
            yield batch.slice(skipped)
