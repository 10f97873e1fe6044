"""Find unusual weather without labels: retrain, compare densities and score each month.

In each run, a density of all rows is trained on up to 24 months and compared with the champion on
the next. The month of the run is scored with the rarity of each row, and what each column adds to
its surprise. The run is red if the month has many rare rows, or its columns are unlike the
training's.
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
    schedule=CronDataIntervalTimetable("@monthly", timezone="UTC"),
    start_date=datetime(2011, 3, 1, tzinfo=UTC),  # with more than a year of rows before
    end_date=datetime(2014, 12, 31, tzinfo=UTC),  # the end of the bundled data
    catchup=False,
    max_active_runs=1,  # each run depends on the one before
    tags=["probclass", "air quality"],
)
def air_quality_unusual() -> None:
    operate_model(
        "weather",
        source=f"{HOME}/lake",
        sink=f"{HOME}/scored/weather",
        store=f"{HOME}/models",
        partition={"month": "{{ data_interval_start.strftime('%Y-%m') }}"},
        label_column=None,
        exclude=["time", "hour", "air", "pm25", "log_wind_speed"],
        options={"columns": ["time"], "rare": 0.001, "contributions": True},
    )


air_quality_unusual()
