"""A model operated month by month: calibrated, judged, with a fallback to the class prior."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import CronDataIntervalTimetable, dag

from probclass_airflow import operate_model

HOME = os.environ["PROBCLASS_HOME"]


@dag(
    schedule=CronDataIntervalTimetable("@monthly", timezone="UTC"),
    start_date=datetime(2011, 1, 1, tzinfo=UTC),
    end_date=datetime(2014, 12, 31, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
)
def years() -> None:
    """One run per month."""
    operate_model(
        "air",
        source=f"{HOME}/lake",
        sink=f"{HOME}/scored/air",
        store=f"{HOME}/models",
        partition={"month": "{{ data_interval_start.strftime('%Y-%m') }}"},
        label_column="air",
        exclude=["pm25"],  # from which the label is made
        columns=["time"],
        workers=1,
    )


years()
