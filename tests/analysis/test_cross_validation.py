"""Cross-validation by statistics is cross-validation by fits, on the same folds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from refusals import refused
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.naive_bayes import GaussianNB

import probclass_core as pc
from probclass_core.errors import DataError, SpecError
from probclass_core.pipeline.cross_validation import _RowDealer

BODY = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
COUNTS = pc.Block("categorical", "island", "island")
GIVEN = [COUNTS, pc.Block("categorical", "sex", given=["island"], strength="loo")]
SPECS = {
    "naive": pc.ModelSpec("species", {"gaussian_diagonal": BODY, "categorical": ["island", "sex"]}),
    "weights": pc.ModelSpec(
        "species", {"discretized": BODY, "gaussian_shared": BODY[:2]}, block_weights="fit"
    ),
    "two passes": pc.ModelSpec("species", GIVEN),
    "neighbors": pc.ModelSpec("species", [pc.Block("knn_density", BODY[:2], k=5)]),
}
METRICS = ("rows", "accuracy", "log_loss", "brier", "ece", "baseline_log_loss")


def dealt(rows: pa.Table, spec: pc.ModelSpec, folds: int, seed: int = 0) -> np.ndarray:
    (batch,) = rows.combine_chunks().to_batches()
    return _RowDealer(folds, spec.label, spec.features, seed).deal(batch)


@pytest.fixture(scope="module")
def known(penguins: pa.Table) -> pa.Table:
    return penguins.drop_null()


@pytest.mark.parametrize("name", SPECS)
def test_folds_are_evaluated_by_models_of_the_other_rows(name: str, known: pa.Table) -> None:
    spec = SPECS[name]
    result = pc.cross_validate(known, spec, folds=4)
    folds = dealt(known, spec, 4)
    for fold, evaluation in enumerate(result.evaluations):
        model = pc.fit(known.filter(pa.array(folds != fold)), spec)
        expected = pc.evaluate(model, known.filter(pa.array(folds == fold)))
        for metric in METRICS:
            value = getattr(evaluation, metric)
            assert value == pytest.approx(getattr(expected, metric), rel=1e-5, abs=1e-9), metric
    assert sum(evaluation.rows for evaluation in result.evaluations) == known.num_rows


def test_a_group_is_in_one_fold(tmp_path: Path) -> None:
    """Rows of a day are alike: random folds hide that another day is hard to predict."""
    random = np.random.default_rng(0)
    day = np.repeat(np.arange(60), random.integers(5, 25, 60))
    label = np.where(random.random(60) < 0.5, "a", "b")[day]
    rows = pa.table({"day": day, "x": random.normal(size=60)[day], "label": label})
    spec = pc.ModelSpec("label", [pc.Block("knn_density", "x", k=3)])
    pq.write_to_dataset(rows, tmp_path, partition_cols=["day"])
    for source in (rows, tmp_path):
        by_day = pc.cross_validate(source, spec, folds=4, groups="day")
        assert by_day.table["log_loss"].to_numpy().mean() > 0.6
        assert pc.cross_validate(source, spec, folds=4).table["log_loss"].to_numpy().mean() < 0.1
        sizes = by_day.table["rows"].to_numpy()
        assert sizes.sum() == len(rows)
        assert np.ptp(sizes) < 25


def test_groups_may_be_null(known: pa.Table) -> None:
    spec = pc.ModelSpec("species", {"gaussian_diagonal": BODY[:1]})
    some = pa.array([None if i % 3 else i % 2 for i in range(len(known))])
    result = pc.cross_validate(known.append_column("g", some), spec, folds=3, groups="g")
    assert sorted(result.table["rows"].to_pylist()) == sorted(
        count["counts"] for count in some.value_counts().to_pylist()
    )


def test_accuracy_is_that_of_scikit_learn_on_the_same_folds(known: pa.Table) -> None:
    spec = pc.ModelSpec("species", {"gaussian_diagonal": BODY})
    matrix = np.column_stack([known[name].to_numpy() for name in BODY])
    folds = PredefinedSplit(dealt(known, spec, 5, seed=3))
    labels = known["species"].to_pylist()
    peer = cross_val_score(GaussianNB(var_smoothing=0.0), matrix, labels, cv=folds)
    result = pc.cross_validate(known, spec, seed=3)
    np.testing.assert_allclose(result.table["accuracy"].to_numpy(), peer)
    (row,) = (row for row in result.summary.to_pylist() if row["metric"] == "accuracy")
    assert row["mean"] == pytest.approx(peer.mean())
    assert row["standard_error"] == pytest.approx(peer.std(ddof=1) / np.sqrt(5))
    assert row["prior"] == pytest.approx(np.mean(result.table["baseline_accuracy"].to_pylist()))


def test_folds_have_the_same_shares_of_classes_and_spread_equal_rows() -> None:
    rows = pa.table({"y": ["a"] * 70 + ["b"] * 29 + [None], "x": [1.0] * 50 + [2.0] * 50})
    spec = pc.ModelSpec("y", {"gaussian_diagonal": "x"})
    folds = dealt(rows, spec, 7)
    for label in ("a", "b"):
        counts = np.bincount(folds[np.array(rows["y"].to_pylist()) == label], minlength=7)
        assert np.ptp(counts) <= 1
    assert np.ptp(np.bincount(folds[:50], minlength=7)) <= 1, "equal rows"
    assert np.ptp(np.bincount(folds, minlength=7)) <= 1


def test_folds_depend_on_the_seed_and_not_on_the_order_of_rows(known: pa.Table) -> None:
    spec = SPECS["naive"]
    shuffled = known.take(np.random.default_rng(1).permutation(known.num_rows))
    first, again, other = (
        pc.cross_validate(rows, spec, seed=seed).table
        for rows, seed in ((known, 0), (shuffled, 0), (known, 1))
    )
    for name in first.column_names:
        np.testing.assert_allclose(first[name].to_numpy(), again[name].to_numpy(), rtol=1e-9)
    assert first["log_loss"].to_pylist() != other["log_loss"].to_pylist()


def test_rows_of_a_lake_are_read_twice_on_any_engine(known: pa.Table, tmp_path: Path) -> None:
    pq.write_to_dataset(known, tmp_path / "lake", partition_cols=["island"])
    reported: list[tuple[int, int | None]] = []
    spec, where = SPECS["weights"], "island in Dream, Biscoe"
    options: dict[str, Any] = {"folds": 10, "where": where}
    result = pc.cross_validate(
        tmp_path / "lake", spec, progress=lambda *done: reported.append(done), **options
    )
    kept = pac.sum(pac.not_equal(known["island"], "Torgersen")).as_py()
    assert reported[-1] == (2 * kept, 2 * kept)
    with ThreadPoolExecutor(2) as pool:
        again = pc.cross_validate(tmp_path / "lake", spec, engine=pool, **options)
    assert again.to_dict() == result.to_dict()


def test_a_label_instead_of_a_spec_and_the_prior_next_to_the_model(known: pa.Table) -> None:
    result = pc.cross_validate(known, label="species", folds=3, progress=True)
    assert result.spec == pc.ModelSpec.auto(known, "species")
    by_metric = {row["metric"]: row for row in result.summary.to_pylist()}
    assert by_metric["log_loss"]["mean"] < 0.2 < by_metric["log_loss"]["prior"]
    assert list(by_metric) == ["accuracy", "log_loss", "brier", "ece"]
    assert "prior alone" in str(result)


def test_costs_are_a_metric_and_undefined_metrics_are_left_out(known: pa.Table) -> None:
    classes = sorted(set(known["species"].to_pylist()))
    costs = {true: {given: float(true != given) for given in classes} for true in classes}
    rule = pc.DecisionRule(costs=costs)
    summary = pc.cross_validate(known, SPECS["naive"], decision=rule).summary.to_pylist()
    assert summary[-1]["metric"] == "cost"
    assert summary[-1]["mean"] == pytest.approx(1.0 - summary[0]["mean"])


ROWS = pa.table({"y": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
SPEC = pc.ModelSpec("y", {"gaussian_diagonal": "x"})
STRICT = pc.ModelSpec("y", {"gaussian_diagonal": "x"}, on_scarce="error")


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (ROWS, {"folds": 1}, SpecError, "folds must be a number from 2 to 1,000, got 1"),
        (ROWS, {"folds": 4}, DataError, "4 folds need as many labeled rows, and there are 3"),
        (ROWS, {"groups": "x"}, DataError, "5 folds need as many groups, and column 'x' has 3"),
        (ROWS, {"groups": "y"}, SpecError, "groups is the label 'y'"),
        (ROWS, {"spec": None}, SpecError, "got neither a spec nor a label"),
        (ROWS.to_reader(), {}, DataError, "a reader can be read only once; pass a table"),
        (ROWS, {"folds": 2, "spec": STRICT}, DataError, "fold [01]: "),
    ],
)
def test_what_cannot_be_cross_validated_is_refused(
    source: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with refused(error, message):
        pc.cross_validate(source, **{"spec": SPEC, **options})
