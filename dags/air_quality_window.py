"""Train on the last ninety days every day, and score the day.

The window moves by one day, and the statistics of each day are cached in the store: a run reads one
new day and merges it with eighty-nine cached ones.

The lake is partitioned by day; write it with
`python -m probclass_core.demo.lake $PROBCLASS_HOME/days day`.
"""

from __future__ import annotations

from air_quality_settings import DAILY, DAY, DAYS, SCORED, SPECS, STORE
from airflow.sdk import Asset, dag

from probclass_airflow import ProbClassScoreOperator, ProbClassTrainOperator

MODEL = "air_window"
FIRST = "{{ data_interval_start.subtract(days=90).strftime('%Y-%m-%d') }}"


@dag(doc_md=__doc__, **DAILY)
def air_quality_window() -> None:
    train = ProbClassTrainOperator(
        task_id="train",
        source=DAYS,
        where=[("day", ">=", FIRST), ("day", "<", DAY)],
        spec=f"specs/{SPECS[0].name}",
        store=STORE,
        model=MODEL,
        cache=True,
        outlets=[Asset(f"{MODEL}.model")],
    )
    ProbClassScoreOperator(
        task_id="score",
        source=DAYS,
        sink=f"{SCORED}/{MODEL}",
        store=STORE,
        # The version of this run, even if a later one is trained.
        model=train.output["model"],
        partition={"day": DAY},
        options={"columns": ["time", "air"]},
        outlets=[Asset(f"{MODEL}.scored")],
    )


air_quality_window()
