"""Checks on the command line: warnings, a watch file, and checks that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import write_rows

import probclass_core as pc


@pytest.fixture
def model(probclass: Any) -> Path:
    """A model of January in the store, ``m``; February lacks the values of a column."""
    rows = {"x": [float(i % 10) for i in range(200)], "y": ["a", "b"] * 100}
    null = pa.nulls(200, pa.float64())
    lake = probclass.folder / "lake"
    for month, x in (("2014-01", rows["x"]), ("2014-02", null)):
        write_rows(lake / f"month={month}", pa.table({**rows, "x": x}))
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])
    fitted = pc.fit(lake, spec, partition={"month": "2014-01"})
    pc.ModelStore(probclass.folder / "models").save(fitted, "m")
    return lake


def test_a_fault_is_a_warning_and_fails_on_demand(probclass: Any, model: Path) -> None:
    february = "--partition month=2014-02"
    line = probclass.error(f"score m lake scored {february} --fail-on nulls,missing")
    assert "month=2014-02: Column 'x' is null in 100 % of 200 rows (0 % in training)" in line
    assert "Nothing of it was written" in line
    result = probclass(f"score m lake scored {february} --json")
    assert result.code == 0
    assert "month=2014-02: Column 'x' is null in 100 %" in result.err
    (probclass.folder / "watch.toml").write_text('ignore = ["nulls"]\n')
    probclass.ok(f"score m lake again {february} --watch watch.toml")
    probclass.ok(f"score m lake off {february} --watch off")
    (probclass.folder / "probclass.toml").write_text('[score]\nwatch = "watch.toml"\n')
    probclass.ok(f"score m lake project {february}")
    (probclass.folder / "probclass.toml").write_text('[watch]\nfail = ["nulls"]\n')
    assert "'x' is null in 100 %" in probclass.error(f"score m lake table {february}")
    probclass.ok(f"score m lake table {february} --watch watch.toml")
    (probclass.folder / "probclass.toml").write_text("[watch]\nnuls = 0.1\n")
    assert "probclass.toml: [watch]: a watch has no 'nuls'" in probclass.error("models")


def test_an_evaluation_fails_below_its_floor(probclass: Any, model: Path) -> None:
    (probclass.folder / "watch.json").write_text('{"min_accuracy": 0.9}')
    evaluate = "evaluate m lake --partition month=2014-01 --watch watch.json"
    result = probclass.ok(f"{evaluate} --json").json
    assert [verdict["check"] for verdict in result["verdicts"]] == ["min_accuracy"]
    failed = probclass(f"{evaluate} --fail-on min_accuracy")
    assert failed.code == 2
    assert "The accuracy on 200 labeled rows is" in failed.err
    assert "confusion" in failed.out.lower() or "By class" in failed.out


def test_posteriors_may_be_under_other_shares(probclass: Any, model: Path) -> None:
    january = "score m lake scored --partition month=2014-01"
    probclass.ok(f"{january} --prior a=0.25 --prior b=0.75")
    (commit,) = pc.commits(probclass.folder / "scored")
    assert commit["prior"] == {"a": 0.25, "b": 0.75}
    assert commit["health"]["classes"]["a"]["prior"] == 0.25
    for text, message in (
        ("a", "write NAME=NUMBER"),
        ("a=0.5,a=0.5", "'a' is given twice"),
        ("a=0.5,b=0.4,c=0.1", "names class 'c'"),
        ("a=0.5,b=0.7", "sum to 1"),
    ):
        assert message in probclass.error(f"score m {model} bad --prior {text}")
