"""Train, and score four months; the first scoring waits until it is killed."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from probclass_airflow import ProbClassScoreOperator, ProbClassTrainOperator

HOME = os.environ["PROBCLASS_HOME"]
MONTHS = ["2014-01", "2014-02", "2014-03", "2014-04"]


class WaitingScoreOperator(ProbClassScoreOperator):
    """The first task to score writes its process id to the file `waiting` and then waits.

    It has read its rows and committed nothing.
    """

    def on_progress(self, *progress: Any) -> None:
        """Wait in the first task, continue in all others."""
        super().on_progress(*progress)
        try:
            with Path(HOME, "waiting").open("x") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            return
        time.sleep(600)


with DAG(
    "air_cycle",
    schedule=None,
    is_paused_upon_creation=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
):
    train = ProbClassTrainOperator(
        task_id="train",
        source=f"{HOME}/lake",
        where=[("month", ">=", "2013-01"), ("month", "<", "2014-01")],
        spec=f"{HOME}/spec.toml",
        store=f"{HOME}/models",
        model="air",
        alias="champion",
    )
    train >> WaitingScoreOperator.partial(
        task_id="score",
        source=f"{HOME}/lake",
        sink=f"{HOME}/scored",
        store=f"{HOME}/models",
        model="air@champion",
        options={"columns": ["time", "air"]},
    ).expand(partition=[{"month": month} for month in MONTHS])
