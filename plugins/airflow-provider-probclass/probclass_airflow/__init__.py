"""Airflow operators for probclass: train, score and evaluate a model on a lake.

Reading map:
    base: the arguments of all operators, progress, cancellation, errors, results.
    operators: train, calibrate and evaluate; one operator for each verb.
    score: scores whatever is missing or stale in a scored table.
    promotion: promotes a challenger that beats the champion; rolls back.
    approval: asks a person before a challenger is promoted.
    mapped: operators for one table and many tasks: shards to train on, ranges to score.
    maintenance: removes leftovers, unused statistics and old versions.
    groups: common pipelines as task groups: train, score, roll back.
    operate: a model operated by a schedule, as a task group; start reading a DAG here.
    assets: models and tables as assets, each under one URI.
    specs: spec files, found next to the DAG and read when it is parsed.
    credentials: Airflow connections as options of tables and model stores.
    hooks: tables and model stores opened by a connection id.
    lineage: inputs and outputs of a task as OpenLineage datasets.
    links: buttons from a task to its report and to its model card.
    retries: a retry policy for tasks that call the library themselves.
    ui: the page of models in Airflow's UI.
    demo: the program behind `make demo`: a model operated on real months in a local Airflow.

Importing this package imports Airflow's SDK but not `probclass_core`, NumPy or pyarrow, so that DAG
files stay cheap to parse; an operator imports the library when its task runs. The metadata of the
provider are in the module `airflow_provider_probclass`, next to this package.
"""

from __future__ import annotations

from airflow import __version__ as airflow_version
from packaging.version import Version

if Version(airflow_version).release < (3, 2):
    raise RuntimeError(
        "The package `airflow-provider-probclass` needs Apache Airflow 3.2+, but version "
        f"{airflow_version} is installed: pip install --upgrade 'apache-airflow>=3.2'"
    )

from probclass_airflow.approval import ProbClassApproveOperator
from probclass_airflow.assets import model_asset, table_asset
from probclass_airflow.base import ProbClassOperator, ProbClassTaskStopped
from probclass_airflow.groups import rollback_task_group, score_task_group, train_task_group
from probclass_airflow.hooks import ProbClassHook
from probclass_airflow.maintenance import ProbClassMaintainOperator
from probclass_airflow.mapped import (
    ProbClassPlanBatchesOperator,
    ProbClassPlanShardsOperator,
    ProbClassSummarizeOperator,
)
from probclass_airflow.operate import (
    ProbClassJudgeOperator,
    ProbClassPlanRunOperator,
    ProbClassReportOperator,
    operate_model,
)
from probclass_airflow.operators import (
    ProbClassCalibrateOperator,
    ProbClassEvaluateOperator,
    ProbClassTrainOperator,
)
from probclass_airflow.promotion import ProbClassPromoteOperator, ProbClassRollbackOperator
from probclass_airflow.score import ProbClassScoreOperator

__all__ = [
    "ProbClassApproveOperator",
    "ProbClassCalibrateOperator",
    "ProbClassEvaluateOperator",
    "ProbClassHook",
    "ProbClassJudgeOperator",
    "ProbClassMaintainOperator",
    "ProbClassOperator",
    "ProbClassPlanBatchesOperator",
    "ProbClassPlanRunOperator",
    "ProbClassPlanShardsOperator",
    "ProbClassPromoteOperator",
    "ProbClassReportOperator",
    "ProbClassRollbackOperator",
    "ProbClassScoreOperator",
    "ProbClassSummarizeOperator",
    "ProbClassTaskStopped",
    "ProbClassTrainOperator",
    "model_asset",
    "operate_model",
    "rollback_task_group",
    "score_task_group",
    "table_asset",
    "train_task_group",
]
