"""The demo: its arguments, its folder, the fault that it plants, and its summary."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import probclass_core as pc
from probclass_airflow.demo.__main__ import DAG, LOST, lost_column, main
from probclass_airflow.demo.summary import done_by, months_table
from probclass_core.demo.lake import lay_out
from probclass_core.errors import DataError
from probclass_core.store.results import ModelRecords


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> ModelRecords:
    """Records of three runs, the second of which finds its month without a column."""
    home = tmp_path_factory.mktemp("demo")
    lake, store = lay_out(home / "lake"), pc.ModelStore(home / "models")
    spec = pc.ModelSpec("air", {"gaussian_full": [LOST, "temperature", "pressure"]})
    version = store.save(pc.fit(lake, spec, where="month < 2014-01"), "air")
    model = store.load(version.ref)

    def run(month: str, **fields: Any) -> None:
        provenance = {"airflow": {"dag_id": DAG, "run_id": month, "task_id": "air.score"}}
        if month == "2014-01":
            store.promote("air", version, "champion", provenance=provenance)
        partition = pc.Partitions([{"month": month}], catch_up=7)
        report = None
        try:
            report = pc.score(
                model,
                lake,
                home / "scored",
                options=pc.ScoringOptions(columns=["time"]),
                partition=partition,
            )
        except DataError as error:
            report = error.report
        store.record_scoring(version, report, provenance=provenance)

    run("2014-01")
    with lost_column(lake, 2):
        run("2014-02")
    run("2014-03")
    for month in ("2014-01", "2014-02"):
        evaluation = pc.evaluate(model, lake, partition={"month": month})
        evaluation = dataclasses.replace(evaluation, baseline_log_loss=0.0625)
        run_of = {"airflow": {"run_id": "2014-03"}}
        on = {"partition": {"month": month}}
        store.record_evaluation(version, evaluation, on=on, provenance=run_of)
    return store.records("air")


def test_a_month_without_a_column_is_held_back_and_scored_by_the_next_run(
    records: ModelRecords,
) -> None:
    promoted, scored = done_by(records, "2014-01")
    assert promoted.startswith("promoted air@")
    assert scored == "scored 2014-01"
    (held_back,) = done_by(records, "2014-02")
    assert f"month=2014-02: no file has column '{LOST}' of the model" in held_back
    assert done_by(records, "2014-03") == [
        "scored 2014-02 and 2014-03",
        "2014-01 was served worse than by its prior",
        "2014-02 was served worse than by its prior",
    ]


def test_the_table_has_the_evaluations_of_months_with_labels(records: ModelRecords) -> None:
    results = [one.result for one in records.evaluations]
    lines = months_table(records).splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line for line in lines}
    assert [int(rows[f"2014-{month:02}"].split()[1]) for month in (1, 2, 3)] == [744, 672, 744]
    for month, result in zip(("2014-01", "2014-02"), results, strict=True):
        assert f"{result['log_loss']:.4f}" in rows[month]
        assert f"{result['baseline_log_loss']:.4f}" in rows[month]
    assert "held back, scored by run 2014-03" in rows["2014-02"]
    assert rows["2014-03"].split()[3:5] == ["–", "–"]  # no labels yet
    mean = sum(result["log_loss"] for result in results) / 2
    assert f"{mean:.4f}" in rows["mean"]


def test_a_folder_with_other_files_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.setattr("sys.argv", ["demo", "--output", str(tmp_path)])
    assert main() == 1
    assert "has files that are not of the demo" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["models"]
