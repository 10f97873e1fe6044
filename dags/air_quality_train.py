"""Train on the twelve months before.

Each month, every model of `specs/` is fitted on the twelve months before it and saved. The month is
an alias of that version: `air_full@2014-03` is the model that scores March 2014.

Write the lake from the bundled Beijing data with
`python -m probclass_core.demo.lake $PROBCLASS_HOME/lake`.
"""

from __future__ import annotations

from air_quality_settings import LAKE, MONTH, MONTHLY, SPECS, STORE, YEAR_BEFORE
from airflow.sdk import Asset, dag

from probclass_airflow import ProbClassTrainOperator


@dag(doc_md=__doc__, **MONTHLY)
def air_quality_train() -> None:
    for spec in SPECS:
        ProbClassTrainOperator(
            task_id=spec.stem,
            source=LAKE,
            where=[("month", ">=", YEAR_BEFORE), ("month", "<", MONTH)],
            spec=f"specs/{spec.name}",
            store=STORE,
            model=spec.stem,
            alias=MONTH,
            outlets=[Asset(f"{spec.stem}.model")],
        )


air_quality_train()
