"""Score a range of months again after a promotion, in tasks of six months.

The asset of the champion triggers the run, which has no logical date; triggered by hand, the DAG
asks for the months. Months that the champion has already scored are left as they are.
"""

from __future__ import annotations

from air_quality_settings import COMMON, LAKE, SCORED, STORE
from airflow.sdk import Asset, Param, dag

from probclass_airflow import score_task_group

MODEL = "air_full"


@dag(
    doc_md=__doc__,
    schedule=[Asset(f"{MODEL}.champion")],
    params={
        **COMMON["params"],
        "first": Param("2014-01", type="string", pattern=r"^\d{4}-\d{2}$", title="First month"),
        "last": Param("2014-12", type="string", pattern=r"^\d{4}-\d{2}$", title="Last month"),
    },
    tags=COMMON["tags"],
)
def air_quality_rescore() -> None:
    score_task_group(
        "rescore",
        source=LAKE,
        sink=f"{SCORED}/champion",
        store=STORE,
        model=f"{MODEL}@champion",
        batch=6,
        partitions=[("month", ">=", "{{ params.first }}"), ("month", "<=", "{{ params.last }}")],
        options={"columns": ["time", "air"]},
        outlets=[Asset("champion.scored")],
    )


air_quality_rescore()
