"""Work, items and results on their way to another process and back: bytes, and who failed.

A parcel of work is the same for all items, and is unpacked once in each process. What goes wrong
in a worker comes back as an answer, not as a crash of whoever carried it, so that each engine says
the same of the same failure.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import probclass_core
from probclass_core.errors import (
    DataError,
    NotSupportedError,
    PluginError,
    ProbClassError,
    SpecError,
    TableError,
)
from probclass_core.threads import one_thread_each

TRIES = 3
"""How often an item is tried before it is given up."""

_FINAL = (DataError, NotSupportedError, PluginError, SpecError)
"""What would fail alike a second time."""

_LONGEST_REASON = 300


def packed(what: Any) -> bytes:
    """Work or an item, ready to be sent.

    Raises:
        SpecError: it is bound to this process, as a stream of rows is.
    """
    try:
        return pickle.dumps((probclass_core.__version__, what), protocol=5)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise SpecError(
            f"{what} cannot be sent to other processes ({' '.join(str(error).split())}); use "
            "threads, or write the rows to a table first."
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
            "out; see the log of the workers, or cut the file into smaller row groups."
        ) from error
    raise TableError(f"{item}: failed {TRIES} times, at last with {reason}.") from error


@functools.lru_cache(maxsize=2)
def _unpacked(work: bytes) -> Callable[[Any], Any]:
    """Unpacked once in each process: a model among it is compiled once."""
    call: Callable[[Any], Any] = _opened(work)
    return call


def _opened(sent: bytes) -> Any:
    release, what = pickle.loads(sent)
    if release != probclass_core.__version__:
        raise PluginError(
            f"a worker has probclass {probclass_core.__version__}, and was sent work by "
            f"{release}; install the same release everywhere."
        )
    return what
