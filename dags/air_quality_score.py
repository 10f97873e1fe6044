"""Score a month, then evaluate the model on it.

Each month, every model to which `air_quality_train` has given the alias of the month scores that
partition of the lake into the same partition of `scored/<model>`, and is evaluated on the rows with
a known class.
"""

from __future__ import annotations

from datetime import timedelta

from air_quality_settings import LAKE, MONTH, MONTHLY, SCORED, SPECS, STORE
from airflow.sdk import Asset, TaskGroup, dag

from probclass_airflow import ProbClassEvaluateOperator, ProbClassScoreOperator


@dag(
    doc_md=__doc__,
    # The model of the month may still be in training; until then its alias does not exist.
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    **MONTHLY,
)
def air_quality_score() -> None:
    for spec in SPECS:
        with TaskGroup(spec.stem):
            score = ProbClassScoreOperator(
                task_id="score",
                source=LAKE,
                sink=f"{SCORED}/{spec.stem}",
                store=STORE,
                model=f"{spec.stem}@{MONTH}",
                partition={"month": MONTH},
                options={"columns": ["time", "air"]},
                outlets=[Asset(f"{spec.stem}.scored")],
            )
            ProbClassEvaluateOperator(
                task_id="evaluate",
                source=LAKE,
                store=STORE,
                # The version that scored, even if the alias has moved since.
                model=score.output["model"],
                partition={"month": MONTH},
                outlets=[Asset(f"{spec.stem}.quality")],
            )


air_quality_score()
