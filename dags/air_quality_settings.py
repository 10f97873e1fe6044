"""Settings that the air-quality DAGs share: paths, models, templates of months and days.

The bundled data end with 2014, and so do the schedules: backfill any months of 2011 to 2014.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, Param

SPECS = sorted((Path(__file__).parent / "specs").glob("*.toml"))
"""Spec files; each defines the model of the same name."""

LAKE = "{{ params.home }}/lake"
DAYS = "{{ params.home }}/days"
STORE = "{{ params.home }}/models"
SCORED = "{{ params.home }}/scored"

MONTH = "{{ data_interval_start.strftime('%Y-%m') }}"
YEAR_BEFORE = "{{ data_interval_start.subtract(years=1).strftime('%Y-%m') }}"
DAY = "{{ data_interval_start.strftime('%Y-%m-%d') }}"

COMMON: dict[str, Any] = {
    "params": {
        "home": Param(
            os.environ.get("PROBCLASS_HOME", str(Path.home() / "probclass")),
            type="string",
            minLength=1,
            description="Directory or URI of lake, models and scored; default: $PROBCLASS_HOME.",
        )
    },
    "tags": ["probclass", "air quality"],
}

YEARS: dict[str, Any] = {
    "start_date": datetime(2011, 1, 1, tzinfo=UTC),
    "end_date": datetime(2014, 12, 31, tzinfo=UTC),
    "catchup": False,
    **COMMON,
}

MONTHLY: dict[str, Any] = {
    # "@monthly" alone has no data interval in Airflow 3.
    "schedule": CronDataIntervalTimetable("@monthly", timezone="UTC"),
    **YEARS,
}

DAILY: dict[str, Any] = {
    "schedule": CronDataIntervalTimetable("@daily", timezone="UTC"),
    **YEARS,
}
