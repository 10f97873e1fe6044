"""Operators as decorators: a function returns arguments, the operator works with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from airflow.sdk import DAG, Asset, task
from airflow.sdk.exceptions import AirflowFailException

import probclass_core as pc

SPEC = {"label": "air", "blocks": [{"estimator": "gaussian_full", "columns": ["temperature"]}]}


@pytest.fixture
def places(lake: str, tmp_path: Path) -> dict[str, str]:
    return {"source": lake, "store": str(tmp_path / "models")}


def test_a_function_chooses_the_rows(
    run_dag: Callable[..., Any], places: dict[str, str], lake: str, tmp_path: Path
) -> None:
    asset = Asset("decorated.scored")
    with DAG("decorated", schedule=None, default_args=places) as dag:

        @task.probclass_train(spec=SPEC, model="air", alias="champion")
        def train(first: str, data_interval_end: Any = None) -> dict[str, Any]:
            """Train on the months from the first up to the month of the run."""
            return {"where": [("month", ">=", first), ("month", "<", f"{data_interval_end:%Y-%m}")]}

        @task.probclass_score(
            sink=str(tmp_path / "scored"), model="{{ 'air' }}@champion", outlets=[asset]
        )
        def score(month: str):  # type: ignore[no-untyped-def]
            return {"partition": {"month": month}, "options": {"columns": ["time"]}}

        @task.probclass_evaluate(partition={"month": "{{ '2013-04' }}"})
        def evaluate(model: str) -> dict[str, str]:
            return {"model": model}

        trained = train("2013-01")
        scored = score.expand(month=["2013-03", "2013-04"])
        trained >> scored
        evaluate(trained["model"])
    ran = run_dag(dag, date="2013-03-01")
    assert {run.state for run in ran.values()} == {"success"}
    where = [("month", ">=", "2013-01"), ("month", "<", "2013-03")]
    model = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), where=where)
    assert ran["train"].result["model"] == f"air@{model.id}"
    rows = ds.dataset(tmp_path / "scored", partitioning="hive").to_table()
    assert rows.num_rows == (31 + 30) * 24
    assert [ran[f"score[{index}]"].result["partition"]["month"] for index in (0, 1)] == [
        "2013-03",
        "2013-04",
    ]
    assert ran["score[1]"].events == {"decorated.scored": ran["score[1]"].result}
    evaluation = pc.evaluate(model, lake, partition={"month": "2013-04"})
    assert ran["evaluate"].result["log_loss"] == evaluation.log_loss


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("2013-03", "the function returned '2013-03'; it must return a dict of arguments"),
        ({"month": "2013-03"}, "the function returned 'month', which is not one of changed, "),
        (
            {"partition": {"month": "2013-03"}},
            "'sink' is neither given to the decorator nor returned",
        ),
        ({"partition": {"month": ""}, "sink": "/no/such"}, r"partition\['month'\] is empty"),
    ],
    ids=["no dict", "unknown argument", "missing argument", "empty argument"],
)
def test_a_wrong_return_value_fails_without_a_retry(
    returned: Any, message: str, places: dict[str, str]
) -> None:
    with DAG("returns", schedule=None) as dag:

        @task.probclass_score(model="air@champion", **places)
        def score() -> Any:
            return returned

        score()
    with pytest.raises(AirflowFailException, match=message):
        dag.task_dict["score"].prepare_for_execution().execute({"run_id": "by hand"})
