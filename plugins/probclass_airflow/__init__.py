"""Airflow operators for probclass: train, score and evaluate a model on a lake.

Reading map:
    operators: one operator for each verb, one library call in each.
    calibration: the verb between training and scoring.
    promotion: the gate before an alias.
    mapped: one table, many tasks: plans, shards, the merge.
    groups: the two common shapes as task groups.
    base: what they share: watching a run, stopping it, telling what went wrong and what came out.
    links: buttons from a task to its report and to the card of its model.
    assets: models and tables as assets, each under one URI.
    decorators: the verbs as ``@task.probclass_score`` and its like.
    lineage: what a task read and wrote, as OpenLineage has it.
    hooks, credentials: tables and model stores opened by the id of a connection.
    retries: which failures a retry can mend, for tasks that call the library themselves.
    ui: the page of models in Airflow's own pages.
    provider_info: what Airflow's list of providers says of this package.
    demo: what `make demo` runs: the example DAGs over real months, in an Airflow of its own.

Importing this package imports Airflow's SDK and nothing of `probclass_core`, NumPy or pyarrow, so a
DAG file that uses it stays cheap to parse; the library is imported where a task runs.
"""

from __future__ import annotations

from probclass_airflow.assets import model_asset, table_asset
from probclass_airflow.base import ProbClassOperator, ProbClassTaskStopped
from probclass_airflow.calibration import ProbClassCalibrateOperator
from probclass_airflow.groups import score_task_group, train_task_group
from probclass_airflow.hooks import ProbClassHook
from probclass_airflow.mapped import (
    ProbClassMergeOperator,
    ProbClassPlanPartitionsOperator,
    ProbClassPlanShardsOperator,
    ProbClassSummarizeOperator,
)
from probclass_airflow.operators import (
    ProbClassEvaluateOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)
from probclass_airflow.promotion import ProbClassPromoteOperator

__all__ = [
    "ProbClassCalibrateOperator",
    "ProbClassEvaluateOperator",
    "ProbClassHook",
    "ProbClassMergeOperator",
    "ProbClassOperator",
    "ProbClassPlanPartitionsOperator",
    "ProbClassPlanShardsOperator",
    "ProbClassPromoteOperator",
    "ProbClassScoreOperator",
    "ProbClassSummarizeOperator",
    "ProbClassTaskStopped",
    "ProbClassTrainOperator",
    "model_asset",
    "score_task_group",
    "table_asset",
    "train_task_group",
]
