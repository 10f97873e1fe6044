"""What the air-quality DAGs agree on: where things lie, which models, which months or days.

The bundled data end with 2014, and so do the DAGs: backfill them over any months of 2011 to 2014.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, Param

SPECS = sorted((Path(__file__).parent / "specs").glob("*.toml"))
"""One model for each spec file, of the same name."""

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
            description="Directory or URI of lake, models and scored; by default $PROBCLASS_HOME.",
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
    # Not "@monthly", which in Airflow 3 is a trigger without a data interval.
    "schedule": CronDataIntervalTimetable("@monthly", timezone="UTC"),
    **YEARS,
}

DAILY: dict[str, Any] = {
    "schedule": CronDataIntervalTimetable("@daily", timezone="UTC"),
    **YEARS,
}
