"""Several specs cross-validated on the same folds, with paired differences and their errors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.pipeline.cross_validation import CrossValidations

BODY = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
SPECS = {
    "one": pc.ModelSpec("species", {"gaussian_diagonal": BODY[:1]}),
    "body": pc.ModelSpec("species", {"gaussian_diagonal": BODY, "categorical": ["island", "sex"]}),
    "categories": pc.ModelSpec("species", {"categorical": ["island", "sex"]}),
}


@pytest.fixture(scope="module")
def known(penguins: pa.Table) -> pa.Table:
    return penguins.drop_null()


@pytest.fixture(scope="module")
def result(known: pa.Table) -> Any:
    return pc.cross_validate(known, SPECS, folds=4)


def test_all_models_are_evaluated_on_the_same_folds(result: CrossValidations) -> None:
    rows = [validation.table["rows"].to_pylist() for validation in result.validations.values()]
    assert rows == [rows[0]] * 3


def test_differences_are_paired_by_fold_and_the_smallest_log_loss_comes_first(
    result: CrossValidations,
) -> None:
    folds = {
        name: {metric: one.table[metric].to_numpy() for metric in ("log_loss", "accuracy")}
        for name, one in result.validations.items()
    }
    rows = result.table.to_pylist()
    assert [row["model"] for row in rows] == ["body", "one", "categories"]
    assert result.best == "body"
    for row in rows:
        for metric in ("log_loss", "accuracy"):
            own, best = folds[row["model"]][metric], folds["body"][metric]
            assert row[metric] == pytest.approx(own.mean())
            assert row[f"{metric}_error"] == pytest.approx(own.std(ddof=1) / math.sqrt(4))
            difference, error = row[f"{metric}_difference"], row[f"{metric}_difference_error"]
            if row["model"] == "body":
                assert (difference, error) == (None, None)
            else:
                assert difference == pytest.approx((own - best).mean())
                assert error == pytest.approx((own - best).std(ddof=1) / math.sqrt(4))


def test_each_model_has_the_folds_and_metrics_of_its_own_cross_validation(
    known: pa.Table,
) -> None:
    pair = {"diagonal": SPECS["one"], "bins": pc.ModelSpec("species", {"discretized": BODY[:1]})}
    for groups in (None, "island"):
        together = pc.cross_validate(known, pair, folds=3, groups=groups)
        for name, spec in pair.items():
            alone = pc.cross_validate(known, spec, folds=3, groups=groups)
            assert together.validations[name].to_dict() == alone.to_dict()


def test_an_impossible_row_makes_the_difference_infinite_and_its_error_unknown() -> None:
    rows = pa.table({"y": ["a", "b"] * 20, "u": ["p", "q"] * 19 + ["q", "p"], "x": [0.0, 1.0] * 20})
    sure = pc.ModelSpec("y", [pc.Block("categorical", ["u"], pseudo_count=0)])
    result = pc.cross_validate(rows, {"sure": sure, "x": SPECS_OF_X})
    first, second = result.table.to_pylist()
    assert (first["model"], second["model"]) == ("x", "sure")
    assert second["log_loss_difference"] == math.inf
    assert second["log_loss_difference_error"] is None
    assert json.loads(json.dumps(result.to_dict()))["models"][1]["log_loss"] is None


SPECS_OF_X = pc.ModelSpec("y", {"discretized": "x"})


def test_evidence_of_different_columns_is_refused_before_any_row_and_points_here(
    tmp_path: Path,
) -> None:
    for source in (tmp_path / "no table", pa.table({"species": ["a"]})):
        with pytest.raises(SpecError, match=r"by cross_validate\(source, \{name: spec, …\}\)"):
            pc.compare(source, SPECS)
