"""A person decides whether a challenger that passed the gate is promoted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

import probclass_core as pc
from probclass_airflow import ProbClassApproveOperator, ProbClassPromoteOperator, operate_model

GOOD = pc.ModelSpec("air", [pc.Block("gaussian_full", ["dew_point", "pressure"])])
POOR = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", ["pressure"])])
YEAR = [("month", ">=", "2012-02"), ("month", "<", "2013-02")]
MARY = {"id": "7", "name": "mary"}
SOON = timedelta(hours=20)


@pytest.fixture
def store(lake: str, tmp_path: Path) -> pc.ModelStore:
    """A store with a champion, and a better version ``air@new``."""
    store = pc.ModelStore(tmp_path / "models")
    for alias, spec in (("champion", POOR), ("new", GOOD)):
        store.promote("air", store.save(pc.fit(lake, spec, where=YEAR), "air"), alias=alias)
    return store


@pytest.fixture
def proposal(lake: str, store: pc.ModelStore) -> dict[str, Any]:
    """The result of a gate that the challenger passed."""
    gate = ProbClassPromoteOperator(
        task_id="gate",
        source=lake,
        store=store.uri,
        partition={"month": "2013-02"},
        model="air@new",
        propose=True,
        outlets=[Asset("air.champion")],
    )
    result = gate.execute({"run_id": "by hand", "ti": Mock(), "outlet_events": Mock()})
    assert gate.outlets == [], "the alias has not moved"
    return dict(result)


def asked(task: ProbClassApproveOperator) -> str:
    """Run the task until it waits; returns the body of its question."""
    with (
        patch("airflow.providers.standard.operators.hitl.upsert_hitl_detail") as upsert,
        pytest.raises(TaskAwaitingInput) as waits,
    ):
        task.execute({"task_instance": Mock()})
    assert waits.value.timeout == SOON
    assert upsert.call_args.kwargs["defaults"] == ["Refuse"]
    return str(upsert.call_args.kwargs["body"])


def answer(task: ProbClassApproveOperator, option: str, user: Any = MARY) -> dict[str, Any]:
    now = datetime.now(UTC)
    event = {"chosen_options": [option], "params_input": {}, "responded_at": now}
    return dict(task.execute_complete({}, {**event, "responded_by_user": user}))


@pytest.fixture
def approve(store: pc.ModelStore, proposal: dict[str, Any]) -> ProbClassApproveOperator:
    return ProbClassApproveOperator(
        task_id="approve", proposal=proposal, store=store.uri, response_timeout=SOON
    )


def test_the_question_has_the_evidence_and_the_ledger_has_who_approved(
    store: pc.ModelStore, proposal: dict[str, Any], approve: ProbClassApproveOperator
) -> None:
    before = store.resolve("air@champion")
    assert (proposal["action"], proposal["promoted"]) == ("proposed", False)
    body = asked(approve)
    assert f"{proposal['gain']:.4g} ± {proposal['standard_error']:.4g}" in body
    assert f"| log_loss | {proposal['challenger_value']:.4g} |" in body
    assert f"compare?left={before.id}&right={store.resolve('air@new').id}" in body
    assert "Judged on `month = 2013-02` of" in body
    assert store.resolve("air@champion") == before, "nothing moves while it waits"
    assert answer(approve, "Promote")["promoted"] is True
    entry = store.history("air", "champion")[-1]
    assert store.resolve("air@champion") == store.resolve("air@new")
    assert (entry.by, entry.reason) == ("mary", f"approved: {proposal['reason']}")
    assert entry.metrics["gain"] == proposal["gain"]


@pytest.mark.parametrize(("user", "reason"), [(MARY, "not approved"), (None, "no answer in time")])
def test_what_is_not_approved_stays_and_is_in_the_ledger(
    user: Any, reason: str, store: pc.ModelStore, approve: ProbClassApproveOperator
) -> None:
    before = store.resolve("air@champion")
    assert answer(approve, "Refuse", user)["action"] == "refused"
    assert store.resolve("air@champion") == before
    entry = next(iter(store.ledger("air", "champion")))
    assert entry.action == "refused"
    assert str(entry.reason).startswith(f"{reason}: log_loss ")


def test_nothing_is_asked_without_a_proposal_or_once_another_version_is_in_force(
    lake: str, store: pc.ModelStore, approve: ProbClassApproveOperator
) -> None:
    refused = {"action": "refused", "reason": "it is not better"}
    for proposal in (None, refused):
        task = ProbClassApproveOperator(
            task_id="approve", proposal=proposal, store=store.uri, response_timeout=SOON
        )
        with pytest.raises(AirflowSkipException, match="No challenger is proposed"):
            task.execute({"task_instance": Mock()})
    store.promote("air", store.save(store.load("air@champion").prior_only(), "air"), "champion")
    with pytest.raises(AirflowSkipException, match="names another version"):
        approve.execute({"task_instance": Mock()})


def test_scoring_and_the_report_of_a_run_do_not_wait_for_the_answer(
    lake: str, tmp_path: Path, run_dag: Callable[..., Any]
) -> None:
    with DAG("approved", schedule=None) as dag:
        operate_model(
            "air",
            source=lake,
            sink=str(tmp_path / "scored"),
            store=str(tmp_path / "models"),
            partition={"month": "2013-03"},
            label_column="air",
            exclude=["pm25"],
            train_on=3,
            approval={"response_timeout": SOON},
            default_args={"retries": 0},
        )
    assert not dag.task_dict["air.approve"].downstream_task_ids
    assert "air.approve" not in dag.task_dict["air.done"].upstream_task_ids

    def execute(self: Any, context: Any) -> Any:
        with patch.object(HITLOperator, "execute", return_value=None):
            asks(self, context)
        return answer(self, "Promote")

    asks = ProbClassApproveOperator.execute
    with patch.object(ProbClassApproveOperator, "execute", execute):
        first = {name.removeprefix("air."): ran for name, ran in run_dag(dag).items()}
    store = pc.ModelStore(tmp_path / "models")
    prior = first["score"].result["model"]
    assert store.load(prior).is_prior_only, "no version was approved when the month was scored"
    assert first["promote"].result["champion"] == prior
    assert store.resolve("air@champion").ref == first["train"].result["model"]
    states = {name: ran.state for name, ran in first.items()}
    assert states.pop("done") == "failed", "the class prior is in force, which is not green"
    assert set(states.values()) == {"success"}
