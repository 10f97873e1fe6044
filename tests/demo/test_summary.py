"""The summary of the demo: evaluations joined with scores, on a terminal of any width."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from probclass_airflow.demo.__main__ import ROOT, main
from probclass_airflow.demo.summary import Result, months_table, ranking_table, results


def events(month: str, model: str, log_loss: float | None) -> list[dict[str, Any]]:
    common = {"model": f"{model}@{'ab' * 32}", "partition": {"month": month}}
    metrics = {
        "rows": 737,
        "accuracy": 0.5983,
        "log_loss": log_loss,
        "baseline_accuracy": 0.3256,
        "baseline_log_loss": 1.105,
    }
    return [
        {"source_task_id": f"{model}.score", "extra": common | {"rows": 744}},
        {"source_task_id": f"{model}.evaluate", "extra": common | metrics},
    ]


@pytest.fixture
def joined() -> list[Result]:
    asset_events = [
        event
        for month in ("2014-02", "2014-01")
        for model, loss in (("air_naive", None), ("air_full", 0.991))
        for event in events(month, model, loss)
    ]
    return results(asset_events)


def test_the_demo_finds_the_dags_of_the_checkout() -> None:
    assert (ROOT / "dags" / "air_quality_train.py").is_file()


def test_results_are_joined_and_sorted(joined: list[Result]) -> None:
    assert [(result.month, result.model) for result in joined] == [
        ("2014-01", "air_full"),
        ("2014-01", "air_naive"),
        ("2014-02", "air_full"),
        ("2014-02", "air_naive"),
    ]
    assert (joined[0].rows, joined[0].labeled, joined[0].log_loss) == (744, 737, 0.991)
    assert joined[1].log_loss == math.inf


def test_the_table_fits_eighty_columns(joined: list[Result]) -> None:
    terminal = io.StringIO()
    Console(file=terminal, width=80).print(months_table(joined), ranking_table(joined))
    text = terminal.getvalue()
    assert "…" not in text
    for text_of_cell in ("2014-01", "air_naive", "744", "737", "59.8%", "32.6%", "0.991", "1.105"):
        assert text_of_cell in text
    ranking = text[text.index("best first") :]
    assert ranking.index("air_full") < ranking.index("majority") < ranking.index("air_naive")


@pytest.mark.parametrize("first", ["2010-12", "2014-10"])
def test_months_without_data_are_an_error(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--first", first, "--months", "6", "--output", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["demo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "between 2011-01 and 2014-12" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
