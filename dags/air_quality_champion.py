"""Train in mapped tasks, and promote only who beats the champion.

Each month, every model of `specs/` is fitted on the twelve months before it, shard by shard, and
judged on the month itself beside the champion so far. The statistics of a file are kept in the
store: from the second run on, one month is read and eleven are not.
"""

from __future__ import annotations

from datetime import timedelta

from air_quality_settings import LAKE, MONTH, MONTHLY, SPECS, STORE, YEAR_BEFORE
from airflow.sdk import Asset, dag

from probclass_airflow import train_task_group


@dag(
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    # A champion is judged against the one before it; backfill with --max-active-runs 1.
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
            spec=str(spec),
            store=STORE,
            model=spec.stem,
            min_shard_rows=2_000,  # months are small; a real table has no need of this
            outlets=[Asset(f"{spec.stem}.champion")],
        )


air_quality_champion()
