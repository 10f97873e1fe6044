"""Map over threads: results in the order of the items, a bounded number under way."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import chain, islice
from typing import TypeVar, cast

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int | None = None
) -> Iterator[Result]:
    """``work`` of every item, in order, however the items finish.

    At most two items per worker are under way or waiting, so memory does not grow with the number
    of items. Linear algebra inside a worker runs on one thread: the workers are the parallelism,
    and its rounding must not depend on how many there are. For the same reason a map inside the
    work of another runs on the thread that it finds itself on.

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


_here = threading.local()


def _at_work(work: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """The same work, whose thread knows that there are others."""

    def known(item: Item) -> Result:
        before, _here.at_work = getattr(_here, "at_work", False), True
        try:
            return work(item)
        finally:
            _here.at_work = before

    return known


def one_thread_each() -> AbstractContextManager[object]:
    """Linear algebra of this process on one thread."""
    controller = _linear_algebra("scipy.linalg" in sys.modules)
    limited: AbstractContextManager[object] = controller.limit(limits=1, user_api="blas")
    return limited


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
