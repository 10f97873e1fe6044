"""Work, items and results on their way to another process and back: bytes, and who failed.

A parcel of work is the same for all items, and is unpacked once in each process; what is large in
it need not be copied to those of this machine (see `engines.sharing`). What goes wrong in a worker
comes back as an answer, not as a crash of whoever carried it, so that each engine says the same of
the same failure.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import probclass_core
from probclass_core.errors import (
    DataError,
    NotSupportedError,
    PluginError,
    ProbClassError,
    SpecError,
    TableError,
    one_line,
)
from probclass_core.execution.shared_memory import SharedPickle, shared
from probclass_core.execution.threads import one_thread_each

TRIES = 3
"""How often an item is tried before it is given up."""

_FINAL = (DataError, NotSupportedError, PluginError, SpecError)
"""What would fail alike a second time."""

_LONGEST_REASON = 300

_LARGE = 1 << 20
"""Bytes from which on a buffer is worth a place in a file."""


@contextmanager
def parcel(work: Any, *, on_this_machine: bool) -> Iterator[bytes]:
    """Work ready to be sent, for as long as the context lasts.

    Args:
        work: a call.
        on_this_machine: whether all workers are, so that they can map what is large in it.

    Raises:
        SpecError: as `packed`.
        TableError: what is large cannot be written for them.
    """
    if not on_this_machine:
        yield packed(work)
        return
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes >= _LARGE:
            large.append(raw)
        return raw.nbytes < _LARGE

    sent = packed(work, is_small)
    if not large:
        yield sent
        return
    with shared(sent, large) as found_there:
        yield packed(found_there)


def packed(what: Any, is_small: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes:
    """Work or an item, ready to be sent.

    Args:
        what: to send.
        is_small: asked of each buffer; one that is not is left out, and is the caller's to send.

    Raises:
        SpecError: it is bound to this process, as a stream of rows is.
    """
    sent = probclass_core.__version__, what
    try:
        return pickle.dumps(sent, protocol=5, buffer_callback=is_small)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise SpecError(
            f"{what} cannot be sent to other processes ({one_line(error)}); use threads, or write "
            "the rows to a table first."
        ) from error


def answer_of(work: bytes, item: bytes) -> bytes:
    """In the worker: the result of an item, or what went wrong, ready to be sent back."""
    answer: tuple[Any, Exception | None]
    try:
        call, argument = _unpacked(work), _opened(item)
        with one_thread_each():
            answer = call(argument), None
    except Exception as error:  # whatever it is, it is for the sender to judge
        answer = None, error
    try:
        # An exception whose class takes other arguments than it keeps fails when it is read.
        pickle.loads(sent := pickle.dumps(answer, protocol=5))
        return sent
    except Exception:
        told = f"{type(answer[1]).__name__}: {answer[1]}"
        return pickle.dumps((None, RuntimeError(told)), protocol=5)


def settled(item: object, answer: bytes | Exception, again: Callable[[], bytes | Exception]) -> Any:
    """The result that an answer holds; it is asked for again where that may help.

    Args:
        item: to be named.
        answer: from `answer_of`, or how the worker was lost.
        again: asks another worker.

    Raises:
        ProbClassError: what the work itself says is wrong.
        TableError: it failed every time.
    """
    for attempt in range(1, TRIES + 1):
        lost = isinstance(answer, Exception)
        result, error = (None, answer) if isinstance(answer, Exception) else pickle.loads(answer)
        if error is None:
            return result
        if isinstance(error, _FINAL):
            raise error
        if attempt < TRIES:
            answer = again()
    if isinstance(error, ProbClassError):
        raise error
    told = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {told[:_LONGEST_REASON]}"
    if lost:
        raise TableError(
            f"{item}: its worker was lost {TRIES} times ({reason}), as happens when memory runs "
            "out, or where a script starts processes outside `if __name__ == '__main__':`; see the "
            "log of the workers, or cut the file into smaller row groups."
        ) from error
    raise TableError(f"{item}: failed {TRIES} times, at last with {reason}.") from error


@functools.lru_cache(maxsize=2)
def _unpacked(work: bytes) -> Callable[[Any], Any]:
    """Unpacked once in each process: a model among it is compiled once."""
    sent = _opened(work)
    if isinstance(sent, SharedPickle):
        sent = _opened(sent.pickled, sent.buffers())
    call: Callable[[Any], Any] = sent
    return call


def _opened(sent: bytes, buffers: Sequence[pa.Buffer] = ()) -> Any:
    release, what = pickle.loads(sent, buffers=buffers)
    if release != probclass_core.__version__:
        raise PluginError(
            f"a worker has probclass {probclass_core.__version__}, and was sent work by "
            f"{release}; install the same release everywhere."
        )
    return what
