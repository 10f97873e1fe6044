"""Work, items and results as bytes for other processes, and retries of failed items.

The work is the same for all items, and each process deserializes it once. Its large buffers are not
copied to processes of the same machine: they are in a temporary file that each process maps, so the
system keeps their pages in memory once. A failure in a worker is sent back as a result, so every
engine reports the same failure in the same words.
"""

from __future__ import annotations

import functools
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from probclass_core.errors import PluginError, ProbClassError, SpecError, TableError, one_line
from probclass_core.execution.threads import single_threaded_blas
from probclass_core.release import VERSION

MAX_ATTEMPTS = 3
"""Attempts at an item before it has failed."""

_MAX_REASON_LENGTH = 300
"""Longest reason in a message, in characters."""

_MIN_SHARED_BYTES = 1 << 20
"""Size of the smallest buffer that is shared through a file."""

_ALIGNMENT = 64
"""Alignment of the buffers in bytes, as in Arrow."""


@dataclass(frozen=True)
class SharedPickle:
    """A pickle whose large buffers are in a file.

    Attributes:
        pickled: bytes of the pickle.
        path: path of the file; a process that has mapped it no longer needs it.
        ranges: position and size in bytes of each buffer.
    """

    pickled: bytes
    path: str
    ranges: Sequence[tuple[int, int]]

    def buffers(self) -> list[pa.Buffer]:
        """The buffers to unpickle with: read-only, in shared memory."""
        with pa.memory_map(self.path) as file:
            mapped = file.read_buffer()
        return [mapped.slice(start, size) for start, size in self.ranges]


@contextmanager
def serialize_work(work: Any, *, share: bool) -> Iterator[bytes]:
    """Serialize work for as long as the context lasts.

    Args:
        work: function to call in the workers.
        share: whether all workers are processes of this machine, which can map large buffers.

    Raises:
        SpecError: see `serialize`.
        TableError: if the large buffers cannot be written to a file.
    """
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= _MIN_SHARED_BYTES:
            large.append(raw)
        return raw.nbytes < _MIN_SHARED_BYTES

    serialized = serialize(work, is_small if share else None)
    if not large:
        yield serialized
        return
    with ExitStack() as stack:
        ranges = []
        try:
            file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="probclass-"))
            for buffer in large:
                file.write(bytes(-file.tell() % _ALIGNMENT))
                ranges.append((file.tell(), buffer.nbytes))
                file.write(buffer)
            file.flush()
        except OSError as error:
            size = sum(buffer.nbytes for buffer in large)
            raise TableError(
                f"cannot write {size:,} bytes for the worker processes to {tempfile.tempdir}: "
                f"{error.strerror}; free some space there, or set TMPDIR to another folder."
            ) from error
        yield serialize(SharedPickle(serialized, file.name, ranges))


def serialize(
    value: Any, include_buffer: Callable[[pickle.PickleBuffer], bool] | None = None
) -> bytes:
    """Serialize work or an item.

    Args:
        value: work or item.
        include_buffer: whether a buffer goes into the bytes; the caller sends the other buffers.

    Raises:
        SpecError: if it cannot leave this process, such as a stream of rows.
    """
    message = VERSION, value
    try:
        return pickle.dumps(message, protocol=5, buffer_callback=include_buffer)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise SpecError(
            f"{value} cannot be sent to other processes ({one_line(error)}); use threads, or write "
            "the rows to a table first."
        ) from error


def run(work: bytes, item: bytes) -> bytes:
    """Run serialized work on a serialized item in a worker, and serialize the result or error."""
    answer: tuple[Any, Exception | None]
    try:
        call, argument = _deserialize_work(work), _deserialize(item)
        with single_threaded_blas():
            answer = call(argument), None
    except Exception as error:  # `resolve` decides whether to try again
        answer = None, error
    try:
        # An exception whose constructor takes other arguments than it stores cannot be unpickled.
        pickle.loads(serialized := pickle.dumps(answer, protocol=5))
        return serialized
    except Exception:
        message = f"{type(answer[1]).__name__}: {answer[1]}"
        return pickle.dumps((None, RuntimeError(message)), protocol=5)


def resolve(item: object, answer: bytes | Exception, retry: Callable[[], bytes | Exception]) -> Any:
    """Return the result in an answer; after a failure that a retry may fix, try again.

    Args:
        item: item, to name in messages.
        answer: bytes from `run`, or the exception with which its worker was lost.
        retry: runs the item again, and returns the new answer.

    Raises:
        ProbClassError: if the work itself raised one.
        TableError: if every attempt failed.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        lost = isinstance(answer, Exception)
        result, error = (None, answer) if isinstance(answer, Exception) else pickle.loads(answer)
        if error is None:
            return result
        if isinstance(error, ProbClassError) and not error.is_transient:
            raise error
        if attempt < MAX_ATTEMPTS:
            answer = retry()
    if isinstance(error, ProbClassError):
        raise error
    message = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {message[:_MAX_REASON_LENGTH]}"
    if lost:
        raise TableError(
            f"{item}: its worker was lost {MAX_ATTEMPTS} times ({reason}), as happens when memory "
            "runs out; see the log of the workers, or write the file with smaller row groups."
        ) from error
    raise TableError(
        f"{item}: failed {MAX_ATTEMPTS} times, the last time with {reason}."
    ) from error


@functools.lru_cache(maxsize=2)
def _deserialize_work(work: bytes) -> Callable[[Any], Any]:
    """Deserialize work once in each process, so that a model in it is compiled once."""
    value = _deserialize(work)
    if isinstance(value, SharedPickle):
        value = _deserialize(value.pickled, value.buffers())
    call: Callable[[Any], Any] = value
    return call


def _deserialize(serialized: bytes, buffers: Sequence[pa.Buffer] = ()) -> Any:
    release, value = pickle.loads(serialized, buffers=buffers)
    if release != VERSION:
        raise PluginError(
            f"a worker has probclass {VERSION}, and was sent work by "
            f"{release}; install the same release everywhere."
        )
    return value
