"""Train, score, evaluate and judge one month; and a task that maps."""

from __future__ import annotations

from airflow.sdk import DAG

from probclass_airflow import (
    ProbClassEvaluateOperator,
    ProbClassPromoteOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)

WHERE = {"source": "lake", "store": "models"}  # in the working directory of Airflow
MONTHS = [{"month": month} for month in ("2014-01", "2014-02")]

with DAG("air", schedule=None):
    train = ProbClassTrainOperator(
        task_id="train",
        spec="air.json",
        model="air",
        where=[("month", "<", "2014-01"), ("month", ">=", "2013-07")],
        **WHERE,
    )
    score = ProbClassScoreOperator.partial(
        task_id="score",
        model="{{ ti.xcom_pull(task_ids='train')['model'] }}",
        sink="scored",
        columns=["time"],
        **WHERE,
    ).expand(partition=MONTHS)
    evaluate = ProbClassEvaluateOperator(
        task_id="evaluate",
        model="{{ ti.xcom_pull(task_ids='train')['model'] }}",
        partition=MONTHS[0],
        **WHERE,
    )
    promote = ProbClassPromoteOperator(
        task_id="promote",
        model="{{ ti.xcom_pull(task_ids='train')['model'] }}",
        partition=MONTHS[0],
        **WHERE,
    )
    train >> score >> evaluate >> promote
