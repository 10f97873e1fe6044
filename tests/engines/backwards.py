"""An engine of another distribution: the last item first, and the answers in order all the same."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import probclass_core as pc

PROBCLASS_API = 1


class Backwards:
    in_process = False

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        sent = [pickle.dumps((work, item)) for item in items]
        answers = []
        for one in reversed(sent):
            call, item = pickle.loads(one)
            answers.append(pickle.dumps(call(item)))
        return map(pickle.loads, reversed(answers))


@pc.hookimpl
def probclass_engines() -> Iterable[pc.EnginePlugin]:
    yield pc.EnginePlugin(
        name="backwards",
        summary="this thread, the last item first",
        recognizes=lambda given: given == "the other way around",
        open=lambda handle, workers: contextlib.nullcontext(Backwards()),
    )
