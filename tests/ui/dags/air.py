"""Train on six months, score two in mapped tasks, evaluate and promote on one."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from probclass_airflow import (
    ProbClassEvaluateOperator,
    ProbClassPromoteOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)

READ = {"source": "lake", "store": "models"}  # in Airflow's working directory
MONTHS = [{"month": month} for month in ("2014-01", "2014-02")]

with DAG("air", schedule=None):
    train = ProbClassTrainOperator(
        task_id="train",
        spec=str(Path("air.json").absolute()),
        model="air",
        where=[("month", "<", "2014-01"), ("month", ">=", "2013-07")],
        **READ,
    )
    score = ProbClassScoreOperator.partial(
        task_id="score",
        model="{{ ti.xcom_pull(task_ids='train')['model'] }}",
        sink="scored",
        options={"columns": ["time"]},
        **READ,
    ).expand(partition=MONTHS)
    evaluate = ProbClassEvaluateOperator(
        task_id="evaluate",
        model="{{ ti.xcom_pull(task_ids='train')['model'] }}",
        partition=MONTHS[0],
        **READ,
    )
    promote = ProbClassPromoteOperator(
        task_id="promote",
        floor=None,
        model="{{ ti.xcom_pull(task_ids='train')['model'] }}",
        partition=MONTHS[0],
        **READ,
    )
    train >> score >> evaluate >> promote
