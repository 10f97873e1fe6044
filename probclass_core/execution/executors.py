"""Worker processes of this machine, and executors (`concurrent.futures.Executor`) of the caller.

When a worker process is lost, its whole pool breaks, and nothing says which item it was working on.
So the items that were running are retried one by one in a new pool: the item whose retry loses a
worker is the culprit.
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

from probclass_core.errors import SpecError, TableError, one_line
from probclass_core.execution.engine import Item, Result
from probclass_core.execution.serialization import resolve, run, serialize, serialize_work
from probclass_core.execution.threads import available_processors


@dataclass
class _Task:
    """An item to run.

    Attributes:
        item: the item.
        serialized: the item, serialized.
        future: future of its answer, or None if it is not submitted.
        suspect: whether it was running when a worker was lost, and must be retried alone.
    """

    item: object
    serialized: bytes
    future: Future[bytes] | None = None
    suspect: bool = False

    @property
    def done(self) -> bool:
        """Whether it has an answer."""
        future = self.future
        return future is not None and future.done() and future.exception() is None


class ExecutorEngine:
    """An engine over the caller's executor, which stays open.

    At most two items per worker are running or waiting.

    Args:
        executor: executor; its processes, if it has any, can import probclass.
        workers: number of its workers; None for the number of processors this process may use.
    """

    in_process = False

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self.executor = executor
        self.workers = available_processors() if workers is None else workers

    def replace_executor(self, suspects: Sequence[str]) -> None:
        """Replace a broken executor by a new one.

        Args:
            suspects: names of the items that were running.

        Raises:
            TableError: if it cannot be replaced.
        """
        raise TableError(
            f"{self.executor} lost a worker at one of {', '.join(suspects)}; give another "
            "executor, or the engine 'processes', which starts new workers by itself."
        )

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """See `Engine.map`."""
        on_this_machine = isinstance(self.executor, (ProcessPoolExecutor, ThreadPoolExecutor))
        with serialize_work(work, share=on_this_machine) as serialized:
            yield from self._run_all(serialized, items)

    def _run_all(self, work: bytes, items: Iterable[Any]) -> Iterator[Any]:
        tasks: deque[_Task] = deque()

        def submit(task: _Task) -> None:
            task.future = self.executor.submit(run, work, task.serialized)

        try:
            for item in items:
                tasks.append(_Task(item, serialize(item)))
                if not tasks[0].suspect:
                    self._submit_all(tasks, submit)
                if len(tasks) >= 2 * self.workers:
                    yield self._first_result(tasks, submit)
            while tasks:
                yield self._first_result(tasks, submit)
        finally:
            for task in tasks:
                if task.future is not None:
                    task.future.cancel()

    def _submit_all(self, tasks: Iterable[_Task], submit: Callable[[_Task], None]) -> None:
        # A broken or closed executor refuses; `_first_answer` submits again and reports it.
        with suppress(RuntimeError):
            for task in tasks:
                if task.future is None:
                    submit(task)

    def _first_result(self, tasks: deque[_Task], submit: Callable[[_Task], None]) -> Any:
        first = tasks[0]
        if not first.suspect:
            self._submit_all(tasks, submit)
        answer = self._first_answer(tasks, submit)
        result = resolve(first.item, answer, lambda: self._first_answer(tasks, submit))
        tasks.popleft()
        return result

    def _first_answer(
        self, tasks: deque[_Task], submit: Callable[[_Task], None]
    ) -> bytes | BrokenExecutor:
        """The answer of the first task, or the error if it lost its worker while it ran alone."""
        first = tasks[0]
        while True:
            alone = first.suspect
            try:
                if first.future is None:
                    submit(first)
                assert first.future is not None
                answer, first.future = first.future.result(), None
                return answer
            except BrokenExecutor as error:
                lost = [task for task in tasks if not task.done]
                self.replace_executor([str(task.item) for task in lost])
                for task in lost:
                    task.future, task.suspect = None, True
                if alone:
                    return error
            except Exception as error:
                reason = f"{type(error).__name__}: {one_line(error)}"
                executor = type(self.executor).__name__
                raise TableError(f"{first.item}: {executor} failed: {reason}.") from error


class Processes(ExecutorEngine):
    """The engine of this machine's processes, which end with the context.

    Args:
        workers: number of processes; None for the number of processors this process may use.
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(_pool(workers or available_processors()), workers)
        self._first = self.executor.submit(available_processors)

    def replace_executor(self, suspects: Sequence[str]) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = _pool(self.workers)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        try:
            self._first.result()
        except BrokenExecutor:
            raise SpecError(_NO_GUARD) from None
        return super().map(work, items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


_NO_GUARD = (
    "worker processes end as soon as they start, as when a script starts them outside "
    "`if __name__ == '__main__':`, for each process imports the script; put the call below that "
    "line, or use threads."
)


def _pool(workers: int) -> ProcessPoolExecutor:
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SpecError(_NO_GUARD)  # in a worker that imports the script
    # A fork would copy the locks of other threads, but not the threads.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
