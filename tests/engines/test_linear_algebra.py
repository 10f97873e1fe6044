"""Linear algebra runs on one thread during a fit, and on the former number of threads after it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import scipy.linalg  # noqa: F401 (loads the libraries that `blas_threads` counts)
from threadpoolctl import threadpool_info, threadpool_limits
from workloads import SPEC

import probclass_core as pc
from probclass_core.execution import threads

TIMEOUT = 60.0


def blas_threads() -> set[int]:
    """Numbers of threads of NumPy's and SciPy's libraries; other packages may load their own."""
    libraries = [
        library
        for library in threadpool_info()
        if re.search(r"\b(numpy|scipy)\b", library["filepath"])
    ]
    return {library["num_threads"] for library in libraries if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A generator that another test left unfinished would still hold the limit of the process.
    monkeypatch.setattr(threads, "_blas_limit", threads._BlasLimit())
    # In threads that end: until then, threadpoolctl would accept changes from no other.
    with ThreadPoolExecutor(1) as short_lived:
        limit = short_lived.submit(threadpool_limits, 2, "blas").result()
    yield
    assert blas_threads() == {2}, "the former number is restored"
    with ThreadPoolExecutor(1) as short_lived:
        short_lived.submit(limit.restore_original_limits).result()


def test_a_fit_that_ends_first_leaves_the_other_fit_on_one_thread(lake: Path) -> None:
    first_in, second_in, first_done = (threading.Event() for _ in range(3))
    seen: list[set[int]] = []

    def first(rows: int, total: int | None) -> None:
        first_in.set()
        assert second_in.wait(TIMEOUT)

    def second(rows: int, total: int | None) -> None:
        second_in.set()
        assert first_done.wait(TIMEOUT)
        seen.append(blas_threads())

    with ThreadPoolExecutor(2) as pool:
        first_fit = pool.submit(pc.fit, lake, SPEC, progress=first)
        assert first_in.wait(TIMEOUT)
        second_fit = pool.submit(pc.fit, lake, SPEC, progress=second)
        first_fit.result()
        first_done.set()
        assert second_fit.result().id == first_fit.result().id
        assert set.union(*seen) == {1}
        assert blas_threads() == {2}, "also while the threads of the fits are alive"
