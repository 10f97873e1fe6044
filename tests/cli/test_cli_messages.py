"""What commands say on stderr: warnings, steps with times, and errors."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import probclass_core as pc

ROWS = {"x": [1.0, 2.0, 3.0, 4.0], "z": [1.0, 2.0, 3.0, 5.0], "air": ["a", "a", "b", "b"]}
FIT = "--spec spec.json --name air"


@pytest.fixture
def with_spec(probclass: Any) -> Any:
    """A command line in a folder with a spec."""
    probclass.spec("air", gaussian_diagonal=["x"])
    return probclass


def test_verbose_logs_steps_with_times_and_quiet_leaves_out_warnings(with_spec: Any) -> None:
    scarce = with_spec.table("scarce.parquet", {**ROWS, "x": [1.0, 2.0, 3.0, None]})
    noisy = with_spec(f"fit {scarce} {FIT}")
    notes = pc.fit(scarce, pc.ModelSpec.from_file("spec.json")).training["notes"]
    assert " ".join(noisy.err.split()) == " ".join(f"warning: {note}" for note in notes)
    assert with_spec(f"fit {scarce} {FIT} --quiet").err == ""
    lines = with_spec(f"fit {scarce} {FIT} -v").err.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (INFO|WARNING) ", line) for line in lines)
    shown = "\n".join(lines)
    assert "INFO training: 4 rows in" in shown
    assert "WARNING" in shown
    assert "Traceback" not in with_spec(f"fit nowhere {FIT} -v").err
    failed = with_spec(f"fit nowhere {FIT} -vv").err
    assert "Traceback" in failed
    assert failed.splitlines()[-1] == "error: nowhere does not exist."


def test_an_error_is_json_if_the_result_would_be(with_spec: Any) -> None:
    failed = with_spec("evaluate air@nothing nowhere --json")
    assert (failed.code, failed.out, failed.err.count("\n")) == (2, "", 1)
    assert json.loads(failed.err)["type"] == "StoreError"
    assert "error" in json.loads(with_spec("evaluate air nowhere --jsn --json").err)
    scarce = with_spec.table("scarce.parquet", {**ROWS, "x": [1.0, 2.0, 3.0, None]})
    lines = with_spec(f"fit {scarce} {FIT} --json").err.splitlines()
    assert all("warning" in json.loads(line) for line in lines)
    assert lines
