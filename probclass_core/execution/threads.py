"""Map over threads: results in the order of the items, a bounded number under way."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_here = threading.local()
"""Has ``at_work`` where this thread runs one item of several."""


def ordered_map(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Iterator[Result]:
    """``work`` of every item, in order, however the items finish.

    At most two items per worker are under way or waiting, so memory does not grow with the number
    of items. Linear algebra inside a worker runs on one thread: the workers are the parallelism,
    and its rounding must not depend on how many there are. For the same reason a map inside the
    work of another runs on the thread that it finds itself on; but a lone item leaves the threads
    to the maps inside its work.

    Args:
        work: called in worker threads; what it raises is raised here.
        items: drawn in this thread, no faster than they are used.
        workers: threads; by default, the processors this process may use. 1 means this thread.
    """
    workers = available_processors() if workers is None else workers
    workers = 1 if getattr(_here, "at_work", False) else workers
    items = iter(items)
    first = list(islice(items, 2))
    items = chain(first, items)
    with one_thread_each():
        if workers > 1 and len(first) < 2:
            yield from map(work, items)
            return
        work = _at_work(work)
        if workers <= 1:
            yield from map(work, items)
            return
        pool = ThreadPoolExecutor(workers, thread_name_prefix="probclass")
        under_way: deque[Future[Result]] = deque()
        try:
            for item in items:
                under_way.append(pool.submit(work, item))
                if len(under_way) >= 2 * workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
            pool.shutdown(wait=True)


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The items in order, drawn in a thread of their own: the next one while one is used."""
    source, end = iter(items), object()
    pool = ThreadPoolExecutor(1, thread_name_prefix="probclass-read")
    following = pool.submit(next, source, end)
    try:
        while (item := following.result()) is not end:
            following = pool.submit(next, source, end)
            yield cast(Item, item)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _at_work(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """The same work, whose thread knows that there are others."""

    def known(item: Item) -> Result:
        before, _here.at_work = getattr(_here, "at_work", False), True
        try:
            return work(item)
        finally:
            _here.at_work = before

    return known


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Linear algebra of this process on one thread, until the last who asked for it is done.

    The number of threads is one for the whole process. If each who comes and goes put back what
    they found, the first to go would give threads to those who are still at work, and the last
    would leave the process with one.
    """
    _one_thread.enter()
    try:
        yield
    finally:
        _one_thread.leave()


class _OneThread:
    """Who wants linear algebra on one thread, and what is put back when nobody does any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._askers = 0
        self._limits: dict[bool, Any] = {}

    def enter(self) -> None:
        with self._lock:
            self._askers += 1
            with_scipy = "scipy.linalg" in sys.modules
            if with_scipy not in self._limits:
                controller = _linear_algebra(with_scipy)
                with _any_thread_may_set(controller):
                    self._limits[with_scipy] = controller.limit(limits=1, user_api="blas")

    def leave(self) -> None:
        with self._lock:
            self._askers -= 1
            while self._limits and not self._askers:
                with_scipy, limit = self._limits.popitem()  # the last first: it met the others' 1
                with _any_thread_may_set(_linear_algebra(with_scipy)):
                    limit.restore_original_limits()


@contextmanager
def _any_thread_may_set(controller: ThreadpoolController) -> Iterator[None]:
    """From 3.8 on threadpoolctl minds one thread alone, and the last to leave may be another."""
    clear = [
        library.clear_controlling_thread
        for library in controller.lib_controllers
        if hasattr(library, "clear_controlling_thread")
    ]
    try:
        for forget in clear:
            forget(force=True)
        yield
    finally:
        for forget in clear:
            forget(force=True)


_one_thread = _OneThread()


def available_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _linear_algebra(with_scipy: bool) -> ThreadpoolController:
    """The libraries loaded so far; looked up again once SciPy has brought its own.

    A look takes milliseconds, as long as a whole fit of a small table.
    """
    return ThreadpoolController()
