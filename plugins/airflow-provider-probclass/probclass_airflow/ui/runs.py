"""The report of a task, read from Airflow's database: its state, its times, its return value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
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
class TaskReport:
    """A task instance and what it returned.

    Attributes:
        state: state of the task such as ``success``, or None if it is not scheduled yet.
        tries: number of tries.
        seconds: duration of the last try, or None.
        ended: end of the last try in UTC, or None while it runs.
        partition: partition key of the run, or None.
        report: the summary that the task returned, or an empty dict.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    operator: str
    state: str | None
    tries: int
    seconds: float | None
    ended: datetime | None
    partition: str | None
    report: dict[str, Any]


@dataclass(frozen=True)
class FailedRun:
    """The newest finished run of a DAG, if it failed.

    Attributes:
        dag_id: id of the DAG.
        run_id: id of the run.
        ended: when it ended, ISO 8601.
        tasks: ids of the tasks that failed, in the order of their beginnings.
    """

    dag_id: str
    run_id: str
    ended: str
    tasks: list[str]


def failed_run(session: Session, dag_id: str) -> FailedRun | None:
    """The newest finished run of a DAG, or None if it did not fail."""
    finished = DagRun.dag_id == dag_id, DagRun.state.in_(("success", "failed"))
    run = session.scalar(select(DagRun).where(*finished).order_by(DagRun.run_after.desc()).limit(1))
    if run is None or run.state != "failed":
        return None
    tasks = session.scalars(
        select(TaskInstance.task_id)
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.state == "failed",
        )
        .order_by(TaskInstance.start_date)
    )
    ended = run.end_date.isoformat() if run.end_date else ""
    return FailedRun(dag_id, run.run_id, ended, list(dict.fromkeys(tasks)))


def task_report(
    session: Session, dag_id: str, run_id: str, task_id: str, map_index: int
) -> TaskReport:
    """The report of one task of one run.

    Raises:
        NotFound: if there is no such task instance.
    """
    task = session.scalar(
        select(TaskInstance).where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.task_id == task_id,
            TaskInstance.map_index == map_index,
        )
    )
    if task is None:
        index = f", map index {map_index}," if map_index >= 0 else ""
        raise NotFound(f"There is no task {task_id!r}{index} in run {run_id!r} of {dag_id!r}.")
    value = session.scalar(
        select(XComModel.value).where(
            XComModel.dag_id == dag_id,
            XComModel.run_id == run_id,
            XComModel.task_id == task_id,
            XComModel.map_index == map_index,
            XComModel.key == "return_value",
        )
    )
    run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    return TaskReport(
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        operator=str(task.operator or ""),
        state=task.state,
        tries=task.try_number,
        seconds=task.duration,
        ended=task.end_date,
        partition=getattr(run, "partition_key", None),
        report=_summary(value),
    )


def mapped_indices(session: Session, dag_id: str, run_id: str, task_id: str) -> list[int]:
    """The map indices of a task in a run, ascending; empty for a task that is not mapped."""
    indices = session.scalars(
        select(TaskInstance.map_index).where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.task_id == task_id,
            TaskInstance.map_index >= 0,
        )
    )
    return sorted(indices)


def task_address(run: Mapping[str, Any]) -> str:
    """The address of a task and its logs in Airflow, below Airflow's own.

    Args:
        run: dag_id, run_id, task_id and, of a mapped task, map_index.
    """
    parts = ("dags", run["dag_id"], "runs", run["run_id"], "tasks", run["task_id"])
    index = str(run.get("map_index", -1))
    mapped = () if index == "-1" else ("mapped", index)
    return "/".join(quote(str(part), safe="") for part in (*parts, *mapped))


def _summary(value: Any) -> dict[str, Any]:
    """The dict that a task returned; empty for any other value and for an XCom stored elsewhere."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
