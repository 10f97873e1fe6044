"""Airflow for these tests: the repository's folders, SQLite, tasks run by `dag.test`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from probclass_core.demo.lake import lay_out

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(ROOT / "dags")
os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"] = str(ROOT / "plugins")


AIRFLOW_WARNINGS = (
    "ignore:GitWildMatchPattern:DeprecationWarning",
    "ignore:Using `httpx` with `starlette.testclient`",
    "ignore:The `airflow.utils.operator_helpers:FutureWarning",
)
"""Warnings of Airflow's own code, which are ignored."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for rule in AIRFLOW_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(rule))


@dataclass(frozen=True)
class Ran:
    """A task after its run: state, tries, XCom, and the extras of its asset events."""

    state: str
    tries: int
    result: Any
    events: dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def own_event_loop() -> Iterator[None]:
    """Let Airflow run an event loop: the browser of the tests of pages keeps one in this thread."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """The metadata database, in the AIRFLOW_HOME of the tests."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Beijing lake, by month."""
    return str(lay_out(tmp_path_factory.mktemp("beijing") / "lake"))


@pytest.fixture
def run_dag(airflow_database: None) -> Iterator[Callable[..., dict[str, Ran]]]:
    """Run a DAG once with a logical date; returns its tasks by id."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    def run(dag: Any, date: str = "2014-01-01", **conf: Any) -> dict[str, Ran]:
        DagBundlesManager().sync_bundles_to_db()
        bag = DagBag(os.devnull, bundle_name="dags-folder")
        bag.bag_dag(dag)
        sync_bag_to_db(bag, "dags-folder", None)
        logical_date = datetime.fromisoformat(date).replace(tzinfo=UTC)
        dag_run = dag.test(logical_date=logical_date, run_conf=conf or None)
        with create_session() as session:
            query = select(AssetEvent).where(
                AssetEvent.source_dag_id == dag.dag_id, AssetEvent.source_run_id == dag_run.run_id
            )
            events = [
                (e.source_task_id, e.source_map_index, e.asset.name, e.extra)
                for e in session.scalars(query)
            ]
        return {
            # A mapped task has its index in its key: score[0], score[1], …
            task.task_id if task.map_index < 0 else f"{task.task_id}[{task.map_index}]": Ran(
                state=task.state,
                tries=task.try_number,
                result=task.xcom_pull(task_ids=task.task_id, map_indexes=task.map_index),
                events={
                    name: extra
                    for task_id, index, name, extra in events
                    if (task_id, index) == (task.task_id, task.map_index)
                },
            )
            for task in dag_run.get_task_instances()
        }

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)  # which Airflow has replaced


@pytest.fixture
def run(run_dag: Callable[..., dict[str, Ran]], request: pytest.FixtureRequest) -> Any:
    """Run an operator, from its class and arguments, as the only task of a DAG of its own."""
    from airflow.sdk import DAG

    numbers = count()

    def run_one(operator: type, **fields: Any) -> Ran:
        name = re.sub(r"\W", "_", request.node.name)
        with DAG(f"{name}_{next(numbers)}", schedule=None) as dag:
            operator(task_id="task", **fields)
        return run_dag(dag)["task"]

    return run_one
