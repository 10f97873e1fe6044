"""Promotion: which challengers are promoted, which are not, and what the log says."""

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


def evaluated(store: pc.ModelStore, ref: str, lake: str) -> pc.Evaluation:
    return pc.evaluate(store.load(ref), lake, partition=FEBRUARY)


def promote(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    task = ProbClassPromoteOperator(task_id="task", **{**fields, **more})
    return dict(task.execute({"run_id": "by hand"}))


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


def test_a_better_model_is_promoted_and_a_worse_one_is_skipped_with_the_reason(
    run: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    good, poor = (evaluated(store, f"air@{name}", lake) for name in ("good", "poor"))
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
    with pytest.raises(AirflowSkipException) as raised:
        promote(fields, model="air@poor")
    message = str(raised.value)
    assert (
        f"log_loss {poor.log_loss:.6g} against {good.log_loss:.6g} on {good.rows:,} rows" in message
    )
    assert "\n" not in message


def test_an_evaluated_challenger_is_not_evaluated_again(
    store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    rows = {name: fields[name] for name in ("source", "store", "partition")}
    evaluate = ProbClassEvaluateOperator(task_id="evaluate", model="air@good", **rows)
    evaluation = evaluate.execute({"run_id": "by hand"})
    missing = {**fields, "source": "/no/such/table"}  # without a champion nothing is read
    first = promote(missing, model="air@good", evaluation=evaluation, alias="first")
    assert first["challenger_value"] == evaluated(store, "air@good", lake).log_loss
    store.promote("air", "air@poor", alias="champion")
    given = promote(fields, model="air@good", evaluation=evaluation)
    store.promote("air", "air@poor", alias="champion")
    assert given == promote(fields, model="air@good")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "air@0123456789"}, "evaluation is of 'air@0123456789' but the challenger is"),
        ({"rows": 7}, "evaluated on 7 rows and the champion on 6"),
    ],
)
def test_an_evaluation_of_another_model_or_other_rows_is_an_error(
    wrong: dict[str, Any], message: str, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    evaluation = {**evaluated(store, "air@good", lake).to_dict()}
    evaluation |= {"model": store.resolve("air@good").ref, **wrong}
    store.promote("air", "air@poor", alias="champion")
    with pytest.raises(AirflowFailException, match=message):
        promote(fields, model="air@good", evaluation=evaluation)
    assert store.resolve("air@champion") == store.resolve("air@poor")


@pytest.mark.parametrize("metric", ["log_loss", "brier", "accuracy", "ece"])
def test_each_metric_has_its_direction(
    metric: Any, store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    good, poor = (
        getattr(evaluated(store, f"air@{name}", lake), metric) for name in ("good", "poor")
    )
    better = good > poor if metric == "accuracy" else good < poor
    challenger, champion = ("good", "poor") if better else ("poor", "good")
    store.promote("air", f"air@{champion}", alias="champion")
    gap = abs(good - poor)
    with pytest.raises(AirflowSkipException, match="less than the margin"):
        promote(fields, model=f"air@{challenger}", metric=metric, margin=gap * 1.01)
    summary = promote(fields, model=f"air@{challenger}", metric=metric, margin=gap * 0.99)
    assert summary["promoted"] is True
    with pytest.raises(AirflowSkipException, match="not better"):
        promote(fields, model=f"air@{champion}", metric=metric)


def test_cost_needs_costs(store: pc.ModelStore, fields: dict[str, Any]) -> None:
    store.promote("air", "air@poor", alias="champion")
    with pytest.raises(AirflowFailException, match="needs a decision with costs"):
        promote(fields, model="air@good", metric="cost")
    costs = {"costs": {"unhealthy": {"good": 5}}}
    assert promote(fields, model="air@good", metric="cost", decision=costs)["promoted"]


def test_a_model_without_a_class_cannot_win_by_leaving_its_rows_out(
    store: pc.ModelStore, fields: dict[str, Any], lake: str
) -> None:
    fewer = pc.fit(lake, GOOD, where=[*YEAR, ("air", "!=", "good")])
    store.promote("air", store.save(fewer, "air"), alias="blind")
    store.promote("air", "air@good", alias="champion")
    for metric in ("log_loss", "brier"):
        with pytest.raises(
            AirflowSkipException, match=r"rows have a class that it was not trained on"
        ):
            promote(fields, model="air@blind", metric=metric)
    store.promote("air", "air@blind", alias="champion")
    assert promote(fields, model="air@good")["promoted"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"metric": "f1"}, "metric 'f1' is unknown; use one of 'accuracy'"),
        ({"margin": -1}, "margin must be a finite number of at least 0, got -1"),
        ({"margin": "much"}, "margin must be a finite number of at least 0, got 'much'"),
        ({"alias": " "}, "alias is empty after rendering"),
        ({"partition": {"month": ""}}, r"partition\['month'\] is empty after rendering"),
    ],
)
def test_wrong_arguments_fail_without_a_retry(
    bad: dict[str, Any], message: str, run: Any, store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        promote(fields, model="air@good", **bad)
    task = run(
        ProbClassPromoteOperator,
        retries=2,
        retry_delay=timedelta(0),
        **{**fields, "model": "air@good", **bad},
    )
    assert (task.state, task.tries) == ("failed", 1)
    assert "champion" not in store.aliases("air")


def test_a_missing_model_or_partition_is_an_error_and_nothing_is_promoted(
    store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    with pytest.raises(pc.StoreError, match=r"no version or alias 'best'.*'good', 'poor'"):
        promote(fields, model="air@best")
    with pytest.raises(pc.TableError, match="2031-01"):
        promote(fields, model="air@good", partition={"month": "2031-01"})
    assert "champion" not in store.aliases("air")


def test_a_champion_of_another_schema_is_named(
    store: pc.ModelStore, fields: dict[str, Any], tmp_path: Path
) -> None:
    columns = {"air": ["good", "unhealthy"] * 4, "dew_point": [1.0, 2.0, 3.0, 4.0] * 2}
    other = pc.ModelSpec(label="air", blocks=(pc.Block("gaussian_diagonal", ["dew_point_c"]),))
    renamed = {"air": columns["air"], "dew_point_c": columns["dew_point"]}
    store.promote("air", store.save(pc.fit(renamed, other), "air"), alias="champion")
    with pytest.raises(AirflowFailException, match=r"the champion: .*'dew_point_c'") as raised:
        promote(fields, model="air@good")
    assert "\n" not in str(raised.value)


def test_a_champion_promoted_during_the_comparison_is_not_replaced(
    store: pc.ModelStore, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.promote("air", "air@poor", alias="champion")

    class Overtaken(ProbClassPromoteOperator):
        def evaluate(self, *arguments: Any) -> pc.Evaluation:
            store.promote("air", "air@good", alias="champion")
            return super().evaluate(*arguments)

    fit = store.save(pc.fit(fields["source"], GOOD, partition=FEBRUARY), "air")
    with pytest.raises(pc.StoreError, match="promoted by another process"):
        Overtaken(task_id="task", model=fit.ref, **fields).execute({"run_id": "by hand"})
    assert store.resolve("air@champion") == store.resolve("air@good")


def test_one_of_two_concurrent_promotions_moves_the_alias(
    store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    store.promote("air", "air@poor", alias="champion")
    fit = store.save(pc.fit(fields["source"], GOOD, where=YEAR[:1]), "air")
    champion = store.resolve("air@champion")
    both_compared = threading.Barrier(2)

    class Racing(ProbClassPromoteOperator):
        def evaluate(self, store: Any, version: pc.ModelVersion, *arguments: Any) -> pc.Evaluation:
            evaluation = super().evaluate(store, version, *arguments)
            if version == champion:
                both_compared.wait(60)
            return evaluation

    def outcome(ref: str) -> str:
        try:
            Racing(task_id="task", model=ref, **fields).execute({"run_id": ref})
        except pc.StoreError as error:
            return str(error)
        return "promoted"

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, ["air@good", fit.ref]))
    (overtaken,) = set(outcomes) - {"promoted"}
    assert "was promoted by another process" in overtaken
    winner = (store.resolve("air@good"), fit)[outcomes.index("promoted")]
    assert store.resolve("air@champion") == winner


class StoppedPromote(ProbClassPromoteOperator):
    """Gets SIGTERM before it evaluates."""

    def evaluate(self, *arguments: Any) -> pc.Evaluation:
        os.kill(os.getpid(), signal.SIGTERM)
        return super().evaluate(*arguments)


def test_a_stopped_promotion_changes_nothing(
    run: Any, store: pc.ModelStore, fields: dict[str, Any]
) -> None:
    store.promote("air", "air@poor", alias="champion")
    task = run(StoppedPromote, model="air@good", outlets=[Asset("air.champion")], **fields)
    assert (task.state, task.result, task.events) == ("failed", None, {})
    assert store.resolve("air@champion") == store.resolve("air@poor")
