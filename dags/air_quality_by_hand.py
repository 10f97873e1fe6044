"""Train on months chosen in a form, and promote the model if it beats the champion.

Trigger the DAG in Airflow's UI. `air_full` is trained on the months of the form and evaluated on
another one. If it beats the champion by the margin, it is promoted, and `air_quality_rescore` runs.
"""

from __future__ import annotations

from air_quality_settings import COMMON, LAKE, SPECS, STORE
from airflow.sdk import Asset, Param, dag

from probclass_airflow import ProbClassPromoteOperator, ProbClassTrainOperator

SPEC = SPECS[0]
MODEL = SPEC.stem


def month(default: str, title: str) -> Param:
    """A month as a field of the form."""
    return Param(default, type="string", pattern=r"^\d{4}-\d{2}$", title=title)


@dag(
    doc_md=__doc__,
    schedule=None,
    params={
        **COMMON["params"],
        "first": month("2013-01", "First month to train on"),
        "last": month("2013-12", "Last month to train on"),
        "evaluated_on": month("2014-01", "Month to evaluate on"),
        "margin": Param(
            0.0, type="number", minimum=0, title="Least improvement of the log loss, in nats"
        ),
    },
    tags=COMMON["tags"],
)
def air_quality_by_hand() -> None:
    train = ProbClassTrainOperator(
        task_id="train",
        source=LAKE,
        where=[("month", ">=", "{{ params.first }}"), ("month", "<=", "{{ params.last }}")],
        spec=f"specs/{SPEC.name}",
        store=STORE,
        model=MODEL,
    )
    ProbClassPromoteOperator(
        task_id="promote",
        source=LAKE,
        store=STORE,
        model=train.output["model"],
        partition={"month": "{{ params.evaluated_on }}"},
        margin="{{ params.margin }}",
        outlets=[Asset(f"{MODEL}.champion")],
    )


air_quality_by_hand()
