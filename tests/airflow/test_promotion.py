"""Promotion: which challengers are promoted, which are not, and what the log says."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException

import probclass_core as pc
from probclass_airflow import (
    ProbClassCalibrateOperator,
    ProbClassPromoteOperator,
    ProbClassRollbackOperator,
    ProbClassTrainOperator,
    rollback_task_group,
)
from probclass_core.analysis.evaluation import Evaluation

GOOD = pc.ModelSpec(label="air", blocks=(pc.Block("gaussian_full", ["dew_point", "pressure"]),))
POOR = pc.ModelSpec(label="air", blocks=(pc.Block("gaussian_diagonal", ["pressure"]),))
YEAR = [("month", ">=", "2012-02"), ("month", "<", "2013-02")]
FEBRUARY = {"month": "2013-02"}


@pytest.fixture
def store(lake: str, tmp_path: Path) -> pc.ModelStore:
    """A store with two versions of a model, ``air@good`` and ``air@poor``, and no champion."""
    store = pc.ModelStore(tmp_path / "models")
    for name, spec in (("good", GOOD), ("poor", POOR)):
        store.promote("air", store.save(pc.fit(lake, spec, where=YEAR), "air"), alias=name)
    return store


@pytest.fixture
def fields(lake: str, store: pc.ModelStore) -> dict[str, Any]:
    return {"source": lake, "store": store.uri, "partition": FEBRUARY}


def evaluated(store: pc.ModelStore, ref: str, lake: str) -> Evaluation:
    return pc.evaluate(store.load(ref), lake, partition=FEBRUARY)


def promote(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    task = ProbClassPromoteOperator(task_id="task", **{**fields, **more})
    return dict(task.execute({"run_id": "by hand", "ti": Mock()}))


def test_without_a_champion_the_challenger_is_promoted_once(
    run: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    asset = [Asset("air.champion")]
    first = run(ProbClassPromoteOperator, model="air@poor", outlets=asset, **fields)
    assert first.state == "success"
    assert store.resolve("air@champion") == store.resolve("air@poor")
    assert first.result["promoted"] is True
    assert first.result["champion"] is None
    assert first.result["challenger_value"] == evaluated(store, "air@poor", lake).log_loss
    assert first.events == {"air.champion": first.result}
    promoted = store.aliases("air")["champion"]
    again = run(ProbClassPromoteOperator, model="air@poor", **fields)
    assert again.state == "success"
    assert again.result["promoted"] is False
    assert "is the champion already" in again.result["reason"]
    assert store.aliases("air")["champion"] == promoted


def test_a_refusal_is_a_result_an_event_and_an_entry_of_the_ledger(
    run: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    good, poor = (evaluated(store, f"air@{name}", lake) for name in ("good", "poor"))
    store.promote("air", "air@good", alias="champion")
    assets = {"outlets": [Asset("air.champion")], "refusal_outlets": [Asset("air.refused")]}
    task = run(ProbClassPromoteOperator, model="air@poor", **assets, **fields)
    assert (task.state, task.result["promoted"], task.result["action"]) == (
        *("success", False),
        "refused",
    )
    assert task.events == {"air.refused": task.result}
    entry = store.history("air", "champion")[-1]
    assert (entry.action, entry.reason) == ("refused", task.result["reason"])
    assert entry.provenance["partition"] == FEBRUARY
    assert entry.provenance["airflow"]["task_id"] == "task"
    compared = f"log_loss {poor.log_loss:.6g} against {good.log_loss:.6g} on {good.rows:,} rows"
    assert task.result["reason"] == f"{compared} is not better"
    assert task.result["gain"] == pytest.approx(good.log_loss - poor.log_loss, rel=1e-12)
    assert store.resolve("air@champion") == store.resolve("air@good")


def test_mapped_tasks_have_the_events_of_their_refusals(
    run_dag: Any, store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    store.promote("air", "air@good", alias="champion")
    assets = {"outlets": [Asset("air.champion")], "refusal_outlets": [Asset("air.refused")]}
    with DAG("challengers", schedule=None) as dag:
        ProbClassPromoteOperator.partial(
            task_id="promote", max_active_tis_per_dag=1, **assets, **fields
        ).expand(model=["air@poor", "air@good"])
    ran = run_dag(dag)
    poor, good = (ran[f"promote[{index}]"] for index in range(2))
    assert good.events == {"air.champion": good.result}
    assert poor.events == {"air.refused": poor.result}
    assert store.resolve("air@champion") == store.resolve("air@good")


@pytest.mark.parametrize(("on_refusal", "state"), [("skip", "skipped"), ("fail", "failed")])
def test_a_refusal_can_skip_or_fail_the_task_which_keeps_its_result(
    on_refusal: str, state: str, run: Any, store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    store.promote("air", "air@good", alias="champion")
    task = run(ProbClassPromoteOperator, model="air@poor", on_refusal=on_refusal, **fields)
    assert (task.state, task.events) == (state, {})
    assert (task.result["promoted"], task.result["action"]) == (False, "refused")


def test_a_rollback_is_made_once_per_run_and_a_repeated_training_does_not_undo_it(
    run_dag: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    """A cleared task runs again with the id of its run."""
    place = {"source": lake, "store": store.uri, "model": "air"}
    with DAG("retrain", schedule=None) as retrain:
        ProbClassTrainOperator(
            task_id="train", spec=GOOD.to_dict(), where=YEAR, alias="champion", **place
        )
    with DAG("undo", schedule=None) as undo:
        task = ProbClassRollbackOperator(
            task_id="undo",
            model="air",
            store=store.uri,
            reason="it was worse",
            outlets=[Asset("air.champion")],
        )
    for alias in ("poor", "good"):
        store.promote("air", f"air@{alias}", "champion")
    good, poor = (store.resolve(f"air@{alias}") for alias in ("good", "poor"))
    first = run_dag(undo)["undo"]
    assert first.result["rolled_back"] == good.ref
    assert first.events == {"air.champion": first.result}
    (entry,) = (each for each in store.history("air") if each.action == "rolled_back")
    context = {"run_id": entry.provenance["airflow"]["run_id"]}
    assert task.call({"dag_id": "undo", "task_id": "undo", **context}) == first.result
    assert store.resolve("air@champion") == poor

    again = run_dag(retrain)["train"]
    assert (again.state, again.tries) == ("failed", 1)
    assert store.resolve("air@champion") == poor
    actions = [entry.action for entry in store.history("air", "champion")]
    assert actions == ["promoted", "promoted", "rolled_back", "refused"]
    assert promote(fields, model=good.ref)["action"] == "refused"


def test_a_rollback_scores_again_what_the_versions_left_behind_have_scored(
    run_dag: Any, store: pc.ModelStore, lake: str, tmp_path: Path
) -> None:
    worse = store.save(store.load("air@good").with_prior("uniform"), "air")
    for version, month in (("air@poor", "2013-02"), ("air@good", "2013-03"), (worse, "2013-04")):
        store.promote("air", version, "champion")
        partition = {"month": month}
        pc.score(store.load("air@champion"), lake, tmp_path / "scored", partition=partition)
    left_behind = {store.resolve("air@good").ref, worse.ref}
    with DAG("undo_and_rescore", schedule=None) as dag:
        rollback_task_group(
            model="air",
            source=lake,
            sink=str(tmp_path / "scored"),
            store=store.uri,
            steps=2,
            reason="both were worse",
            outlets=[Asset("air.champion")],
            changed=[Asset("air.scored")],
        )
    ran = run_dag(dag)
    undone, rescored = ran["rollback.rollback"], ran["rollback.rescore"]
    assert {*undone.result["left_behind"]} == left_behind
    assert rescored.result["names"] == {"scored": ["month=2013-03", "month=2013-04"]}
    assert (*undone.events, *rescored.events) == ("air.champion", "air.scored")
    poor = store.resolve("air@poor")
    assert {one["model_id"] for one in pc.commits(tmp_path / "scored")} == {poor.id}
    entry = store.history("air", "champion")[-1]
    assert {version.ref for version in store.left_behind(entry)} == left_behind
    store.promote("air", worse, "champion", force=True, reason="it was not")
    assert [version.ref for version in store.left_behind(entry)] == [store.resolve("air@good").ref]


def test_a_repeated_calibration_does_not_undo_a_rollback(
    store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    calibrate = ProbClassCalibrateOperator(
        task_id="task", **{**fields, "model": "air@good", "alias": "champion"}
    )
    store.promote("air", "air@poor", "champion")
    calibrate.execute({"run_id": "by hand", "ti": Mock()})
    store.rollback("air", reason="it was worse")
    with pytest.raises(AirflowFailException, match=r"was rolled back from .* with force"):
        calibrate.execute({"run_id": "by hand", "ti": Mock()})
    assert store.resolve("air@champion") == store.resolve("air@poor")


def test_a_rollback_from_another_version_than_the_champion_fails(
    store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    for alias in ("poor", "good"):
        store.promote("air", f"air@{alias}", "champion")
    task = ProbClassRollbackOperator(
        task_id="task", model="air", store=store.uri, version=store.resolve("air@poor").ref
    )
    with pytest.raises(AirflowFailException, match="the expected version; nothing to roll back"):
        task.execute({"run_id": "by hand", "ti": Mock()})
    assert store.resolve("air@champion") == store.resolve("air@good")
