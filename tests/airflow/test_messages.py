"""The XComs of each operator are small, even for long names and many partitions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from lakes import write_rows

import probclass_airflow
import probclass_core as pc
from probclass_airflow import ProbClassOperator, ProbClassPlanBatchesOperator

LARGEST_MESSAGE = 4096
CLASSES = [
    f"a rather long name of a class of things, as people give them: {position:02d}"
    for position in range(50)
]
FEATURE = "a_measurement_with_a_name_of_sixty_four_characters_and_not_fewer"
LABEL = "what_it_turned_out_to_be_when_somebody_came_and_looked_at_it_all"
MODEL, ALIAS = "model-" + 90 * "m", "alias-" + 90 * "a"
PARTITIONS = 120


class TaskInstance:
    """Collects XComs, as a task instance does."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def xcom_push(self, key: str, value: Any) -> None:
        self.messages.append(value)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Arguments of every operator, for a table with many partitions and many classes."""
    root = tmp_path_factory.mktemp("messages")
    rng = np.random.default_rng(6)
    for day in range(PARTITIONS):
        rows = {LABEL: CLASSES * 2, FEATURE: rng.normal(size=2 * len(CLASSES))}
        date = np.datetime64("2014-01-01") + day
        write_rows(root / "lake" / "country=Liechtenstein" / f"day={date}", pa.table(rows))
    spec = pc.ModelSpec(label=LABEL, blocks=(pc.Block("gaussian_diagonal", [FEATURE]),))
    store = pc.ModelStore(root / "models")
    version = store.save(pc.fit(root / "lake", spec), MODEL)
    store.promote(MODEL, version, ALIAS)
    other = store.save(pc.fit(root / "lake", spec, where=[("day", ">", "2014-02")]), MODEL)
    for each in (version, other):
        store.promote(MODEL, each, "undone")
    return {
        "source": str(root / "lake"),
        "store": store.uri,
        "spec": spec.to_dict(),
        "sink": str(root / "scored"),
        "model": other.ref,
        "alias": ALIAS,
        "shard": "0:8",
    }


OPERATORS = sorted(
    name
    for name in probclass_airflow.__all__
    if name.endswith("Operator")
    and name
    not in (
        "ProbClassOperator",
        "ProbClassApproveOperator",  # it waits for a person
        "ProbClassPlanRunOperator",  # this and the next two: of a table with one partition column
        "ProbClassJudgeOperator",
        "ProbClassReportOperator",
    )
)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_message_stays_below_four_kilobytes(name: str, fields: dict[str, Any]) -> None:
    operator: type[ProbClassOperator] = getattr(probclass_airflow, name)
    given = {key: value for key, value in fields.items() if key in operator.template_fields}
    if getattr(operator, "saves_model", False):
        given["model"] = fields["model"] if name == "ProbClassCalibrateOperator" else MODEL
        given["alias"] = "new"
    if name == "ProbClassPromoteOperator":
        given |= {"alias": "another", "metric": "accuracy", "windows": "day"}
        given |= {"floor": None, "allow_training_rows": True, "propose": True}
    if name == "ProbClassRollbackOperator":
        given |= {"model": MODEL, "alias": "undone"}
    if name == "ProbClassPlanShardsOperator":
        given |= {"min_rows": 1, "store": f"{fields['store']}-without-statistics"}
    ti = TaskInstance()
    task = operator(task_id="task", **given)
    ti.messages.append(task.execute({"run_id": "by hand", "ti": ti}))
    assert max(len(json.dumps(message)) for message in ti.messages) < LARGEST_MESSAGE


def test_too_many_batches_are_an_error(fields: dict[str, Any]) -> None:
    given = {key: fields[key] for key in ("source", "store", "model")}
    given["sink"] = f"{fields['sink']}-that-is-empty"
    plan = ProbClassPlanBatchesOperator(task_id="task", size=1, **given)
    with pytest.raises(
        AirflowFailException, match=r"120 batches take .* make batches larger than 1"
    ):
        plan.execute({"run_id": "by hand", "ti": TaskInstance()})
