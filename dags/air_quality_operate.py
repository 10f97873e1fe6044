"""Operate a model: retrain, judge, fall back and score in one task group.

Each month, a challenger is trained on twelve months, calibrated on the next and judged on the next,
the last one with labels: those of the month itself are not there yet. The month is scored by the
champion, or by the class prior while the champion is worse than it. Backfill months from 2011-03 on
with `--max-active-runs 1`, since each run depends on the one before.
"""

from __future__ import annotations

from air_quality_settings import LAKE, MONTH, MONTHLY, SCORED, STORE
from airflow.sdk import dag

from probclass_airflow import operate_model


@dag(doc_md=__doc__, max_active_runs=1, **MONTHLY)
def air_quality_operate() -> None:
    operate_model(
        "air",
        source=LAKE,
        sink=f"{SCORED}/air",
        store=STORE,
        partition={"month": MONTH},
        label_column="air",
        exclude=["pm25"],  # from which the label is made
        columns=["time", "air"],
    )


air_quality_operate()
