"""The years benchmark: Airflow serves what the library serves, and warnings are counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.years import __main__ as years
from benchmarks.years.results import Month, month_range, summarize, table

GOOD = Month(
    month="2014-01",
    version="12345678",
    is_prior=False,
    rows=700,
    accuracy=0.6,
    majority=0.4,
    log_loss=0.9,
    prior=1.1,
    window_prior=1.1,
    warned=(),
    flagged=False,
    event="promoted",
)


def test_warnings_that_were_due_and_given_are_counted() -> None:
    caught = replace(GOOD, month="2014-02", log_loss=1.2, flagged=True, warned=("drift",))
    missed = replace(GOOD, month="2014-03", log_loss=1.3)
    alarm = replace(GOOD, month="2014-04", flagged=True, warned=("drift",))
    last = replace(GOOD, month="2014-05", log_loss=1.2, flagged=None)
    summary = summarize([GOOD, caught, missed, alarm, last])
    assert summary["due"] == ["2014-02", "2014-03", "2014-05"]
    assert summary["missed_with_labels"] == ["2014-03"]
    assert summary["false_with_labels"] == ["2014-04"]
    assert summary["missed_without_labels"] == ["2014-03", "2014-05"]
    assert summary["false_without_labels"] == ["2014-04"]
    assert summary["worst_quarter"] == "2014-Q1"
    assert summary["worst_quarter_excess"] == pytest.approx((-0.2 + 0.1 + 0.2) / 3)
    assert "| warned when scored, without labels | 1 of 3 |" in table({"models": {"air": summary}})
    assert month_range("2013-12", 2) == ["2013-12", "2014-01"]


@pytest.mark.nightly
@pytest.mark.services
def test_two_months_in_airflow_serve_what_the_library_serves(tmp_path: Path) -> None:
    served = {}
    for name, more in (("airflow", []), ("library", ["--library"])):
        out = tmp_path / name
        options = ["--first", "2012-07", "--months", "2", "--out", str(out), *more]
        assert years.main(options) == 0
        served[name] = json.loads((out / "years.json").read_text())
        assert (out / "years.png").stat().st_size > 10_000
    assert served["airflow"] == served["library"]
    assert [each["flagged"] for each in served["airflow"]["unguarded"]] == [True, None]
    assert "none" not in {each["event"] for months in served["airflow"].values() for each in months}
