"""Wrong arguments and wrong data fail at once, in one line; what may be temporary is retried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG, Asset, task
from airflow.sdk.exceptions import AirflowFailException

import probclass_core as pc
from probclass_airflow import (
    ProbClassCalibrateOperator,
    ProbClassEvaluateOperator,
    ProbClassMaintainOperator,
    ProbClassPlanBatchesOperator,
    ProbClassPlanShardsOperator,
    ProbClassPromoteOperator,
    ProbClassScoreOperator,
    ProbClassSummarizeOperator,
    ProbClassTrainOperator,
)
from probclass_airflow.retries import ProbClassRetryPolicy
from probclass_core.errors import (
    DataError,
    MissingLabelsError,
    PluginError,
    SpecError,
    StoreError,
    TableError,
    TableMismatchError,
)

SPEC = {"label": "air", "blocks": [{"estimator": "gaussian_full", "columns": ["temperature"]}]}
ADULT = Path(__file__).parents[2] / "probclass_core" / "demo" / "data" / "adult_test.parquet"
RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(0)}
NEEDED: dict[type, str] = {
    ProbClassCalibrateOperator: "source store model partition",
    ProbClassEvaluateOperator: "source store model partition",
    ProbClassMaintainOperator: "store",
    ProbClassPlanBatchesOperator: "source sink store model",
    ProbClassPlanShardsOperator: "source spec store",
    ProbClassPromoteOperator: "source store model partition",
    ProbClassScoreOperator: "source sink store model partition",
    ProbClassSummarizeOperator: "source spec store shard",
    ProbClassTrainOperator: "source spec store model",
}
"""Arguments without which an operator cannot be created."""


@pytest.fixture
def places(lake: str, tmp_path: Path) -> dict[str, Any]:
    """Right arguments of all operators."""
    store = pc.ModelStore(tmp_path / "models")
    january = {"month": "2013-01"}
    store.save(pc.fit(lake, pc.ModelSpec.from_dict(SPEC), partition=january), "air")
    return {
        "label_column": "air",
        "model": "air",
        "partition": {"month": "2013-02"},
        "shard": "0:1",
        "sink": str(tmp_path / "scored"),
        "source": lake,
        "spec": SPEC,
        "store": store.uri,
    }


def created(operator: type, places: dict[str, Any], fields: dict[str, Any], **more: Any) -> Any:
    needed = {name: places[name] for name in NEEDED[operator].split()}
    inside = {key: value.format(**places) for key, value in fields.items() if key == "sink"}
    return operator(**{"task_id": "task", **needed, **fields, **inside, **more})


def execute(operator: Any) -> Any:
    return operator.execute({"run_id": "by hand", "ti": Mock()})


BLOCKS = [{"estimator": "gaussian_fool", "columns": ["temperature"]}]
AT_ONCE: list[tuple[type, dict[str, Any], str]] = [
    # Templates that were rendered to nothing
    (ProbClassTrainOperator, {"alias": " "}, "alias is empty"),
    (ProbClassTrainOperator, {"where": [("month", ">=", "")]}, r"where\[0\]\[2\] is empty"),
    (ProbClassScoreOperator, {"partition": {"month": ""}}, r"partition\['month'\] is empty"),
    (ProbClassSummarizeOperator, {"shard": ""}, "shard is empty"),
    (ProbClassMaintainOperator, {"tables": [" "]}, r"tables\[0\] is empty after rendering"),
    # Texts that are not numbers, and numbers out of range
    (ProbClassPromoteOperator, {"margin": "much"}, "margin must be a number .*'much'"),
    (ProbClassMaintainOperator, {"keep": "some"}, "must be numbers, got 'some' and None"),
    (ProbClassMaintainOperator, {"keep": -1}, "keep must be a whole number of at least 0"),
    (ProbClassPlanShardsOperator, {"max_shards": 0}, "most must be a number of at least 1"),
    (
        ProbClassScoreOperator,
        {"partition": None, "partitions": {"limit": 0}},
        "limit must be a whole number of at least",
    ),
    (
        ProbClassScoreOperator,
        {"options": {"prior": {"a": "half", "b": 0.5}}},
        "the share of .* in a prior must",
    ),
    # Errors of the library: one of each kind, and the arguments that a task has alone
    (ProbClassTrainOperator, {"spec": {"label": "air", "blocks": BLOCKS}}, "gaussian_full"),
    (ProbClassTrainOperator, {"spec": SPEC | {"label": "ear"}}, "'ear'.*'air'"),
    (ProbClassScoreOperator, {"source": str(ADULT), "partition": None}, "no column 'temperature'"),
    (ProbClassScoreOperator, {"sink": "{source}/scored"}, "write the scored table outside"),
    (ProbClassSummarizeOperator, {"shard": "all"}, "'all' is not a shard"),
    (ProbClassPlanBatchesOperator, {"partitions": [("hour", "==", "3")]}, "no partition column"),
    (ProbClassTrainOperator, {"model": "my air"}, "'my air' cannot name a model"),
    (ProbClassScoreOperator, {"deleted": "drop"}, "deleted must be one of"),
    (ProbClassPromoteOperator, {"metric": "cost"}, "needs a decision with costs"),
]


@pytest.mark.parametrize(("operator", "fields", "message"), AT_ONCE)
def test_a_failure_that_a_retry_cannot_fix_is_one_line(
    operator: type, fields: dict[str, Any], message: str, places: dict[str, Any]
) -> None:
    with pytest.raises(AirflowFailException, match=message) as raised:
        execute(created(operator, places, fields))
    assert "\n" not in str(raised.value)


TEMPORARY: list[tuple[type, dict[str, Any], str]] = [
    (ProbClassTrainOperator, {"source": "/no/such"}, "/no/such"),
    (ProbClassScoreOperator, {"partition": {"month": "2031-01"}}, "2031-01"),
    (ProbClassEvaluateOperator, {"model": "air@runner-up"}, "no version or alias 'runner-up'"),
    (ProbClassPromoteOperator, {"partition": {"month": "2031-01"}}, "2031-01"),
    (ProbClassPlanShardsOperator, {"partition": {"month": "2031-01"}}, "2031-01"),
    (ProbClassSummarizeOperator, {"source": "/no/such"}, "/no/such"),
    (ProbClassPlanBatchesOperator, {"model": "water"}, "no model 'water'"),
]


@pytest.mark.parametrize(("operator", "fields", "message"), TEMPORARY)
def test_a_failure_that_may_be_temporary_is_an_error_of_the_library_in_one_line(
    operator: type, fields: dict[str, Any], message: str, places: dict[str, Any]
) -> None:
    with pytest.raises((TableError, StoreError), match=message) as raised:
        execute(created(operator, places, fields))
    assert "\n" not in str(raised.value)
    core = Path(pc.__file__).parent
    ours = [each for each in raised.traceback if core in Path(str(each.path)).parents]
    assert ours == [], "the log of the task shows frames of the library"


def test_airflow_retries_only_what_may_be_temporary(
    run_dag: Callable[..., Any], places: dict[str, Any]
) -> None:
    cases = {"at_once": AT_ONCE[:1] + AT_ONCE[14:16], "temporary": TEMPORARY[:3]}
    with DAG("failures", schedule=None) as dag:
        for name, failing in cases.items():
            for number, (operator, fields, _) in enumerate(failing):
                more = {"task_id": f"{name}_{number}", "outlets": [Asset("failed")], **RETRIES}
                created(operator, places, fields, **more)
    ran = run_dag(dag)
    assert {name: (run.state, run.tries, run.events) for name, run in ran.items()} == {
        f"{name}_{number}": ("failed", tries, {})
        for name, tries in (("at_once", 1), ("temporary", 3))
        for number in range(3)
    }
    results = {name: run.result for name, run in ran.items() if run.result is not None}
    assert {name: result["failed"] for name, result in results.items()} == {"temporary_1": 1}
    assert not Path(places["sink"]).exists()


@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (SpecError("no such option"), "fail"),
        (DataError("no such column"), "fail"),
        (PluginError("no such estimator"), "fail"),
        (TableMismatchError("no such column"), "fail"),
        (MissingLabelsError("no labels yet"), "retry"),
        (TableError("no such partition"), "retry"),
        (StoreError("no such model"), "retry"),
        (ConnectionError("no answer"), "retry"),
        (ZeroDivisionError("not ours"), "default"),
    ],
)
def test_the_policy_for_other_tasks_decides_by_the_error(error: Exception, decision: str) -> None:
    policy = ProbClassRetryPolicy(retry_delay=timedelta(minutes=5))
    decided = policy.evaluate(error, 1, 3)
    assert decided.action.value == decision
    if decision == "retry":
        assert decided.retry_delay == timedelta(minutes=5)
    assert (
        decided.reason
        == {
            "fail": f"a retry cannot fix a {type(error).__name__}",
            "retry": f"a {type(error).__name__} may be temporary",
            "default": None,
        }[decision]
    )


def test_airflow_follows_the_policy(run_dag: Callable[..., Any]) -> None:
    with DAG("policy", schedule=None) as dag:
        for error in (DataError("no such column"), StoreError("no such model")):

            @task(task_id=type(error).__name__, retry_policy=ProbClassRetryPolicy(), **RETRIES)
            def fails(error: Exception = error) -> None:
                raise error

            fails()
    ran = run_dag(dag)
    assert {name: (run.state, run.tries) for name, run in ran.items()} == {
        "DataError": ("failed", 1),
        "StoreError": ("failed", 3),
    }
