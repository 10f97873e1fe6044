"""A task that gets SIGTERM fails and leaves the tables and the store unchanged.

The signal is sent from within the run, and Airflow's own handler receives it.
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import Asset

import probclass_core as pc
from probclass_airflow import (
    ProbClassPromoteOperator,
    ProbClassScoreOperator,
    ProbClassSummarizeOperator,
    ProbClassTrainOperator,
)
from probclass_core.training.shards import plan_shards

SPEC = pc.ModelSpec("air", {"gaussian_diagonal": ["temperature"]})
YEAR = [("month", ">=", "2012-01"), ("month", "<", "2013-01")]
MARCH = {"month": "2013-03"}


def stopped(operator: type[Any], call: int) -> type[Any]:
    """The operator, whose process gets SIGTERM at this call of its progress callback."""
    calls = []

    class Stopped(operator):  # type: ignore[misc]
        def on_progress(self, rows_done: int, rows_total: int | None) -> None:
            calls.append(rows_done)
            if len(calls) >= call:
                os.kill(os.getpid(), signal.SIGTERM)
            super().on_progress(rows_done, rows_total)

    return Stopped


class StoppedMerge(ProbClassTrainOperator):
    """Gets SIGTERM after the merge, right before the commit."""

    def on_progress(self, rows_done: int, rows_total: int | None) -> None:
        pass

    def raise_if_stopped(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        super().raise_if_stopped()


def state(root: Path) -> dict[Path, int]:
    """Models, aliases and scored tables; complete statistics and evaluations may be kept."""
    files = (path for path in root.rglob("*") if path.is_file())
    kept = {"_statistics", "evaluations"}
    return {path: hash(path.read_bytes()) for path in files if kept.isdisjoint(path.parts)}


@pytest.fixture
def fields(lake: str, tmp_path: Path) -> dict[str, Any]:
    """Arguments of all operators, with two versions of a model and a partition scored by one."""
    store = pc.ModelStore(tmp_path / "models")
    for alias, month in (("champion", "2013-01"), ("new", "2013-02")):
        version = store.save(pc.fit(lake, SPEC, partition={"month": month}), "air")
        store.promote("air", version, alias)
    pc.score(store.load("air@champion"), lake, tmp_path / "scored", partition=MARCH)
    return {
        "source": lake,
        "sink": str(tmp_path / "scored"),
        "store": store.uri,
        "model": "air@new",
        "alias": "champion",
        "spec": SPEC.to_dict(),
        "partition": MARCH,
    }


@pytest.mark.parametrize(
    ("operator", "names", "more"),
    [
        (stopped(ProbClassTrainOperator, 1), "spec partition alias", {"model": "air"}),
        (StoppedMerge, "spec alias", {"model": "air", "where": YEAR, "cache": True}),
        (stopped(ProbClassPromoteOperator, 1), "model partition", {}),
        (stopped(ProbClassScoreOperator, 1), "sink model partition", {}),
        (stopped(ProbClassScoreOperator, 2), "sink model partition", {}),
    ],
    ids=["train", "merge", "promote", "score: between batches", "score: before the commit"],
)
def test_a_stopped_task_changes_nothing_and_is_retried(
    operator: Any, names: str, more: dict[str, Any], run: Any, fields: dict[str, Any]
) -> None:
    given = {name: fields[name] for name in ("source", "store", *names.split())} | more
    folder = Path(fields["store"]).parent
    before = state(folder)
    retries = {"retries": 1, "retry_delay": timedelta(0)}
    task = run(operator, outlets=[Asset("air.changed")], **given, **retries)
    assert (task.state, task.tries, task.result, task.events) == ("failed", 2, None, {})
    assert state(folder) == before
    operator.__base__(task_id="again", **given).execute({"run_id": "by hand", "ti": Mock()})
    assert state(folder) != before


def test_a_stopped_summary_keeps_complete_statistics_and_a_rerun_reads_the_rest(
    run: Any, lake: str, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path / "models")
    fields = {"source": lake, "spec": SPEC.to_dict(), "where": YEAR, "store": store.uri}
    task = run(stopped(ProbClassSummarizeOperator, 2), shard="0:12", workers=1, **fields)
    assert (task.state, task.result) == ("failed", None)
    plan = plan_shards(lake, SPEC, where=YEAR, cache=store)
    assert (plan.cached, [str(shard) for shard in plan.shards]) == (1, ["1:12"])
    assert run(ProbClassSummarizeOperator, shard="0:12", **fields).state == "success"
