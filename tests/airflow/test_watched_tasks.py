"""Tasks with a watch: verdicts in XCom, no retry of a failed check, rollback below a floor."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_airflow import ProbClassEvaluateOperator, ProbClassScoreOperator

RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=0)}


@pytest.fixture
def faulty(tmp_path: Path) -> tuple[str, str]:
    """A lake whose second month has no values of a column, and a store with two champions."""
    lake = tmp_path / "faulty"
    y = ["a", "b"] * 100
    x = [float(i % 2) + (i % 7) / 10 for i in range(200)]
    for month, values in (("2014-01", x), ("2014-02", pa.nulls(200, pa.float64()))):
        write_rows(lake / f"month={month}", pa.table({"x": values, "y": y}))
    store = pc.ModelStore(tmp_path / "models")
    for labels in (y, y[::-1]):  # the second one has learned the opposite
        spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])
        version = store.save(pc.fit({"x": x, "y": labels}, spec), "m")
        store.promote("m", version, alias="champion")
    return str(lake), str(tmp_path / "models")


@pytest.mark.parametrize("fail", [["nulls"], []])
def test_a_check_that_fails_fails_the_task_without_a_retry(
    run: Any, faulty: tuple[str, str], tmp_path: Path, fail: list[str]
) -> None:
    """By default it warns."""
    lake, store = faulty
    task = run(
        ProbClassScoreOperator,
        source=lake,
        sink=str(tmp_path / "scored"),
        model="m@champion",
        store=store,
        partition={"month": "2014-02"},
        options={"watch": {"nulls": "{{ params.most }}", "fail": fail}},
        params={"most": 0.5},
        **RETRIES,
    )
    if fail:
        assert (task.state, task.tries) == ("failed", 1)
        assert not (tmp_path / "scored").exists()
        (record,) = pc.ModelStore(store).scorings("m")
        (stopped,) = record.stopped
        assert stopped["partition"] == {"month": "2014-02"}
        assert "Column 'x' is null in 100 % of 200 rows" in stopped["error"]
    else:
        assert task.state == "success"
        assert "Column 'x' is null in 100 % of 200 rows" in task.result["warnings"][0]


def test_a_model_below_its_floor_is_rolled_back(run: Any, faulty: tuple[str, str]) -> None:
    """Once: the version before is then the champion, and is judged for itself."""
    lake, uri = faulty
    store = pc.ModelStore(uri)
    bad = store.resolve("m@champion")
    evaluation = {
        "source": lake,
        "model": "m@champion",
        "store": uri,
        "partition": {"month": "2014-01"},
        "watch": {"rollback": ["log_loss"], "ignore": ["accuracy"]},
    }
    task = run(ProbClassEvaluateOperator, **evaluation)
    good = store.resolve("m@champion")
    assert good != bad
    assert (task.state, task.result["rolled_back_to"]) == ("success", good.ref)
    entry = store.history("m", "champion")[-1]
    assert entry.action == "rolled_back"
    assert str(entry.reason).startswith("The log loss on 200 labeled rows is")
    assert task.result["warnings"] == [entry.reason]
    for model, warnings in (("m@champion", []), (bad.ref, [entry.reason])):
        operator = ProbClassEvaluateOperator(task_id="again", **{**evaluation, "model": model})
        result = operator.call({"dag_id": "d", "task_id": "again", "run_id": "r"})
        assert (result["rolled_back_to"], result["warnings"]) == (None, warnings)
    assert store.resolve("m@champion") == good
