"""Upkeep: leftovers, stale statistics and old versions are removed, and nothing in use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import probclass_core as pc
from probclass_airflow import ProbClassMaintainOperator
from probclass_core.errors import SpecError

SPEC = pc.ModelSpec("air", {"gaussian_diagonal": ["temperature"]})
MONTHS = ["2013-01", "2013-02", "2013-03", "2013-04"]


@pytest.fixture
def fields(lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A store with four versions saved days ago, and a scored table with a leftover."""
    store = pc.ModelStore(tmp_path / "models")
    monkeypatch.setattr(
        "probclass_core.store.model_store.timestamp", lambda: "2014-01-01T00:00:00+00:00"
    )
    versions = [
        store.save(pc.fit(lake, SPEC, partition={"month": month}, cache=store), "air")
        for month in MONTHS
    ]
    monkeypatch.undo()
    store.promote("air", versions[1], "champion")
    pc.score(store.load(versions[2].ref), lake, tmp_path / "scored", partition={"month": MONTHS[0]})
    leftover = tmp_path / f"_staging-scored-{'0' * 32}"
    leftover.mkdir()
    (leftover / "part-0.parquet").write_bytes(b"half")
    for path in (leftover / "part-0.parquet", leftover):
        os.utime(path, (time.time() - 2 * 86_400,) * 2)
    return {"store": store.uri, "tables": [str(tmp_path / "scored")]}


def state(fields: dict[str, Any]) -> list[Path]:
    return sorted(Path(fields["store"]).parent.rglob("*"))


def test_upkeep_removes_what_nobody_uses_and_counts_it(run: Any, fields: dict[str, Any]) -> None:
    store = pc.ModelStore(fields["store"])
    versions = store.versions("air")
    choices = {"keep": "{{ 0 }}", "cache_days": "{{ 0 }}"}
    before = state(fields)
    tried = run(ProbClassMaintainOperator, dry_run=True, **choices, **fields)
    assert state(fields) == before
    expected = {"leftovers": 1, "statistics": 4, "versions": 2}
    task = run(ProbClassMaintainOperator, **choices, **fields)
    assert (task.state, task.result | expected) == ("success", task.result)
    assert task.result["bytes"] > 4
    assert tried.result == task.result | {"dry_run": True}
    in_use = {store.resolve("air@champion").id, *pc.inspect_table(fields["tables"][0]).models}
    assert {version.id for version in store.versions("air")} == in_use
    assert len(in_use) == len(versions) - 2
    assert not [path for path in state(fields) if path.name.startswith("_staging")]
    again = run(ProbClassMaintainOperator, **choices, **fields).result
    assert again == {"leftovers": 0, "statistics": 0, "versions": 0, "bytes": 0, "dry_run": False}


def test_without_numbers_only_what_no_reader_sees_is_removed(
    run: Any, fields: dict[str, Any]
) -> None:
    task = run(ProbClassMaintainOperator, **fields)
    assert (task.result["leftovers"], task.result["statistics"], task.result["versions"]) == (
        1,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tables": "/lake/scored"}, "tables must be a list, got '/lake/scored'"),
        ({"models": "air"}, "models must be a list, got 'air'"),
        ({"cache_days": "-1"}, "cache_days must be at least 0, got -1"),
    ],
)
def test_nothing_is_removed_by_a_wrong_argument(
    fields: dict[str, Any], wrong: dict[str, Any], message: str
) -> None:
    before = state(fields)
    with pytest.raises(SpecError, match=message):
        ProbClassMaintainOperator(task_id="upkeep", keep=0, **{**fields, **wrong}).call({})
    assert state(fields) == before
