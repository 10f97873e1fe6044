"""Worker processes of this machine, and the executors of others (`concurrent.futures.Executor`).

A worker that is lost takes a whole pool with it, and nobody says which item it was at. So the items
that were under way are done again one by one, in a new pool: who loses a worker alone is the one.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from probclass_core.errors import TableError, one_line
from probclass_core.execution.engine import Item, Result
from probclass_core.execution.serialization import answer_of, packed, parcel, settled
from probclass_core.execution.threads import available_processors


@dataclass
class _Errand:
    """An item that is to be done.

    Attributes:
        item: what.
        sent: the same, packed.
        future: its answer; none where nobody was asked for it yet.
        suspect: it was under way when a worker was lost, and is to be done alone.
    """

    item: object
    sent: bytes
    future: Future[bytes] | None = None
    suspect: bool = False

    @property
    def done(self) -> bool:
        """Whether there is an answer."""
        future = self.future
        return future is not None and future.done() and future.exception() is None


class GivenExecutor:
    """An engine over somebody's executor, which lasts beyond it.

    At most two items per worker are under way or waiting.

    Args:
        executor: its processes, if it has any, can import probclass.
        workers: how many it has; by default, the processors this process may use.
    """

    in_process = False

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self.executor = executor
        self.workers = available_processors() if workers is None else workers

    def renew(self, suspects: Sequence[str]) -> None:
        """Have another executor in place of a broken one.

        Raises:
            TableError: there is none.
        """
        raise TableError(
            f"{self.executor} lost a worker at one of {', '.join(suspects)}; give another "
            "executor, or the engine 'processes', which starts new workers by itself."
        )

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """See `Engine.map`."""
        here = isinstance(self.executor, (ProcessPoolExecutor, ThreadPoolExecutor))
        with parcel(work, on_this_machine=here) as sent:
            yield from self._answers(sent, items)

    def _answers(self, work: bytes, items: Iterable[Any]) -> Iterator[Any]:
        under_way: deque[_Errand] = deque()

        def ask(errand: _Errand) -> None:
            errand.future = self.executor.submit(answer_of, work, errand.sent)

        try:
            for item in items:
                under_way.append(_Errand(item, packed(item)))
                if not under_way[0].suspect:
                    self._ask_all(under_way, ask)
                if len(under_way) >= 2 * self.workers:
                    yield self._first(under_way, ask)
            while under_way:
                yield self._first(under_way, ask)
        finally:
            for errand in under_way:
                if errand.future is not None:
                    errand.future.cancel()

    def _ask_all(self, under_way: Iterable[_Errand], ask: Callable[[_Errand], None]) -> None:
        # Of an executor that is broken or closed; to be told where the first answer is waited for.
        with suppress(RuntimeError):
            for errand in under_way:
                if errand.future is None:
                    ask(errand)

    def _first(self, under_way: deque[_Errand], ask: Callable[[_Errand], None]) -> Any:
        first = under_way[0]
        if not first.suspect:
            self._ask_all(under_way, ask)
        answer = self._answer(under_way, ask)
        result = settled(first.item, answer, lambda: self._answer(under_way, ask))
        under_way.popleft()
        return result

    def _answer(
        self, under_way: deque[_Errand], ask: Callable[[_Errand], None]
    ) -> bytes | BrokenExecutor:
        """That of the first item, or how it lost its worker when it was alone."""
        first = under_way[0]
        while True:
            alone = first.suspect
            try:
                if first.future is None:
                    ask(first)
                assert first.future is not None
                answer, first.future = first.future.result(), None
                return answer
            except BrokenExecutor as error:
                lost = [errand for errand in under_way if not errand.done]
                self.renew([str(errand.item) for errand in lost])
                for errand in lost:
                    errand.future, errand.suspect = None, True
                if alone:
                    return error
            except Exception as error:
                reason = f"{type(error).__name__}: {one_line(error)}"
                raise TableError(f"{first.item}: {self.executor} failed: {reason}.") from error


class Processes(GivenExecutor):
    """Processes of this machine, as many as it has processors, for as long as the context lasts."""

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(_pool(workers or available_processors()), workers)

    def renew(self, suspects: Sequence[str]) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = _pool(self.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


def _pool(workers: int) -> ProcessPoolExecutor:
    # A fork would copy the locks of threads that are not copied.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
