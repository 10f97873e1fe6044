"""Linear algebra runs on one thread while there is work, and as before when there is none."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401 (its library is to be there from the start)
from tasks import SPEC
from threadpoolctl import threadpool_info, threadpool_limits

import probclass_core as pc

WAIT = 60.0


def threads() -> set[int]:
    """Of the libraries that NumPy and SciPy brought; other packages bring theirs when they come."""
    ours = [one for one in threadpool_info() if re.search(r"\b(numpy|scipy)\b", one["filepath"])]
    return {one["num_threads"] for one in ours if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    # By a thread that ends: while it lived, threadpoolctl would mind no other.
    with ThreadPoolExecutor(1) as brief:
        limit = brief.submit(threadpool_limits, 2, "blas").result()
    yield
    assert threads() == {2}, "the number that was there is put back"
    limit.restore_original_limits()


def test_the_first_fit_to_end_leaves_the_other_its_one_thread(lake: Path) -> None:
    first_in, second_in, first_done = (threading.Event() for _ in range(3))
    seen: list[set[int]] = []

    def first(rows: int, total: int | None) -> None:
        first_in.set()
        assert second_in.wait(WAIT)

    def second(rows: int, total: int | None) -> None:
        second_in.set()
        assert first_done.wait(WAIT)
        seen.append(threads())

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(pc.fit, lake, SPEC, progress=first)
        assert first_in.wait(WAIT)
        other = pool.submit(pc.fit, lake, SPEC, progress=second)
        one.result()
        first_done.set()
        assert other.result().id == one.result().id
        assert set.union(*seen) == {1}
        assert threads() == {2}, "also while those who asked for one are alive"


def test_threads_of_an_executor_leave_it_as_it_was(lake: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pc.fit(lake, SPEC, engine=pool, workers=3)
            assert threads() == {2}
