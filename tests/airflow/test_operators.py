"""The operators, run as tasks: results, events, rules of decision, calibration and progress."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from airflow.sdk import DAG, Asset

import probclass_core as pc
from probclass_airflow import (
    ProbClassCalibrateOperator,
    ProbClassEvaluateOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)

SPEC = {
    "label": "air",
    "blocks": {
        "gaussian_full": ["dew_point", "temperature", "pressure"],
        "categorical": ["wind_direction"],
    },
}
JANUARY = {"month": "2013-01"}
FEBRUARY = {"month": "2013-02"}
RULE = {"costs": {"unhealthy": {"good": 5}}, "min_probability": 0.5, "min_rarity": 0.01}


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "models")


@pytest.fixture
def trained(store: str, lake: str) -> pc.ModelStore:
    """A store with the model of January 2013, ``air@champion``, with density quantiles."""
    models = pc.ModelStore(store)
    model = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), partition=JANUARY)
    version = models.save(pc.with_density_quantiles(model, lake, partition=JANUARY), "air")
    models.promote("air", version, alias="champion")
    return models


def test_training_saves_promotes_and_reports(run: Any, lake: str, store: str) -> None:
    asset = Asset("air.model")
    task = run(
        ProbClassTrainOperator,
        source=lake,
        spec=SPEC,
        where=[("month", ">=", "2012-{{ params.missing or '12' }}"), ("month", "<", "2013-02")],
        store=store,
        model="air",
        alias="{{ 'champion' }}",
        params={"missing": ""},
        outlets=[asset],
    )
    where = [("month", ">=", "2012-12"), ("month", "<", "2013-02")]
    expected = pc.fit(lake, pc.ModelSpec.from_dict(SPEC), where=where)
    assert task.state == "success"
    assert task.result == {
        "model": f"air@{expected.id}",
        "alias": "champion",
        "rows": expected.training["rows"],
        "null_labels": expected.training["null_labels"],
        "spec_digest": expected.spec.digest,
    }
    assert task.events == {"air.model": task.result}
    saved = pc.ModelStore(store).resolve("air@champion")
    assert saved.id == expected.id
    assert saved.provenance["airflow"]["task_id"] == "task"


def test_training_reports_the_log_loss_next_to_that_of_the_prior(
    run: Any, lake: str, store: str
) -> None:
    fields = {"source": lake, "store": store, "model": "air", "partition": JANUARY}
    task = run(ProbClassTrainOperator, spec={**SPEC, "block_weights": "fit"}, **fields)
    fitted = pc.ModelStore(store).load("air").training["block_weights"]
    assert task.result["log_loss"] == fitted["log_loss"]
    assert task.result["baseline_log_loss"] == fitted["prior_log_loss"]
    assert fitted["log_loss"] < fitted["prior_log_loss"]


def test_scoring_resolves_the_alias_once_and_reports(
    run: Any, lake: str, trained: pc.ModelStore, tmp_path: Path
) -> None:
    sink = tmp_path / "scored"
    task = run(
        ProbClassScoreOperator,
        source=lake,
        sink=str(sink),
        store=trained.uri,
        model="air@champion",
        partition={"month": "{{ '2013-02' }}"},
        options={"columns": ["time", "air"], "posterior": "list"},
        outlets=[Asset("air.scored")],
    )
    champion = trained.resolve("air@champion")
    scored = ds.dataset(sink, partitioning="hive").to_table()
    assert task.state == "success"
    assert task.result["model"] == champion.ref
    assert task.result["rows"] == scored.num_rows == 28 * 24
    assert task.result["partition"] == FEBRUARY
    assert task.events == {"air.scored": task.result}
    assert scored.column_names[:3] == ["time", "air", "prediction"]
    assert "posterior" in scored.column_names
    assert set(scored["model_id"].to_pylist()) == {champion.id}
    [commit] = pc.commits(sink)
    assert commit["provenance"]["airflow"]["run_id"].startswith("manual__")


def test_training_saves_density_quantiles(
    run: Any, lake: str, trained: pc.ModelStore, tmp_path: Path
) -> None:
    task = run(
        ProbClassTrainOperator,
        source=lake,
        spec=SPEC,
        partition=JANUARY,
        store=str(tmp_path / "others"),
        model="air",
        density_quantiles=True,
    )
    assert task.result["model"] == trained.resolve("air@champion").ref


def test_score_and_evaluate_accept_a_rule_from_a_template(
    run: Any, lake: str, trained: pc.ModelStore, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {
        "source": lake,
        "store": trained.uri,
        "model": "air@champion",
        "partition": FEBRUARY,
        "params": {"least": 0.5},
    }
    rule = RULE | {"min_probability": "{{ params.least }}"}
    model = trained.load("air@champion")
    sink = str(tmp_path / "scored")
    scored = run(ProbClassScoreOperator, sink=sink, options={"decision": rule}, **fields)
    assert scored.state == "success"
    table = ds.dataset(tmp_path / "scored", partitioning="hive").to_table()
    expected = pc.score(
        model, lake, tmp_path / "same", partition=FEBRUARY, options={"decision": RULE}
    )
    assert scored.result["commit_id"] == expected.commit_id
    assert set(table["rejected"].to_pylist()) == {"density", "probability", None}
    evaluated = run(
        ProbClassEvaluateOperator, outlets=[Asset("air.quality")], decision=rule, **fields
    )
    evaluation = pc.evaluate(model, lake, partition=FEBRUARY, decision=RULE).to_dict()
    errors = {name for name in evaluation if name.endswith("_error")}
    left_out = {"confusion", "per_class", "reliability", *errors}
    numbers = {name: value for name, value in evaluation.items() if name not in left_out}
    assert evaluated.result == evaluated.result | numbers
    assert left_out.isdisjoint(evaluated.result)
    assert evaluated.events == {"air.quality": evaluated.result}

    sink = str(tmp_path / "by_name")
    by_name = run(ProbClassScoreOperator, sink=sink, options={"decision": "{{ 'ml' }}"}, **fields)
    expected = pc.score(
        model, lake, tmp_path / "same", partition=FEBRUARY, options={"decision": "ml"}
    )
    assert by_name.result["commit_id"] == expected.commit_id


def test_calibration_saves_promotes_and_reports(
    run: Any, lake: str, trained: pc.ModelStore
) -> None:
    task = run(
        ProbClassCalibrateOperator,
        source=lake,
        store=trained.uri,
        model="air@champion",
        alias="calibrated",
        partition={"month": "{{ '2013-02' }}"},
        outlets=[Asset("air.model")],
    )
    before = trained.resolve("air@champion")
    expected = pc.calibrate(trained.load(before.ref), lake, partition=FEBRUARY)
    assert task.state == "success"
    assert task.result == {
        "model": f"air@{expected.id}",
        "alias": "calibrated",
        "of": before.ref,
        **{
            name: expected.training["calibration"][name]
            for name in ("applied", "rows", "uncalibrated_log_loss", "calibrated_log_loss")
        },
    }
    assert task.events == {"air.model": task.result}
    saved = trained.resolve("air@calibrated")
    assert saved.id == expected.id
    assert saved.provenance["airflow"]["task_id"] == "task"
    assert trained.resolve("air@champion") == before


def test_progress_is_logged_at_intervals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([10.0, 11.0, 21.0, 22.0])
    monkeypatch.setattr("probclass_airflow.base.time.monotonic", lambda: next(clock))
    operator = ProbClassTrainOperator(task_id="task", source="", spec={}, store="", model="")
    for rows in (1_000, 2_000, 3_000, 4_000):
        operator.on_progress(rows, 4_000)
    shown = re.findall(r"[\d,]+ of 4,000 rows \(\d+ %\)", capsys.readouterr().out)
    assert shown == ["1,000 of 4,000 rows (25 %)", "3,000 of 4,000 rows (75 %)"]


def test_airflow_options_are_the_defaults_of_operators(
    run: Any, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: list[tuple[int | None, float]] = []

    class Recorded(ProbClassTrainOperator):
        def call(self, run: dict[str, str]) -> dict[str, Any]:
            settings.append((self.workers, self._seconds_between_log_lines))
            return {}

    fields = {"source": lake, "spec": {}, "store": str(tmp_path), "model": "air"}
    Recorded(task_id="task", **fields).execute({"run_id": "by hand"})
    monkeypatch.setenv("AIRFLOW__PROBCLASS__WORKERS", "2")
    monkeypatch.setenv("AIRFLOW__PROBCLASS__PROGRESS_SECONDS", "0.5")
    Recorded(task_id="task", **fields).execute({"run_id": "by hand"})
    Recorded(task_id="task", workers=3, **fields).execute({"run_id": "by hand"})
    assert settings == [(None, 10.0), (2, 0.5), (3, 0.5)]


def test_a_model_without_a_label_is_trained_evaluated_and_scores(
    run_dag: Any, lake: str, store: str, tmp_path: Path
) -> None:
    with DAG("without_a_label", schedule=None) as dag:
        of_table = {"source": lake, "store": store}
        train = ProbClassTrainOperator(
            task_id="train",
            partition=JANUARY,
            model="usual",
            no_label=True,
            exclude=["air"],
            alias="champion",
            **of_table,
        )
        of_table |= {"model": "usual@champion", "partition": FEBRUARY}
        evaluate = ProbClassEvaluateOperator(task_id="evaluate", **of_table)
        score = ProbClassScoreOperator(task_id="score", sink=str(tmp_path / "scored"), **of_table)
        train >> [evaluate, score]
    tasks = run_dag(dag)
    assert {task.state for task in tasks.values()} == {"success"}
    model = pc.ModelStore(store).load("usual@champion")
    spec = pc.ModelSpec.auto(lake, None, exclude="air", partition=JANUARY)
    assert model.id == pc.fit(lake, spec, partition=JANUARY).id
    expected = pc.evaluate(model, lake, partition=FEBRUARY).log_density
    assert tasks["evaluate"].result["log_density"] == pytest.approx(expected, abs=1e-12)
    scored = ds.dataset(tmp_path / "scored", partitioning="hive").to_table()
    assert {"log_density", "model_id"} <= {*scored.column_names}
    assert "prediction" not in scored.column_names
