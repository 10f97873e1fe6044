"""Undo a bad version: roll back, and score again what it has scored.

Trigger the DAG in Airflow's UI if the champion of `air_quality_operate` does harm, and say why. The
version before takes over, and the gate does not promote the one left behind again.
"""

from __future__ import annotations

from air_quality_settings import COMMON, LAKE, SCORED, STORE
from airflow.sdk import Param, dag

from probclass_airflow import rollback_task_group


@dag(
    doc_md=__doc__,
    schedule=None,
    params={**COMMON["params"], "reason": Param(type="string", minLength=3, title="Reason")},
    tags=COMMON["tags"],
)
def air_quality_undo() -> None:
    rollback_task_group(
        model="air",
        source=LAKE,
        sink=f"{SCORED}/air",
        store=STORE,
        options={"columns": ["time"]},
        reason="{{ params.reason }}",
    )


air_quality_undo()
