"""A task that gets SIGTERM fails and leaves the tables and the store unchanged.

The signal is sent from within the run, and Airflow's own handler receives it.
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from airflow.sdk import Asset

import probclass_core as pc
from probclass_airflow import ProbClassScoreOperator, ProbClassTrainOperator

SPEC = pc.ModelSpec(label="air", blocks=(pc.Block("gaussian_diagonal", ["temperature"]),))


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class StoppedTrain(ProbClassTrainOperator):
    """Gets SIGTERM after the only batch of a month is read."""

    def on_progress(self, rows_done: int, rows_total: int | None) -> None:
        super().on_progress(rows_done, rows_total)
        terminate()


class StoppedScore(ProbClassScoreOperator):
    """Gets SIGTERM after the given number of calls of its progress callback."""

    calls_before = 0

    def on_progress(self, rows_done: int, rows_total: int | None) -> None:
        if self.calls_before == 0:
            terminate()
        self.calls_before -= 1
        super().on_progress(rows_done, rows_total)


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_a_stopped_training_saves_nothing_and_is_retried(
    run: Any, lake: str, tmp_path: Path
) -> None:
    task = run(
        StoppedTrain,
        source=lake,
        spec=SPEC.to_dict(),
        store=str(tmp_path / "models"),
        model="air",
        alias="champion",
        partition={"month": "2013-01"},
        workers=1,
        outlets=[Asset("air.model")],
        retries=1,
        retry_delay=timedelta(0),
    )
    assert (task.state, task.tries, task.result, task.events) == ("failed", 2, None, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("calls_before", [0, 1], ids=["between batches", "before the commit"])
def test_a_stopped_scoring_leaves_the_old_partition(
    calls_before: int, run: Any, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoppedScore, "calls_before", calls_before)
    store = pc.ModelStore(tmp_path / "models")
    old, new = ({"month": "2013-01"}, {"month": "2013-02"})
    for alias, part in (("old", old), ("new", new)):
        store.promote("air", store.save(pc.fit(lake, SPEC, partition=part), "air"), alias=alias)
    sink = tmp_path / "scored"
    pc.score(store.load("air@old"), lake, sink, partition={"month": "2013-03"})
    before = tree(sink)

    fields = {
        "source": lake,
        "sink": str(sink),
        "store": store.uri,
        "partition": {"month": "2013-03"},
    }
    task = run(StoppedScore, model="air@new", outlets=[Asset("air.scored")], **fields)
    assert (task.state, task.result, task.events) == ("failed", None, {})
    assert tree(sink) == before

    task = run(ProbClassScoreOperator, model="air@new", **fields)
    assert task.state == "success"
    scored = ds.dataset(sink, partitioning="hive").to_table(columns=["model_id"])
    assert set(scored["model_id"].to_pylist()) == {store.resolve("air@new").id}
