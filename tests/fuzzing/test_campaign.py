"""Trials of hostile input go on after one that kills its process, and it is named."""

from __future__ import annotations

import os
import time

import campaign
import pytest
from campaign import Result, run


def trial(seed: int) -> Result:
    if seed == 3:
        os.abort()
    if seed == 5:
        time.sleep(60.0)
    return Result("bytes", f"field {seed % 2}", "refused")


def test_a_crash_and_a_hang_are_defects_of_their_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "BATCH", 2)
    tally = run(trial, range(8), longest=3.0)
    assert sorted(defect[0] for defect in tally.defects) == [3, 5]
    reasons = {seed: reason for seed, *_, reason in tally.defects}
    assert "status -6" in reasons[3]
    assert "still running after 3 s" in reasons[5]
    assert (tally.trials, tally.outcomes["bytes: refused"]) == (8, 6)


def test_a_trial_that_needs_too_much_memory_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "MOST_MEMORY", 0)
    tally = run(trial, range(2))
    assert [defect[0] for defect in tally.defects] == [0, 1]
    assert tally.outcomes == {"bytes: memory": 2}
