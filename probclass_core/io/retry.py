"""What to do when a store does not answer: wait and ask again, where that can help.

Throttling and dropped connections pass; a missing bucket and a refused key do not. What a store
said is known by its words alone, for the libraries below raise ``OSError`` for all of it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

TRIES = 4
"""Of one piece of work. Below it the libraries try a few times more on their own."""

_FIRST_PAUSE = 0.2
"""Seconds that the first pause takes at least; it takes up to twice as many."""

_PASSES = re.compile(
    r"slow.?down|throttl|too.?many.?requests|service.?unavailable|internal.?(failure|error)"
    r"|server.?busy|timed?.?out|reset|broken pipe|connection aborted|returned nothing"
    r"|network_connection|unexpected end of stream|\b(429|500|502|503|504)\b",
    re.IGNORECASE,
)
_STAYS = re.compile(r"curlCode: [67]\b|could not (connect|resolve)", re.IGNORECASE)


def may_pass(error: BaseException) -> bool:
    """Whether asking again can help."""
    text = str(error)
    return _PASSES.search(text) is not None and _STAYS.search(text) is None


class Patience:
    """With one piece of work: a handful of tries, with pauses that double and vary by chance."""

    def __init__(self) -> None:
        self._failed = 0

    def wait(self, error: Exception) -> None:
        """Sleep before the next try; raise the error where there is to be none."""
        self._failed += 1
        if self._failed >= TRIES or not may_pass(error):
            raise error
        time.sleep(random.uniform(0.5, 1.0) * _FIRST_PAUSE * 2**self._failed)


def patiently(work: Callable[[], Result]) -> Result:
    """What ``work`` returns, tried again where its error may pass; it must bear repeating."""
    patience = Patience()
    while True:
        try:
            return work()
        except OSError as error:
            patience.wait(error)
