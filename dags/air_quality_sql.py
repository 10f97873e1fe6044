"""Score each day where it is: in PostgreSQL, by a connection of Airflow.

No row leaves the database. A day is replaced in one transaction, together with the record of the
commit in the table `probclass_commits`. The model is the champion that `air_quality_champion`
promotes; the table `air_quality` has the columns of the lake and the day as text.
"""

from __future__ import annotations

from air_quality_settings import DAILY, DAY, STORE
from airflow.sdk import Asset, dag

from probclass_airflow import ProbClassSQLScoreOperator


@dag(doc_md=__doc__, **DAILY)
def air_quality_sql() -> None:
    ProbClassSQLScoreOperator(
        task_id="score",
        conn_id="warehouse",
        source="air_quality",
        sink="air_quality_scored",
        store=STORE,
        model="air_full@champion",
        partition={"day": DAY},
        options={"columns": ["hour", "air"]},
        outlets=[Asset("air_quality_scored")],
    )


air_quality_sql()
