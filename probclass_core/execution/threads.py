"""Threads of this process: an engine, an ordered map, and linear algebra on one thread."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_this_thread = threading.local()
"""Its attribute ``in_map`` is True while the thread works on one item of several."""


@dataclass(frozen=True)
class Threads:
    """The engine of this process's threads.

    Attributes:
        workers: number of threads; None for the number of processors this process may use.
    """

    workers: int | None = None
    in_process: bool = True

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """See `ordered_map`."""
        return ordered_map(work, items, self.workers)


def ordered_map(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Iterator[Result]:
    """Call ``work`` on every item in threads; the results are in the order of the items.

    At most two items per worker are running or waiting, so memory does not grow with the number of
    items. Linear algebra inside the work runs on one thread: the workers are the parallelism, and
    its rounding must not depend on their number. For the same reason, a map inside the work of
    another map runs on the current thread. If there is only one item, however, the maps inside its
    work may use the threads.

    Args:
        work: function that the threads call; its exceptions are raised here.
        items: items, drawn in this thread, no faster than the results are used.
        workers: number of threads; None for the number of processors this process may use. 1 is
            the current thread.
    """
    workers = available_processors() if workers is None else workers
    workers = 1 if getattr(_this_thread, "in_map", False) else workers
    with single_threaded_blas():
        if workers <= 1:
            yield from map(_mark_thread(work), items)
            return
        items = iter(items)
        first = list(islice(items, 2))
        if len(first) < 2:
            yield from map(work, first)
            return
        items, work = chain(first, items), _mark_thread(work)
        pool = ThreadPoolExecutor(workers, thread_name_prefix="probclass")
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) >= 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            _end(pool)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in order; a thread draws the next one while the current one is used.

    The work of a map over several items keeps all processors busy: there, no thread is started.
    """
    if getattr(_this_thread, "in_map", False):
        yield from items
        return
    source, end = iter(items), object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="probclass-read", initializer=_mark_for_good)
    upcoming: Future[object] = pool.submit(next, source, end)
    try:
        while (item := upcoming.result()) is not end:
            upcoming = pool.submit(next, source, end)
            yield cast(Item, item)
    finally:
        _end(pool)


def _end(pool: ThreadPoolExecutor) -> None:
    """Cancel the work that has not begun, and wait for the rest if the caller still can.

    The garbage collector closes abandoned maps and readings, in any thread: in one of the pool,
    which cannot wait for itself, or in one that holds a lock without which no thread ends.
    """
    abandoned = isinstance(sys.exception(), GeneratorExit)
    pool.shutdown(wait=not abandoned, cancel_futures=True)


def _mark_for_good() -> None:
    """Mark a thread that only draws, also between two items."""
    _this_thread.in_map = True


def _mark_thread(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """The same work, which marks its thread while it runs."""

    def marked(item: Item) -> Result:
        before, _this_thread.in_map = getattr(_this_thread, "in_map", False), True
        try:
            return work(item)
        finally:
            _this_thread.in_map = before

    return marked


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run the linear algebra of this process on one thread until the last such context ends.

    The number of threads is a setting of the whole process. If each context restored the number it
    found, the first to end would give threads to the contexts still open, and the last would leave
    the process with one.
    """
    _blas_limit.acquire()
    try:
        yield
    finally:
        _blas_limit.release()


class _BlasLimit:
    """Number of open `single_threaded_blas` contexts, and the settings to restore after the last.

    The settings are by whether SciPy was loaded, because SciPy brings libraries of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the garbage collector may end a context while it is held
        self._contexts = 0
        self._limits: dict[bool, Any] = {}

    def acquire(self) -> None:
        with self._lock:
            self._contexts += 1
            with_scipy = "scipy.linalg" in sys.modules
            if with_scipy not in self._limits:
                controller = _blas_controller(with_scipy)
                with _allow_any_thread(controller):
                    self._limits[with_scipy] = controller.limit(limits=1, user_api="blas")

    def release(self) -> None:
        with self._lock:
            self._contexts -= 1
            while self._limits and not self._contexts:
                # The last first: it was set while the others were already limited to one thread.
                with_scipy, limit = self._limits.popitem()
                with _allow_any_thread(_blas_controller(with_scipy)):
                    limit.restore_original_limits()


@contextmanager
def _allow_any_thread(controller: ThreadpoolController) -> Iterator[None]:
    """Let the current thread change the limits, whichever thread set them.

    Since release 3.8, threadpoolctl accepts changes by one thread only, but the last context to
    end may be in another one.
    """
    clear = [
        library.clear_controlling_thread
        for library in controller.lib_controllers
        if hasattr(library, "clear_controlling_thread")
    ]
    try:
        for clear_thread in clear:
            clear_thread(force=True)
        yield
    finally:
        for clear_thread in clear:
            clear_thread(force=True)


_blas_limit = _BlasLimit()


def available_processors() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _blas_controller(with_scipy: bool) -> ThreadpoolController:
    """The BLAS libraries loaded so far; searched again once SciPy has brought its own.

    A search takes milliseconds, as long as a whole fit of a small table.
    """
    return ThreadpoolController()
