"""Judging the version that scored a partition: fallback, rollback, and when the alias stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import write_rows
from sample_models import write_in_another_format

import probclass_core as pc
from probclass_core.errors import SpecError, StoreError
from probclass_core.operation.order import changed_since_scored
from probclass_core.operation.runs import Judgment, judge_served

SPEC = pc.ModelSpec(label="late", blocks=[pc.Block("gaussian_diagonal", ["x"])])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Weeks in which x tells the class apart; in week 2 it tells the opposite."""
    for week in (1, 2, 3):
        rng = np.random.default_rng(week)
        late = rng.permutation(np.arange(400) % 4 == 0)
        x = rng.normal(3.0 * (late != (week == 2)), 1.0)
        write_rows(tmp_path / "lake" / f"week={week}", pa.table({"x": x, "late": late}))
    return tmp_path / "lake"


@pytest.fixture
def store(lake: Path, tmp_path: Path) -> pc.ModelStore:
    """A store with a champion of week 1, and before it one of week 2; no week is scored."""
    store = pc.ModelStore(tmp_path / "models")
    for week in (2, 1):
        model = pc.fit(lake, SPEC, partition={"week": week})
        store.promote("late", store.save(model, "late"), alias="champion")
    return store


def judge(store: pc.ModelStore, lake: Path, week: int, **more: Any) -> Judgment:
    return judge_served(store, "late", lake, lake.parent / "scored", {"week": week}, **more)


def test_a_champion_that_is_better_than_its_prior_stays(store: pc.ModelStore, lake: Path) -> None:
    champion = store.resolve("late@champion")
    pc.score(store.load(champion.ref), lake, lake.parent / "scored", partition={"week": 3})
    judgment = judge(store, lake, 3)
    assert (judgment.champion, judgment.promotion) == (champion, None)
    assert judgment.served is None  # the scoring was not recorded
    assert "no scoring is recorded" in str(judgment)


@pytest.mark.parametrize("fallback", ["prior", "rollback", None])
def test_a_champion_that_is_worse_is_replaced_as_configured(
    store: pc.ModelStore, lake: Path, fallback: Any
) -> None:
    champion, before = store.resolve("late@champion"), store.resolve("late@champion@previous")
    report = pc.score(store.load(champion.ref), lake, lake.parent / "scored", partition={"week": 2})
    store.record_scoring(champion, report)
    judgment = judge(store, lake, 2, fallback=fallback)
    assert judgment.served == champion
    assert judgment.below_prior
    prior = store.load(champion.ref).prior_only().id
    wanted = {"prior": prior, "rollback": before.id, None: champion.id}[fallback]
    assert judgment.champion.id == store.resolve("late@champion").id == wanted
    assert (judgment.promotion is None) == (fallback is None)
    again = judge(store, lake, 2, fallback=fallback)  # as after a retry
    assert again.champion.id == wanted
    assert again.promotion is None


def test_what_a_version_of_another_format_scored_is_not_judged(
    store: pc.ModelStore, lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    champion = store.resolve("late@champion")
    report = pc.score(store.load(champion.ref), lake, lake.parent / "scored", partition={"week": 2})
    store.record_scoring(champion, report)
    write_in_another_format(champion, store)
    judgment = judge(store, lake, 2)
    assert (judgment.served, judgment.promotion) == (None, None)
    assert judgment.champion.id == champion.id
    assert f"{champion.short} is in a format that this release does not read" in caplog.text


def test_records_are_of_the_same_tables_however_their_paths_are_spelled(
    store: pc.ModelStore, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion = store.resolve("late@champion")
    monkeypatch.chdir(lake.parent)
    pc.score(champion, "lake", "./scored", partition={"week": 3}, store=store)
    monkeypatch.chdir("/")
    sink = f"{lake.parent}/scored/"
    judgment = judge_served(store, "late", lake, sink, {"week": 3}, fallback=None)
    assert judgment.served == champion
    write_rows(lake / "week=3", pa.table({"x": [0.5], "late": [True]}))
    week = {"week": 4}
    assert "had 400 rows" in str(changed_since_scored(store, "late", f"{lake}/", sink, week, 7))


def test_a_partition_before_that_cannot_be_judged_does_not_stop_the_judgment(
    store: pc.ModelStore, lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    champion = store.resolve("late@champion")
    for week in (2, 3):
        sink = lake.parent / "scored"
        pc.score(champion, lake, sink, partition={"week": week}, store=store)
    write_rows(lake / "week=2", pa.table({"x": [0.5, 1.5], "late": ["yes", "no"]}))
    judgment = judge(store, lake, 3, catch_up=7)
    assert (judgment.served, judgment.late) == (champion, [])
    assert "week=2 is not judged: label 'late' is string here" in caplog.text


def test_no_fallback_returns_to_a_version_of_another_format(
    store: pc.ModelStore, lake: Path
) -> None:
    champion = store.resolve("late@champion")
    write_in_another_format(store.resolve("late@champion@previous"), store)
    judgment = judge(store, lake, 2, fallback="rollback")
    assert judgment.champion.id == store.load(champion.ref).prior_only().id


def test_a_champion_that_was_trained_on_the_rows_stays(store: pc.ModelStore, lake: Path) -> None:
    mixed = store.save(pc.fit(lake, SPEC, where="week in 1, 2, 3"), "late")
    store.promote("late", mixed, alias="champion")
    evaluation = pc.evaluate(store.load(mixed.ref), lake, partition={"week": 2})
    assert "log_loss" in evaluation.worse_than_prior
    assert judge(store, lake, 2).champion == mixed


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"fallback": "both"}, SpecError, "fallback must be one of 'prior', 'rollback'"),
        ({"alias": "other"}, StoreError, "no version has been promoted yet"),
    ],
)
def test_what_cannot_be_judged_is_said(
    store: pc.ModelStore, lake: Path, fields: dict[str, Any], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        judge(store, lake, 3, **fields)
