"""Check for labels in the triggerer, for a sensor that is deferred."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from probclass_airflow.sensors import LabelCheck


class ProbClassLabelsTrigger(BaseTrigger):
    """Check at intervals until there are enough labels; the reads run in a thread.

    Args:
        check: the fields of a `LabelCheck`.
        poke_interval: seconds between two checks.
        deadline: when to stop, as seconds since the epoch.

    Yields:
        One event: counts (rows, labeled, share; null if the labels did not arrive in time), failed
        (whether waiting cannot help), and the last state in one sentence.
    """

    def __init__(self, check: Mapping[str, Any], poke_interval: float, deadline: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.check = check
        self.poke_interval = poke_interval
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments."""
        return f"{__name__}.{type(self).__name__}", {
            "check": dict(self.check),
            "poke_interval": self.poke_interval,
            "deadline": self.deadline,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until there are enough labels, the deadline has passed, or waiting cannot help."""
        # In a thread that asgiref starts, connections are read through this event loop.
        check = sync_to_async(LabelCheck(**self.check).run, thread_sensitive=False)
        while True:
            try:
                counts, state = await check()
            except AirflowFailException as error:
                yield _event(None, str(error), failed=True)
                return
            self.log.info("%s", state)
            left = self.deadline - time.time()
            if counts is not None or left <= 0:
                yield _event(counts, state)
                return
            await asyncio.sleep(min(self.poke_interval, left))


def _event(counts: dict[str, Any] | None, state: str, *, failed: bool = False) -> TriggerEvent:
    event = {"counts": counts, "failed": failed, "state": state}
    return TriggerEvent(event)  # type: ignore[no-untyped-call]
