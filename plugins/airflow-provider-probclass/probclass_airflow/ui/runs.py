"""Airflow's own records: the newest runs of a DAG, and what a task returned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select

from probclass_airflow.ui.stores import NotFound

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@dataclass(frozen=True)
class Run:
    """A run of a DAG.

    Attributes:
        dag_id: id of the DAG.
        run_id: id of the run.
        state: its state, such as ``"failed"`` or ``"running"``.
        time: when it ended or, if it has not, began, ISO 8601; empty if it waits.
        failed: ids of the tasks that failed, in the order of their beginnings.
    """

    dag_id: str
    run_id: str
    state: str
    time: str
    failed: list[str]


def newest_runs(session: Session, dag_id: str) -> list[Run]:
    """The newest finished run of a DAG, and then the newest one that has not ended."""
    found = []
    for states in (("success", "failed"), ("running", "queued")):
        chosen = select(DagRun).where(DagRun.dag_id == dag_id, DagRun.state.in_(states))
        run = session.scalar(chosen.order_by(DagRun.run_after.desc()).limit(1))
        if run is None:
            continue
        tasks = session.scalars(
            select(TaskInstance.task_id)
            .where(
                TaskInstance.dag_id == dag_id,
                TaskInstance.run_id == run.run_id,
                TaskInstance.state == "failed",
            )
            .order_by(TaskInstance.start_date)
        )
        time = run.end_date or run.start_date
        failed = list(dict.fromkeys(tasks))
        found.append(
            Run(dag_id, run.run_id, str(run.state), time.isoformat() if time else "", failed)
        )
    return found


def task_instances(
    session: Session, dag_id: str, run_id: str, task_id: str
) -> dict[int, TaskInstance]:
    """The instances of a task in a run by map index, which is -1 for a task that is not mapped.

    Raises:
        NotFound: if there are none.
    """
    instances = session.scalars(
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.task_id == task_id,
        )
        .order_by(TaskInstance.map_index)
    )
    found = {one.map_index: one for one in instances}
    if not found:
        raise NotFound(f"There is no task {task_id!r} in run {run_id!r} of {dag_id!r}.")
    return found


def returned(session: Session, task: TaskInstance) -> dict[str, Any]:
    """The dict that a task returned; empty for any other value and for an XCom stored elsewhere."""
    value = session.scalar(
        select(XComModel.value).where(
            XComModel.dag_id == task.dag_id,
            XComModel.run_id == task.run_id,
            XComModel.task_id == task.task_id,
            XComModel.map_index == task.map_index,
            XComModel.key == "return_value",
        )
    )
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def run_of(provenance: Mapping[str, Any]) -> dict[str, str] | None:
    """The query of a link to the task that wrote a record, or None if no task did."""
    run = provenance.get("airflow")
    names = ("dag_id", "run_id", "task_id")
    if not isinstance(run, Mapping) or not all(isinstance(run.get(name), str) for name in names):
        return None
    return {**{name: run[name] for name in names}, "map_index": str(run.get("map_index", -1))}


def task_address(run: Mapping[str, Any]) -> str:
    """The address of a task and its logs in Airflow, below Airflow's own.

    Args:
        run: dag_id, run_id, task_id and, of a mapped task, map_index.
    """
    parts = ("dags", run["dag_id"], "runs", run["run_id"], "tasks", run["task_id"])
    index = str(run.get("map_index", -1))
    mapped = () if index == "-1" else ("mapped", index)
    return "/".join(quote(str(part), safe="") for part in (*parts, *mapped))
