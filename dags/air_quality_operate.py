"""Operate a model: retrain, judge, fall back and score each month, in one task group.

`make demo` runs this file. In each run, a challenger is trained on up to 24 months and judged on
the next, which is the last month with labels. The month of the run has no labels yet; the champion
scores it, or the class prior while the champion is worse than the prior.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import CronDataIntervalTimetable, dag

from probclass_airflow import operate_model

HOME = os.environ.get("PROBCLASS_HOME", str(Path.home() / "probclass"))


@dag(
    doc_md=__doc__,
    # "@monthly" alone has no data interval in Airflow 3.
    schedule=CronDataIntervalTimetable("@monthly", timezone="UTC"),
    start_date=datetime(2011, 3, 1, tzinfo=UTC),  # with more than a year of rows before
    end_date=datetime(2014, 12, 31, tzinfo=UTC),  # the end of the bundled data
    catchup=False,
    max_active_runs=1,  # each run depends on the one before
    tags=["probclass", "air quality"],
)
def air_quality_operate() -> None:
    operate_model(
        "air",
        source=f"{HOME}/lake",
        sink=f"{HOME}/scored/air",
        store=f"{HOME}/models",
        partition={"month": "{{ data_interval_start.strftime('%Y-%m') }}"},
        label_column="air",
        exclude=["pm25"],  # from which the label is made
        options={"columns": ["time"]},
    )


air_quality_operate()
