"""The gate: who is promoted, who is not, and what the log says of it."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

import probclass_core as pc
from probclass_airflow import ProbClassEvaluateOperator, ProbClassPromoteOperator

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


def measured(store: pc.ModelStore, ref: str, lake: str) -> pc.Evaluation:
    return pc.evaluate(store.load(ref), lake, partition=FEBRUARY)


def by_hand(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    task = ProbClassPromoteOperator(task_id="task", **{**fields, **more})
    return dict(task.execute({"run_id": "by hand"}))


def test_without_a_champion_the_challenger_is_promoted_and_again_is_no_news(
    run: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    asset = [Asset("air.champion")]
    first = run(ProbClassPromoteOperator, model="air@poor", outlets=asset, **fields)
    assert first.state == "success"
    assert store.resolve("air@champion") == store.resolve("air@poor")
    assert first.result["promoted"] is True
    assert first.result["champion"] is None
    assert first.result["challenger_value"] == measured(store, "air@poor", lake).log_loss
    assert first.events == {"air.champion": first.result}
    promoted = store.aliases("air")["champion"]
    again = run(ProbClassPromoteOperator, model="air@poor", **fields)
    assert again.state == "success"
    assert again.result["promoted"] is False
    assert "is the champion already" in again.result["reason"]
    assert store.aliases("air")["champion"] == promoted


def test_the_better_is_promoted_and_the_worse_is_skipped_with_the_reason(
    run: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    good, poor = (measured(store, f"air@{name}", lake) for name in ("good", "poor"))
    assert good.log_loss < poor.log_loss
    before = store.promote("air", "air@poor", alias="champion")
    task = run(ProbClassPromoteOperator, model="air@good", **fields)
    assert task.state == "success"
    assert task.result["challenger_value"] == good.log_loss
    assert task.result["champion_value"] == poor.log_loss
    assert task.result["champion"] == f"air@{before.id}"
    assert store.resolve("air@champion") == store.resolve("air@good")

    skipped = run(ProbClassPromoteOperator, model="air@poor", **fields)
    assert (skipped.state, skipped.result, skipped.events) == ("skipped", None, {})
    assert store.resolve("air@champion") == store.resolve("air@good")
    with pytest.raises(AirflowSkipException) as caught:
        by_hand(fields, model="air@poor")
    words = str(caught.value)
    assert (
        f"log_loss {poor.log_loss:.6g} against {good.log_loss:.6g} on {good.rows:,} rows" in words
    )
    assert "\n" not in words


def test_a_challenger_that_was_evaluated_already_is_not_evaluated_again(
    store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    judged = {name: fields[name] for name in ("source", "store", "partition")}
    evaluate = ProbClassEvaluateOperator(task_id="evaluate", model="air@good", **judged)
    evaluation = evaluate.execute({"run_id": "by hand"})
    gone = {**fields, "source": "/no/such/table"}  # with no champion, nothing else is read
    first = by_hand(gone, model="air@good", evaluation=evaluation, alias="first")
    assert first["challenger_value"] == measured(store, "air@good", lake).log_loss
    store.promote("air", "air@poor", alias="champion")
    given = by_hand(fields, model="air@good", evaluation=evaluation)
    store.promote("air", "air@poor", alias="champion")
    assert given == by_hand(fields, model="air@good")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "air@0123456789"}, "evaluation is of 'air@0123456789' and the challenger is"),
        ({"rows": 7}, "evaluated on 7 rows and the champion on 6"),
    ],
)
def test_an_evaluation_of_something_else_is_refused(
    wrong: dict[str, Any], message: str, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    evaluation = {**measured(store, "air@good", lake).to_dict()}
    evaluation |= {"model": store.resolve("air@good").ref, **wrong}
    store.promote("air", "air@poor", alias="champion")
    with pytest.raises(AirflowFailException, match=message):
        by_hand(fields, model="air@good", evaluation=evaluation)
    assert store.resolve("air@champion") == store.resolve("air@poor")


@pytest.mark.parametrize("metric", ["log_loss", "brier", "accuracy", "ece"])
def test_each_metric_has_its_direction(
    metric: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    good, poor = (
        getattr(measured(store, f"air@{name}", lake), metric) for name in ("good", "poor")
    )
    better = good > poor if metric == "accuracy" else good < poor
    challenger, champion = ("good", "poor") if better else ("poor", "good")
    store.promote("air", f"air@{champion}", alias="champion")
    gap = abs(good - poor)
    with pytest.raises(AirflowSkipException, match="less than the margin"):
        by_hand(fields, model=f"air@{challenger}", metric=metric, margin=gap * 1.01)
    summary = by_hand(fields, model=f"air@{challenger}", metric=metric, margin=gap * 0.99)
    assert summary["promoted"] is True
    with pytest.raises(AirflowSkipException, match="not better"):
        by_hand(fields, model=f"air@{champion}", metric=metric)


def test_cost_needs_costs(store: pc.ModelStore, fields: dict[str, Any]) -> None:
    store.promote("air", "air@poor", alias="champion")
    with pytest.raises(AirflowFailException, match="needs a decision with costs"):
        by_hand(fields, model="air@good", metric="cost")
    costs = {"costs": {"unhealthy": {"good": 5}}}
    assert by_hand(fields, model="air@good", metric="cost", decision=costs)["promoted"]


def test_who_never_saw_a_class_cannot_win_by_leaving_it_out(
    store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    fewer = pc.fit(lake, GOOD, where=[*YEAR, ("air", "!=", "good")])
    store.promote("air", store.save(fewer, "air"), alias="blind")
    store.promote("air", "air@good", alias="champion")
    for metric in ("log_loss", "brier"):
        with pytest.raises(AirflowSkipException, match=r"rows are of a class it never saw"):
            by_hand(fields, model="air@blind", metric=metric)
    store.promote("air", "air@blind", alias="champion")
    assert by_hand(fields, model="air@good")["promoted"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"metric": "f1"}, "metric 'f1' is unknown; use one of 'log_loss'"),
        ({"margin": -1}, "margin must be a number from 0 on, got -1"),
        ({"margin": "much"}, "margin must be a number from 0 on, got 'much'"),
        ({"alias": " "}, "alias is empty once rendered"),
        ({"partition": {"month": ""}}, r"partition\['month'\] is empty once rendered"),
    ],
)
def test_bad_fields_fail_at_once(
    bad: dict[str, Any], message: str, run: Any, store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        by_hand(fields, model="air@good", **bad)
    task = run(
        ProbClassPromoteOperator,
        retries=2,
        retry_delay=timedelta(0),
        **{**fields, "model": "air@good", **bad},
    )
    assert (task.state, task.tries) == ("failed", 1)
    assert "champion" not in store.aliases("air")


def test_what_is_not_there_is_said_and_nothing_is_promoted(
    store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    with pytest.raises(pc.StoreError, match=r"no version or alias 'best'.*'good', 'poor'"):
        by_hand(fields, model="air@best")
    with pytest.raises(pc.TableError, match="2031-01"):
        by_hand(fields, model="air@good", partition={"month": "2031-01"})
    assert "champion" not in store.aliases("air")


def test_a_model_of_another_schema_is_named(
    store: pc.ModelStore, fields: dict[str, Any], tmp_path: Path
) -> None:
    columns = {"air": ["good", "unhealthy"] * 4, "dew_point": [1.0, 2.0, 3.0, 4.0] * 2}
    other = pc.ModelSpec(label="air", blocks=(pc.Block("gaussian_diagonal", ["dew_point_c"]),))
    renamed = {"air": columns["air"], "dew_point_c": columns["dew_point"]}
    store.promote("air", store.save(pc.fit(renamed, other), "air"), alias="champion")
    with pytest.raises(AirflowFailException, match=r"the champion: .*'dew_point_c'") as caught:
        by_hand(fields, model="air@good")
    assert "\n" not in str(caught.value)


def test_a_champion_who_moved_meanwhile_is_not_overrun(
    store: pc.ModelStore, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.promote("air", "air@poor", alias="champion")

    class Overtaken(ProbClassPromoteOperator):
        def _verdict(self, *evaluations: Any) -> tuple[bool, str]:
            store.promote("air", "air@good", alias="champion")
            return super()._verdict(*evaluations)

    fit = store.save(pc.fit(fields["source"], GOOD, partition=FEBRUARY), "air")
    with pytest.raises(pc.StoreError, match="promoted by another process"):
        Overtaken(task_id="task", model=fit.ref, **fields).execute({"run_id": "by hand"})
    assert store.resolve("air@champion") == store.resolve("air@good")


def test_of_two_gates_that_race_one_moves_the_alias(
    store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    store.promote("air", "air@poor", alias="champion")
    fit = store.save(pc.fit(fields["source"], GOOD, where=YEAR[:1]), "air")
    both_compared = threading.Barrier(2)

    class Racing(ProbClassPromoteOperator):
        def _verdict(self, *evaluations: Any) -> tuple[bool, str]:
            verdict = super()._verdict(*evaluations)
            both_compared.wait(60)
            return verdict

    def gate(ref: str) -> str:
        try:
            Racing(task_id="task", model=ref, **fields).execute({"run_id": ref})
        except pc.StoreError as error:
            return str(error)
        return "promoted"

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(gate, ["air@good", fit.ref]))
    (overtaken,) = set(ends) - {"promoted"}
    assert "was promoted by another process" in overtaken
    winner = (store.resolve("air@good"), fit)[ends.index("promoted")]
    assert store.resolve("air@champion") == winner


class StoppedPromote(ProbClassPromoteOperator):
    """Gets SIGTERM once it has compared."""

    def _verdict(self, *evaluations: Any) -> tuple[bool, str]:
        os.kill(os.getpid(), signal.SIGTERM)
        return super()._verdict(*evaluations)


def test_told_to_stop_it_promotes_nothing(
    run: Any, store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    store.promote("air", "air@poor", alias="champion")
    task = run(StoppedPromote, model="air@good", outlets=[Asset("air.champion")], **fields)
    assert (task.state, task.result, task.events) == ("failed", None, {})
    assert store.resolve("air@champion") == store.resolve("air@poor")
