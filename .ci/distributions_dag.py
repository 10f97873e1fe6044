"""A DAG that trains and scores a model with estimators of two plugins, run once by `dag.test()`.

Its only argument is the folder in which `distributions` has written the lake and the spec.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

OUTPUT = Path(sys.argv[1])
os.environ["AIRFLOW_HOME"] = str(OUTPUT / "airflow")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(OUTPUT / "airflow" / "dags")


def run() -> str:
    """Train on six months, score the seventh, and return the state of the DAG run."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk import DAG

    from probclass_airflow import ProbClassScoreOperator, ProbClassTrainOperator

    with DAG("weather", schedule=None) as dag:
        train = ProbClassTrainOperator(
            task_id="train",
            source=str(OUTPUT / "lake"),
            where=[("month", "<", "2010-07")],
            spec=str(OUTPUT / "weather.toml"),
            store=str(OUTPUT / "models"),
            model="weather",
        )
        ProbClassScoreOperator(
            task_id="score",
            source=str(OUTPUT / "lake"),
            sink=str(OUTPUT / "scored_by_dag"),
            partition={"month": "2010-07"},
            store=str(OUTPUT / "models"),
            model=train.output["model"],
        )
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(os.devnull, bundle_name="dags-folder")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    return str(dag.test(logical_date=datetime(2010, 8, 1, tzinfo=UTC)).state)


def main() -> None:
    """Run the DAG and compare its model and scores with those of the command line."""
    (OUTPUT / "airflow" / "dags").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, stdout=-3)
    state = run()
    assert state == "success", state

    import probclass_airflow
    import probclass_core as pc

    for package in (pc, probclass_airflow):
        assert Path(package.__file__).is_relative_to(OUTPUT), f"{package} is not from its wheel"
    store = pc.ModelStore(OUTPUT / "models")
    by_dag, by_cli = store.load("weather"), store.load("air")
    assert by_dag.id == by_cli.id
    assert by_dag.training["passes"] > 1
    rows = [pc.inspect_table(str(OUTPUT / table)).rows for table in ("scored", "scored_by_dag")]
    assert rows[0] == rows[1] == 744, rows
    sys.stdout.write(f"the DAG: {state}, model {by_dag.id[:12]}, {rows[1]} rows scored\n")


if __name__ == "__main__":
    main()
