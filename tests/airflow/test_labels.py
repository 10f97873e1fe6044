"""Evaluations of rows whose labels come later."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_airflow import ProbClassEvaluateOperator, ProbClassPromoteOperator
from probclass_core.errors import MissingLabelsError

JANUARY = {"month": "2014-01"}


def write(lake: Path, labels: list[str | None], month: str = "2014-01") -> None:
    """Write a month as one file, in one step."""
    folder = lake / f"month={month}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table(
        {"air": pa.array(labels, pa.string()), "x": [float(n) for n, _ in enumerate(labels)]}
    )
    pq.write_table(rows, folder / "_new")
    (folder / "_new").rename(folder / "part-0.parquet")


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
