"""One train and score cycle of four months, whose first scoring holds still until it is killed."""

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


class HeldScoreOperator(ProbClassScoreOperator):
    """Whoever scores first leaves its process id in the file `held`, and goes no further.

    Its rows are read by then, and nothing is committed.
    """

    def watch(self, *progress: Any) -> None:
        """Hold the first, and let all others pass."""
        super().watch(*progress)
        try:
            with Path(HOME, "held").open("x") as held:
                held.write(f"{os.getpid()}\n")
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
    train >> HeldScoreOperator.partial(
        task_id="score",
        source=f"{HOME}/lake",
        sink=f"{HOME}/scored",
        store=f"{HOME}/models",
        model="air@champion",
        columns=["time", "air"],
    ).expand(partition=[{"month": month} for month in MONTHS])
