"""The campaigns of hostile input continue after a trial that kills its process, and name it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import campaign
import pytest
from campaign import Result, Tally, markdown, run_batch, run_campaign


def trial(seed: int) -> Result:
    if seed == 3:
        os.abort()
    if seed == 5:
        time.sleep(60.0)
    return Result("bytes", f"field {seed % 2}", "refused")


def test_a_crash_and_a_hang_are_defects_of_their_seeds() -> None:
    tally = run_batch(trial, range(8), longest=3.0)
    assert [defect[0] for defect in tally.defects] == [3, 5]
    assert "status -6" in tally.defects[0][-1]
    assert "still running after 3 s" in tally.defects[1][-1]
    assert (tally.trials, tally.outcomes["bytes|refused"]) == (8, 6)


def test_a_trial_that_needs_too_much_memory_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "MOST_MEMORY", 0)
    tally = run_batch(trial, range(2))
    assert [defect[0] for defect in tally.defects] == [0, 1]
    assert tally.outcomes == {"bytes|memory": 2}


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    run_campaign(lambda seed: Result("a", "f", "refused"), range(2_000), report)
    total = run_campaign(lambda seed: Result("b", "f", "refused"), range(3_000), report)
    assert total.outcomes == {"a|refused": 2_000, "b|refused": 1_000}
    assert [Tally.parse(line).trials for line in report.read_text().splitlines()] == [2_000, 1_000]
    assert "| b | 1,000 | 1,000 |" in markdown(total)
    assert "| all | 3,000 | 3,000 |" in markdown(total)
