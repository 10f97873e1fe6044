"""A DAG that trains and scores a model of two plugins, run once by `dag.test()`.

Its one argument is the folder where `distributions` has laid out the lake and the spec.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(sys.argv[1])
os.environ["AIRFLOW_HOME"] = str(HERE / "airflow")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(HERE / "airflow" / "dags")


def run() -> str:
    """State of a run whose tasks train on six months and score the seventh."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk import DAG

    from probclass_airflow import ProbClassScoreOperator, ProbClassTrainOperator

    with DAG("weather", schedule=None) as dag:
        train = ProbClassTrainOperator(
            task_id="train",
            source=str(HERE / "lake"),
            where=[("month", "<", "2010-07")],
            spec=str(HERE / "weather.toml"),
            store=str(HERE / "models"),
            model="weather",
        )
        ProbClassScoreOperator(
            task_id="score",
            source=str(HERE / "lake"),
            sink=str(HERE / "scored_by_dag"),
            partition={"month": "2010-07"},
            store=str(HERE / "models"),
            model=train.output["model"],
        )
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(os.devnull, bundle_name="dags-folder")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    return str(dag.test(logical_date=datetime(2010, 8, 1, tzinfo=UTC)).state)


def main() -> None:
    """Run it, and compare with what the command line trained and scored."""
    (HERE / "airflow" / "dags").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, stdout=-3)
    state = run()
    assert state == "success", state

    import probclass_core as pc

    assert Path(pc.__file__).is_relative_to(HERE), "probclass is not that of the wheel"
    store = pc.ModelStore(HERE / "models")
    by_dag, by_hand = store.load("weather"), store.load("air")
    assert by_dag.id == by_hand.id
    assert by_dag.training["passes"] > 1
    rows = [pc.inspect_table(str(HERE / one)).rows for one in ("scored", "scored_by_dag")]
    assert rows[0] == rows[1] == 744, rows
    sys.stdout.write(f"the DAG: {state}, model {by_dag.id[:12]}, {rows[1]} rows scored\n")


if __name__ == "__main__":
    main()
