"""Upkeep, once a week.

Removes what killed writers left of the scored tables, cached statistics that no training will use,
and old versions of the models, except those that an alias, a rollback or scored rows need.
"""

from __future__ import annotations

from air_quality_settings import COMMON, SCORED, SPECS, STORE
from airflow.sdk import dag

from probclass_airflow import ProbClassMaintainOperator


@dag(doc_md=__doc__, schedule="@weekly", catchup=False, **COMMON)
def air_quality_upkeep() -> None:
    ProbClassMaintainOperator(
        task_id="clean",
        store=STORE,
        tables=[f"{SCORED}/{spec.stem}" for spec in SPECS],
        keep=12,
        cache_days=800,  # longer than the two years that a training reads
    )


air_quality_upkeep()
