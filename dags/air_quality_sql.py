"""Score each day where it is: in PostgreSQL, by a connection of Airflow.

No row leaves the database. A day is replaced in one transaction, together with the record of the
commit in the table `probclass_commits`; the record has the id of the run, so a retry changes
nothing. The model is the champion that `air_quality_champion` promotes; the table `air_quality` has
the columns of the lake and the day as text. The connection needs the provider of its type.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from air_quality_settings import DAILY, DAY, STORE
from airflow.sdk import Asset, BaseHook, dag, task


@dag(doc_md=__doc__, **DAILY)
def air_quality_sql() -> None:
    @task(outlets=[Asset("air_quality_scored")])
    def score(store: str, day: str, run_id: str | None = None) -> dict[str, Any]:
        import probclass_core as pc

        with closing(BaseHook.get_hook("warehouse").get_conn()) as connection:
            report = pc.score_sql(
                "air_full@champion",
                connection,
                "air_quality",
                "air_quality_scored",
                partition={"day": day},
                options={"columns": ["hour", "air"]},
                run_id=run_id,
                store=pc.ModelStore(store),
            )
        return {"day": day, "rows": report.rows, **report.counts}

    score(STORE, DAY)


air_quality_sql()
