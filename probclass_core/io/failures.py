"""Failures of file systems and of Arrow: tried again if they pass, else one line with the location.

Throttling and dropped connections are transient; a missing bucket and a rejected key are not. The
libraries below raise ``OSError`` for all of them, so errors are classified by their text.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from probclass_core.errors import (
    ProbClassError,
    TableError,
    TableMismatchError,
    one_line,
    shown_cause,
)

Result = TypeVar("Result")

ATTEMPTS = 4
"""Attempts at an operation in all. Below them, the libraries retry a few times on their own."""

REQUEST_SECONDS = 15
"""Seconds in which the libraries retry a request."""

_TRANSIENT = re.compile(
    r"slow.?down|throttl|too.?many.?requests|service.?unavailable|internal.?(failure|error)"
    r"|server.?busy|timed?.?out|reset|broken pipe|connection aborted|returned nothing"
    r"|network_connection|error sending request|unexpected end of stream|\b(429|500|502|503|504)\b",
    re.IGNORECASE,
)
_PERMANENT = re.compile(r"curlCode: [67]\b|could not (connect|resolve)", re.IGNORECASE)


def is_transient(error: OSError, *, remote: bool = True) -> bool:
    """Whether the operation may succeed if it is tried again.

    That a file does not exist is an answer, whatever words a library dumps with it.

    Args:
        error: error of the operation.
        remote: whether it reads over a network. On a local disk, an error without a number of the
            operating system says that the file is damaged.
    """
    if isinstance(error, FileNotFoundError) or (not remote and error.errno is None):
        return False
    text = str(error)
    return _TRANSIENT.search(text) is not None and _PERMANENT.search(text) is None


def _wait(failures: int, error: OSError, *, remote: bool = True) -> None:
    """Sleep before the next attempt; raise the error of the last one if there is none.

    The pauses double and vary at random.
    """
    if failures >= ATTEMPTS or not is_transient(error, remote=remote):
        raise error
    time.sleep(random.uniform(0.1, 0.2) * 2**failures)


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
            _wait(failures, error)


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
            _wait(failures, error, remote=remote)


def skip_rows(count: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave out the first rows of the batches."""
    for batch in batches:
        skipped = min(count, batch.num_rows)
        count -= skipped
        if skipped < batch.num_rows or not batch.num_rows:
            yield batch.slice(skipped)


@contextmanager
def translate_read_errors(
    location: str, *, pass_missing: bool = False, error: type[ProbClassError] = TableError
) -> Iterator[None]:
    """Raise an error of ours for one that a file system or Arrow raises while reading.

    A damaged file is an error that a retry does not fix, a `TableMismatchError`. One that was cut
    off may still be written.

    Args:
        location: path or URI that is read.
        pass_missing: whether FileNotFoundError is left to the caller.
        error: class of the error to raise.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        if pass_missing and isinstance(cause, FileNotFoundError):
            raise
        if error is TableError and _is_damaged(cause):
            error = TableMismatchError
        raise error(f"cannot read {location}: {_reason(cause)}.") from shown_cause(cause)


@contextmanager
def translate_write_errors(
    location: str, *, error: type[ProbClassError] = TableError
) -> Iterator[None]:
    """Raise an error of ours for one that a file system or Arrow raises before a commit is done.

    Args:
        location: path or URI that is written.
        error: class of the error to raise.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        raise error(
            f"cannot write {location}: {_reason(cause)}; the existing data is unchanged."
        ) from shown_cause(cause)


_ENCRYPTED = re.compile(r"encrypted metadata|cannot decrypt", re.IGNORECASE)
"""Part of Arrow's errors for an encrypted file."""

_DAMAGED = re.compile(r"corrupt|deserialize thrift|decompress", re.IGNORECASE)
"""Part of Arrow's errors for a damaged file, some of which are errors of the system as well."""

_CUT_OFF = re.compile("magic bytes not found|file size is")
"""Part of Arrow's errors for a file of Parquet without an end."""

_SYSTEM = re.compile(r"Detail: \[errno \d+\] ([^.]+)")
"""End of Arrow's errors of a local disk, whose begin repeats the path."""


def _is_damaged(cause: Exception) -> bool:
    is_invalid = isinstance(cause, pa.ArrowInvalid) or _DAMAGED.search(str(cause))
    return bool(is_invalid) and not _CUT_OFF.search(str(cause))


def _reason(cause: Exception) -> str:
    if _ENCRYPTED.search(str(cause)):
        return "it is encrypted; write it again without encryption"
    if isinstance(cause, pa.ArrowInvalid) and _CUT_OFF.search(str(cause)):
        return (
            "it is not a Parquet file, or was cut off; write it again, name the format of a text "
            "file, as in TableRef(…, format='csv') or 'jsonl', or begin the name of a file that is "
            "not data with '_'"
        )
    if isinstance(cause, OSError) and cause.filename and cause.strerror:
        return cause.strerror  # the whole text repeats the path
    of_system = _SYSTEM.search(str(cause))
    return one_line(cause) if of_system is None else of_system[1]
