"""Rows that are added, and looked at, by several at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from additions import FEBRUARY, JANUARY, OF_FEBRUARY, OF_JANUARY, Arrives, append
from fsspec.implementations.memory import MemoryFile
from homes import HOMES, Home

import probclass_core as pc


def at_once(scorings: list[Callable[[Any], Any]]) -> None:
    """Run them in threads, all at the point of their commit at the same moment."""
    barrier = threading.Barrier(len(scorings))

    def wait_at_the_end(done: int, total: int | None) -> None:
        if done == total:
            barrier.wait(60)

    errors: list[BaseException] = []

    def run(scoring: Callable[[Any], Any]) -> None:
        try:
            scoring(wait_at_the_end)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in scorings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("new", [True, False], ids=["a new table", "a table"])
def test_who_add_at_once_all_add(home: Home, model: pc.Model, arrives: Arrives, new: bool) -> None:
    sink = home.ref("scored")
    first = home.ref("another" if new else "scored")  # a catalog is made by one alone
    append(model, arrives("first", start=-100.0, size=2), first, partition=JANUARY)
    before = [] if new else [("2014-01", -100.0), ("2014-01", -99.0)]
    sources = [arrives(str(n), start=10.0 * n, size=10) for n in range(4)]
    at_once(
        [
            lambda meet, source=source: append(
                model, source, sink, partition=JANUARY, progress=meet, workers=1
            )
            for source in sources
        ]
    )
    assert home.xs("scored") == [*before, *OF_JANUARY]


def test_two_attempts_at_one_input_add_it_once(
    home: Home, model: pc.Model, arrives: Arrives
) -> None:
    sink, source = home.ref("scored"), arrives("first")
    append(model, arrives("zero", "2014-02"), sink, partition=FEBRUARY)
    at_once(
        [
            lambda meet: append(model, source, sink, partition=JANUARY, progress=meet, workers=1)
            for _ in range(3)
        ]
    )
    assert home.xs("scored") == [*OF_JANUARY, *OF_FEBRUARY]


def test_who_looks_meanwhile_sees_each_input_whole(
    model: pc.Model, arrives: Arrives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some stores of fsspec show a file as soon as it is opened; this one is slow to fill it."""

    def slowly(file: MemoryFile, data: bytes) -> int:
        time.sleep(0.005)
        return BytesIO.write(file, data)

    monkeypatch.setattr(MemoryFile, "write", slowly, raising=False)
    sink = HOMES["store"](tmp_path).ref("scored")
    append(model, arrives("first", size=10), sink, partition=JANUARY)
    sources = [arrives(str(n), start=10.0 * n, size=10) for n in range(1, 10)]
    seen = []
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(
            lambda: [append(model, source, sink, partition=JANUARY) for source in sources]
        )
        while not adding.done():
            seen.append(pc.open_table(sink).plan().rows)
    adding.result()
    assert seen == sorted(seen)
    assert {*seen} <= {*range(10, 101, 10)}
    assert pc.open_table(sink).plan().rows == 100
