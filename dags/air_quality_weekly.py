"""Train on Mondays, score each day of the week, and evaluate the week, with partitioned assets.

`air_quality_weekly_model` runs for a partition whose key is a Monday, such as `2014-01-06`, and
trains on the half year before it. Its asset event fans out: `air_quality_daily_score` runs for each
of the seven days from that Monday on, and scores the partition of that day. Once all seven are
scored, their events roll up: `air_quality_weekly_quality` runs for the Monday, and evaluates the
model on the week.

The lake is partitioned by day; write it with
`python -m probclass_core.demo.lake $PROBCLASS_HOME/days day`.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from air_quality_settings import COMMON, DAYS, SCORED, SPECS, STORE, YEARS
from airflow.sdk import (
    Asset,
    CronPartitionTimetable,
    FanOutMapper,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfWeekMapper,
    WeekWindow,
    dag,
)

from probclass_airflow import (
    ProbClassEvaluateOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)

MODEL = "air_weekly"
WEEKLY = Asset(f"{MODEL}.model")
SCORES = Asset(f"{MODEL}.scored")
KEY_FORMAT = "%Y-%m-%d"  # of the partition keys of all three DAGs and of the lake
WEEK: dict[str, Any] = {
    "upstream_mapper": StartOfWeekMapper(input_format=KEY_FORMAT, output_format=KEY_FORMAT),
    "window": WeekWindow(),
}


def days_after(day: str, days: int) -> str:
    """The date a number of days after a day, for templates."""
    return f"{date.fromisoformat(day) + timedelta(days=days)}"


def monday(day: str) -> str:
    """The Monday of the week of a day, for templates."""
    return days_after(day, -date.fromisoformat(day).weekday())


@dag(
    doc_md=__doc__,
    schedule=CronPartitionTimetable("0 0 * * 1", timezone="UTC", key_format=KEY_FORMAT),
    user_defined_macros={"days_after": days_after},
    **YEARS,
)
def air_quality_weekly_model() -> None:
    ProbClassTrainOperator(
        task_id="train",
        source=DAYS,
        where=[
            ("day", ">=", "{{ days_after(partition_key, -182) }}"),
            ("day", "<", "{{ partition_key }}"),
        ],
        spec=f"specs/{SPECS[0].name}",
        store=STORE,
        model=MODEL,
        alias="{{ partition_key }}",
        cache=True,
        outlets=[WEEKLY],
    )


@dag(
    doc_md=__doc__,
    schedule=PartitionedAssetTimetable(
        assets=WEEKLY, default_partition_mapper=FanOutMapper(**WEEK)
    ),
    user_defined_macros={"monday": monday},
    **COMMON,
)
def air_quality_daily_score() -> None:
    ProbClassScoreOperator(
        task_id="score",
        source=DAYS,
        sink=f"{SCORED}/{MODEL}",
        store=STORE,
        # The model of the week of the day, even if a later one is trained.
        model=f"{MODEL}@{{{{ monday(partition_key) }}}}",
        partition={"day": "{{ partition_key }}"},
        options={"columns": ["time", "air"]},
        outlets=[SCORES],
    )


@dag(
    doc_md=__doc__,
    schedule=PartitionedAssetTimetable(
        assets=SCORES, default_partition_mapper=RollupMapper(**WEEK)
    ),
    user_defined_macros={"days_after": days_after},
    **COMMON,
)
def air_quality_weekly_quality() -> None:
    ProbClassEvaluateOperator(
        task_id="evaluate",
        source=DAYS,
        where=[
            ("day", ">=", "{{ partition_key }}"),
            ("day", "<", "{{ days_after(partition_key, 7) }}"),
        ],
        store=STORE,
        model=f"{MODEL}@{{{{ partition_key }}}}",
    )


air_quality_weekly_model()
air_quality_daily_score()
air_quality_weekly_quality()
