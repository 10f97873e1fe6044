"""Train in mapped tasks, and promote a model only if it beats the champion.

Each month, every model of `specs/` is fitted on the twelve months before it, shard by shard, and
compared with the champion on the month itself. The statistics of each file are cached in the store:
from the second run on, only one of the twelve months is read.
"""

from __future__ import annotations

from datetime import timedelta

from air_quality_settings import LAKE, MONTH, MONTHLY, SPECS, STORE, YEAR_BEFORE
from airflow.sdk import Asset, dag

from probclass_airflow import train_task_group


@dag(
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    # Each run compares with the champion of the run before; backfill with --max-active-runs 1.
    max_active_runs=1,
    **MONTHLY,
)
def air_quality_champion() -> None:
    for spec in SPECS:
        train_task_group(
            spec.stem,
            source=LAKE,
            where=[("month", ">=", YEAR_BEFORE), ("month", "<", MONTH)],
            held_out_partition={"month": MONTH},
            spec=f"specs/{spec.name}",
            store=STORE,
            model=spec.stem,
            min_shard_rows=2_000,  # because months are small here; the default fits larger tables
            outlets=[Asset(f"{spec.stem}.champion")],
        )


air_quality_champion()
