"""Evaluation on rows of a class that training never saw: they are left out, counted, and said."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute
import pytest

import probclass_core as pc
from probclass_core.errors import DataError
from probclass_core.operation.promotion import evaluate_paired

ROWS = pa.table(
    {
        "y": [name for name in "abc" for _ in range(40)],
        "x": [offset + (row * 7 % 11) / 4 for offset in (0.0, 1.0, 2.0) for row in range(40)],
        "fold": [0, 1] * 60,
    }
)
KNOWN = ROWS.filter(compute.not_equal(ROWS["y"], "c"))
SPEC = pc.ModelSpec("y", {"gaussian_diagonal": "x"})
METRICS = ("accuracy", "log_loss", "brier", "ece", "cost")


@pytest.fixture(scope="module")
def model() -> pc.Model:
    return pc.fit(KNOWN, SPEC)


def test_every_metric_and_baseline_is_that_of_the_rows_of_known_classes(model: pc.Model) -> None:
    rule = pc.DecisionRule(costs={"a": {"b": 3.0}}, min_probability=0.55)
    every, known = (pc.evaluate(model, rows, decision=rule) for rows in (ROWS, KNOWN))
    for metric in METRICS:
        for name in (metric, f"baseline_{metric}"):
            assert getattr(every, name) == pytest.approx(getattr(known, name), rel=1e-12)
    assert (every.rows, every.unseen_labels) == (80, 40)
    assert (known.rows, known.unseen_labels) == (80, 0)
    assert (every.decided, every.rejected) == (known.decided, known.rejected)
    assert math.isfinite(every.log_loss)


def test_a_paired_evaluation_of_models_of_the_same_classes_leaves_them_out(
    model: pc.Model,
) -> None:
    rival = pc.fit(KNOWN, pc.ModelSpec("y", {"discretized": "x"}))
    every, known = (evaluate_paired(model, rival, rows) for rows in (ROWS, KNOWN))
    for metric, gain in known.gains.items():
        assert every.gains[metric].value == pytest.approx(gain.value, abs=1e-12)
        if gain.standard_error is not None:
            assert every.gains[metric].standard_error == pytest.approx(gain.standard_error)


def test_a_class_that_only_the_challenger_knows_is_wrong_for_the_champion(
    model: pc.Model,
) -> None:
    challenger = pc.fit(ROWS, SPEC)
    gain = evaluate_paired(challenger, model, ROWS).gains["accuracy"]
    ours, theirs = (
        compute.mean(compute.equal(each.predict(ROWS), ROWS["y"])).as_py()
        for each in (challenger, model)
    )
    assert gain.value == pytest.approx(ours - theirs)


def test_cross_validation_counts_rows_of_a_class_that_no_other_fold_has() -> None:
    folds = [2 if name == "c" else number % 2 for number, name in enumerate(ROWS["y"].to_pylist())]
    more = pa.table({"y": ["a", "b"] * 5, "x": [0.0, 1.0] * 5, "fold": [2] * 10})
    rows = pa.concat_tables([ROWS.set_column(2, "fold", pa.array(folds)), more])
    result = pc.cross_validate(rows, SPEC, folds=3, groups="fold")
    assert sorted(result.table["unseen_labels"].to_pylist()) == [0, 0, 40]
    assert sum(result.table["rows"].to_pylist()) == 90
    assert "3 folds of 90 labeled rows" in str(result)
    assert "left out: 40 of a class that no other fold has" in " ".join(str(result).split())
    assert all(math.isfinite(loss) for loss in result.table["log_loss"].to_pylist())


def test_checks_with_labels_judge_the_rows_of_known_classes(model: pc.Model) -> None:
    watch = pc.Watch(min_accuracy=1.0)
    every, known = (watch.judge(pc.evaluate(model, rows), None) for rows in (ROWS, KNOWN))
    assert [one.to_dict() for one in every] == [one.to_dict() for one in known]
    assert "on 80 labeled rows" in str(every[0])


def test_rows_of_unseen_classes_only_are_an_error_that_counts_them(model: pc.Model) -> None:
    rows: Any = ROWS.filter(compute.equal(ROWS["y"], "c"))
    with pytest.raises(DataError, match="40 have one that the model never saw"):
        pc.evaluate(model, rows)


def test_no_rows_are_an_error_that_says_so(model: pc.Model) -> None:
    with pytest.raises(DataError, match="there are no rows, or none that meets where"):
        pc.evaluate(model, ROWS.slice(0, 0))
