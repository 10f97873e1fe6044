"""Run one DAG with Airflow's OpenLineage provider, which writes events to a file.

Started as ``python lineage_run.py <lake> <folder>``, with AIRFLOW_HOME set. The provider reads its
settings once, when it is imported, so the DAG runs in a new process.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

SPEC = {
    "label": "air",
    "blocks": {"gaussian_full": ["dew_point", "temperature"], "categorical": ["wind_direction"]},
}
MARCH, APRIL = {"month": "2013-03"}, {"month": "2013-04"}


def main(lake: str, folder: Path) -> None:
    """Train, score, evaluate, promote, and fail to score."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk import DAG

    from probclass_airflow import (
        ProbClassEvaluateOperator,
        ProbClassPromoteOperator,
        ProbClassScoreOperator,
        ProbClassTrainOperator,
    )

    read = {"source": lake, "store": str(folder / "models")}
    with DAG("lineage", schedule=None) as dag:
        train = ProbClassTrainOperator(
            task_id="train", spec=SPEC, model="air", alias="new", partition=MARCH, **read
        )
        score = ProbClassScoreOperator(
            task_id="score",
            model="air@new",
            partition=APRIL,
            options={"columns": ["time", "air"]},
            sink=str(folder / "scored"),
            **read,
        )
        evaluate = ProbClassEvaluateOperator(
            task_id="evaluate", model="air@new", partition=APRIL, **read
        )
        promote = ProbClassPromoteOperator(
            task_id="promote", model="air@new", partition=APRIL, floor=None, **read
        )
        fail = ProbClassScoreOperator(
            task_id="fail",
            model="air@new",
            partition={"month": "2031-01"},
            sink=str(folder / "never"),
            **read,
        )
        train >> score >> evaluate >> promote >> fail
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(os.devnull, bundle_name="dags-folder")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    dag.test(logical_date=datetime(2013, 5, 1, tzinfo=UTC))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
