"""Score the month, then see how well that went.

Each month, every model that `air_quality_train` named after it scores that partition of the lake
into the same partition of `scored/<model>`, and is then measured on the rows whose class is known.
"""

from __future__ import annotations

from datetime import timedelta

from air_quality_settings import LAKE, MONTH, MONTHLY, SCORED, SPECS, STORE
from airflow.sdk import Asset, TaskGroup, dag

from probclass_airflow import ProbClassEvaluateOperator, ProbClassScoreOperator


@dag(
    doc_md=__doc__,
    # The model of the month may still be in training: no such alias yet, so try again.
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
                columns=["time", "air"],
                outlets=[Asset(f"{spec.stem}.scored")],
            )
            ProbClassEvaluateOperator(
                task_id="evaluate",
                source=LAKE,
                store=STORE,
                # The very version that scored, even if the alias has moved since.
                model=score.output["model"],
                partition={"month": MONTH},
                outlets=[Asset(f"{spec.stem}.quality")],
            )


air_quality_score()
