"""What each operator sends through XCom is small, whatever the table and the model are like."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

import probclass_airflow
import probclass_core as pc
from probclass_airflow import ProbClassOperator, ProbClassPlanPartitionsOperator

LARGEST_MESSAGE = 4096
CLASSES = [
    f"a rather long name of a class of things, as people give them: {at:02d}" for at in range(50)
]
FEATURE = "a_measurement_with_a_name_of_sixty_four_characters_and_not_fewer"
LABEL = "what_it_turned_out_to_be_when_somebody_came_and_looked_at_it_all"
MODEL, ALIAS = "model-" + 90 * "m", "alias-" + 90 * "a"
PARTITIONS = 120


class Pushed:
    """Takes XComs, as a task instance does."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def xcom_push(self, key: str, value: Any) -> None:
        self.messages.append(value)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Fields of every operator, for a table of many partitions and a model of many classes."""
    root = tmp_path_factory.mktemp("messages")
    rng = np.random.default_rng(6)
    for day in range(PARTITIONS):
        folder = (
            root / "lake" / "country=Liechtenstein" / f"day={np.datetime64('2014-01-01') + day}"
        )
        folder.mkdir(parents=True)
        rows = {LABEL: CLASSES * 2, FEATURE: rng.normal(size=2 * len(CLASSES))}
        pq.write_table(pa.table(rows), folder / "part-0.parquet")
    spec = pc.ModelSpec(label=LABEL, blocks=(pc.Block("gaussian_diagonal", [FEATURE]),))
    store = pc.ModelStore(root / "models")
    version = store.save(pc.fit(root / "lake", spec), MODEL)
    store.promote(MODEL, version, ALIAS)
    other = store.save(pc.fit(root / "lake", spec, where=[("day", ">", "2014-02")]), MODEL)
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
    if name.endswith("Operator") and name != "ProbClassOperator"
)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_message_stays_below_four_kilobytes(name: str, fields: dict[str, Any]) -> None:
    operator: type[ProbClassOperator] = getattr(probclass_airflow, name)
    given = {key: value for key, value in fields.items() if key in operator.template_fields}
    if operator.makes_model:
        given["model"] = fields["model"] if "method" in operator.template_fields else MODEL
        given["alias"] = "new"
    if name == "ProbClassPlanPartitionsOperator":
        given["where"] = [("day", "<", "2014-03-01")]
    if name == "ProbClassPromoteOperator":
        given |= {"alias": "another", "metric": "accuracy"}
    if name == "ProbClassPlanShardsOperator":
        given |= {"min_rows": 1, "store": f"{fields['store']}-without-statistics"}
    told = Pushed()
    told.messages.append(
        operator(task_id="task", **given).execute({"run_id": "by hand", "ti": told})
    )
    assert max(len(json.dumps(message)) for message in told.messages) < LARGEST_MESSAGE


def test_names_of_partitions_that_take_more_are_refused(fields: dict[str, Any]) -> None:
    given = {key: fields[key] for key in ("source", "store", "model")}
    plan = ProbClassPlanPartitionsOperator(
        task_id="task", where=[("day", "<", "2014-04-05")], **given
    )
    with pytest.raises(AirflowFailException, match=r"94 partitions of .* bytes, and a message"):
        plan.execute({"run_id": "by hand", "ti": Pushed()})
