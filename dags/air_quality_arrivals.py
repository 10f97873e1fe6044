"""Say when the rows or the labels of a month are late, while everything else goes on.

Two DAGs wait, each month, for the rows of the month and for its labels. A run that has not ended by
its deadline says so, and waits on; once they are there, an asset event can start what needs them.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from air_quality_settings import LAKE, MONTH, MONTHLY
from airflow.sdk import Asset, DeadlineAlert, DeadlineReference, SyncCallback, dag, task


def say(context: dict[str, Any], text: str) -> None:
    """Say it in a log; in its place, a notifier such as SlackNotifier sends the text."""
    logging.getLogger(__name__).error("%s: %s", context["dag_run"]["dag_run_id"], text)


def air_quality_arrivals(what: str, least_share: float, due: timedelta) -> None:
    """A DAG that waits until a month has rows, and labels for at least a share of them."""
    late = DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,  # the end of the month, if the DAG is on
        interval=due,
        callback=SyncCallback(say, {"text": f"the {what} of the month are late: ask their owner"}),
    )

    @dag(dag_id=f"air_quality_{what}", doc_md=__doc__, deadline=late, **MONTHLY)
    def wait() -> None:
        # Looks about a hundred times until the deadline, and gives up long after it.
        @task.sensor(
            mode="reschedule",
            poke_interval=due.total_seconds() / 100,
            timeout=10 * due.total_seconds(),
            outlets=[Asset(f"air.{what}")],
        )
        def arrived(lake: str, month: str) -> bool:
            from probclass_core.errors import TableError
            from probclass_core.io.selection import count_labels

            try:
                counts = count_labels(lake, "air", partition={"month": month})
            except TableError:  # there is no such partition yet
                return False
            return counts.share >= least_share

        arrived(LAKE, MONTH)

    wait()


air_quality_arrivals("rows", 0.0, timedelta(hours=6))
air_quality_arrivals("labels", 0.5, timedelta(days=20))
