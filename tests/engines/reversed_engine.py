"""A plugin with an engine that runs the last item first, and gives the results in order."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import probclass_core as pc
from probclass_core.authoring import EnginePlugin

PROBCLASS_API = 1

HANDLE = object()
"""The plugin recognizes this object as a handle of its engine."""


class ReversedEngine:
    in_process = False

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        pickles = [pickle.dumps((work, item)) for item in items]
        answers = []
        for pickled in reversed(pickles):
            call, item = pickle.loads(pickled)
            answers.append(pickle.dumps(call(item)))
        return map(pickle.loads, reversed(answers))


@pc.hookimpl
def probclass_engines() -> Iterable[EnginePlugin]:
    yield EnginePlugin(
        name="reversed",
        summary="this thread, the last item first",
        recognizes=lambda handle: handle is HANDLE,
        open=lambda handle, workers: contextlib.nullcontext(ReversedEngine()),
    )
