"""Labels that come later than the rows: a sensor that waits, and an evaluation without labels."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import timezone
from airflow.sdk.exceptions import (
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from buckets import SECRET, Bucket

import probclass_core as pc
from probclass_airflow import (
    ProbClassEvaluateOperator,
    ProbClassLabelsSensor,
    ProbClassPromoteOperator,
)
from probclass_airflow.sensors import LabelCheck
from probclass_airflow.triggers import ProbClassLabelsTrigger
from probclass_core.errors import MissingLabelsError

JANUARY = {"month": "2014-01"}
MODES = {"worker": {"mode": "poke"}, "triggerer": {"deferrable": True}}


def write(lake: Path, labels: list[str | None], month: str = "2014-01") -> None:
    """Write a month as one file, in one step."""
    folder = lake / f"month={month}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table(
        {"air": pa.array(labels, pa.string()), "x": [float(n) for n, _ in enumerate(labels)]}
    )
    pq.write_table(rows, folder / "_new")
    (folder / "_new").rename(folder / "part-0.parquet")


def later(*actions: Callable[[], Any]) -> threading.Thread:
    """Take actions one after another, each half a second after the one before."""

    def act() -> None:
        for action in actions:
            time.sleep(0.5)
            action()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def sensor(lake: Path, **fields: Any) -> ProbClassLabelsSensor:
    given = {"partition": JANUARY, "poke_interval": 0.05, "mode": "poke", **fields}
    return ProbClassLabelsSensor(task_id="wait", source=str(lake), label_column="air", **given)


@pytest.mark.parametrize("mode", MODES)
def test_the_sensor_waits_for_a_partition_and_its_labels(
    run: Any, tmp_path: Path, mode: str
) -> None:
    write(tmp_path, ["good"], "2013-12")  # another month does not count
    writes = later(
        partial(write, tmp_path, [None] * 4),
        partial(write, tmp_path, ["good", None, None, None]),
        partial(write, tmp_path, ["good", "bad", "bad", None]),
    )
    task = run(
        ProbClassLabelsSensor,
        source=str(tmp_path),
        label_column="air",
        partition={"month": "{{ params.month }}"},
        min_share="{{ params.share }}",
        poke_interval=0.1,
        timeout=120,
        params={"month": "2014-01", "share": 0.75},
        **MODES[mode],
    )
    writes.join()
    assert (task.state, task.tries) == ("success", 1)
    assert task.result == {"rows": 4, "labeled": 3, "share": 0.75}


def test_a_deferred_sensor_reads_with_the_credentials_of_its_connection(
    run: Any, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    extra = {"region_name": "us-east-1", "endpoint_url": bucket.endpoint}
    values = {"conn_type": "aws", "login": "tester", "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(values))
    write(tmp_path, ["good", "bad"])
    upload = later(partial(bucket.copy_from, tmp_path / "month=2014-01", "lake/month=2014-01"))
    task = run(
        ProbClassLabelsSensor,
        source=f"s3://{bucket.name}/lake",
        source_conn_id="lake",
        label_column="air",
        where=[("month", ">=", "2014-01")],
        poke_interval=0.1,
        timeout=120,
        deferrable=True,
    )
    upload.join()
    assert task.result == {"rows": 2, "labeled": 2, "share": 1.0}
    assert SECRET not in "".join(capfd.readouterr())


@pytest.mark.parametrize("mode", MODES)
def test_a_column_that_does_not_exist_fails_at_once(run: Any, tmp_path: Path, mode: str) -> None:
    write(tmp_path, ["good"])
    retries = {"retries": 2, "retry_delay": timedelta(0)}
    fields = {"source": str(tmp_path), "label_column": "aiir", **MODES[mode], **retries}
    task = run(ProbClassLabelsSensor, **fields)
    assert (task.state, task.tries) == ("failed", 1)


def test_a_timeout_says_how_many_labels_there_were(tmp_path: Path) -> None:
    write(tmp_path, ["good", None, None])
    message = (
        r"Stopped waiting for labels after 0:00:00\.20*: 1 of 3 rows of .* in "
        r"{'month': '2014-01'} have a label 'air' \(33\.3%\); waiting for 50% and at least 1\."
    )
    with pytest.raises(AirflowSensorTimeout, match=message):
        sensor(tmp_path, timeout=0.2).execute({})
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path, timeout=0.2, deferrable=True).execute({})
    event = first_event(deferred.value.trigger)
    with pytest.raises(AirflowSensorTimeout, match=message):
        sensor(tmp_path, timeout=0.2).resume_execution("resume", {"event": event}, {})
    with pytest.raises(AirflowSkipException):
        sensor(tmp_path, soft_fail=True).resume_execution("resume", {"event": event}, {})
    assert sensor(tmp_path, poke_interval=None, timeout=3600).poke_interval == 300.0
    absent = sensor(tmp_path, partition={"month": "2015-01"}, timeout=0.0)
    with pytest.raises(AirflowSensorTimeout, match="has no partition with"):
        absent.execute({})


def first_event(trigger: ProbClassLabelsTrigger) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        return dict((await anext(trigger.run())).payload)

    return asyncio.run(run())


def test_a_read_does_not_block_the_other_triggers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(check: LabelCheck) -> tuple[dict[str, Any], str]:
        time.sleep(0.5)
        return {}, "done"

    monkeypatch.setattr(LabelCheck, "run", slow)
    check = dict.fromkeys(LabelCheck.__dataclass_fields__)
    _, arguments = ProbClassLabelsTrigger(check, 1.0, timezone.utcnow().timestamp()).serialize()
    turns = []

    async def other_trigger() -> None:
        while True:
            turns.append(None)
            await asyncio.sleep(0.01)

    async def run() -> None:
        other = asyncio.create_task(other_trigger())
        [event async for event in ProbClassLabelsTrigger(**arguments).run()]
        other.cancel()

    asyncio.run(run())
    assert len(turns) > 10


@pytest.fixture
def labeled(tmp_path: Path) -> dict[str, str]:
    """Source and store of a model; January has no label yet."""
    write(tmp_path / "lake", ["good", "bad", "bad", "good"], "2013-12")
    write(tmp_path / "lake", [None] * 4)
    store = pc.ModelStore(tmp_path / "models")
    spec = pc.ModelSpec("air", {"gaussian_diagonal": ["x"]})
    for rows in ("x >= 0", "x < 3.5 and x != 1"):
        where = f"month = 2013-12 and {rows}"
        version = store.save(pc.fit(str(tmp_path / "lake"), spec, where=where), "air")
        if not store.aliases("air"):
            store.promote("air", version, "champion")
    return {"source": str(tmp_path / "lake"), "store": store.uri, "model": version.ref}


@pytest.mark.parametrize(
    ("operator", "missing_labels", "state", "tries"),
    [
        (ProbClassEvaluateOperator, None, "failed", 3),
        (ProbClassPromoteOperator, None, "failed", 3),
        (ProbClassPromoteOperator, "skip", "skipped", 1),
        (ProbClassEvaluateOperator, "fail", "failed", 1),
    ],
)
def test_an_evaluation_without_labels_is_retried_skipped_or_failed(
    run: Any,
    labeled: dict[str, str],
    operator: type,
    missing_labels: str | None,
    state: str,
    tries: int,
) -> None:
    choice = {} if missing_labels is None else {"missing_labels": missing_labels}
    retries = {"retries": 2, "retry_delay": timedelta(0)}
    task = run(operator, partition=JANUARY, **labeled, **retries, **choice)
    assert (task.state, task.tries) == (state, tries)


def test_an_unknown_choice_for_missing_labels_is_refused(labeled: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be 'retry', 'skip' or 'fail', got 'wait'"):
        ProbClassEvaluateOperator(task_id="evaluate", missing_labels="wait", **labeled)


def test_an_evaluation_without_labels_says_so(labeled: dict[str, str]) -> None:
    message = r"^nothing to evaluate: none of 4 rows has a label 'air' yet; .* have arrived\.$"
    with pytest.raises(MissingLabelsError, match=message):
        ProbClassEvaluateOperator(task_id="e", partition=JANUARY, **labeled).execute(
            {"run_id": "r"}
        )
    promote = ProbClassPromoteOperator(task_id="p", partition=JANUARY, **labeled)
    with pytest.raises(MissingLabelsError, match="nothing to evaluate"):
        promote.execute({"run_id": "r"})
