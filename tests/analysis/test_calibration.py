"""Calibration agrees with scikit-learn and direct minimization; calibration errors by hand."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from model_values import fitted
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import probclass_core as pc
from probclass_core.demo.lake import lay_out
from probclass_core.io.open import open_table

SEPALS = ["sepal_length", "sepal_width"]
COPIES = ["x0", "x1", "x2", "x3"]
BLOCK = pc.Block("gaussian_diagonal", COPIES, variance_floor=0)


def copies(size: int = 300, classes: int = 3) -> list[pa.Table]:
    """Three tables of nearly equal columns, which naive Bayes counts as independent evidence.

    The first class is rarer in the last two tables than in the first.
    """
    rng = np.random.default_rng(0)
    tables = []
    for rarity in (1.0, 0.4, 0.4):
        share = np.array([rarity, *[1.0] * (classes - 1)])
        truth = rng.choice(classes, size, p=share / share.sum())
        x = 0.8 * truth + rng.normal(0.0, 1.0, size)
        columns = {name: x + rng.normal(0.0, 0.6, size) for name in COPIES}
        tables.append(pa.table({**columns, "kind": [f"kind {code}" for code in truth]}))
    return tables


def weighted(table: pa.Table, weights: Any) -> pa.Table:
    return table.append_column("w", pa.array(np.broadcast_to(weights, len(table)).astype(float)))


def matrix(table: pa.Table, columns: list[str]) -> np.ndarray:
    return np.column_stack([table[name].to_numpy() for name in columns])


def parameters(model: pc.Model) -> list[float]:
    """The temperature of a calibration, then its biases."""
    assert model.calibration is not None
    assert model.calibration["class"].to_pylist() == [None, *model.classes.to_pylist()]
    values: list[float] = model.calibration["value"].to_pylist()
    return values


def class_positions(model: pc.Model, labels: pa.ChunkedArray) -> np.ndarray:
    result: np.ndarray = compute.index_in(labels, value_set=model.classes).to_numpy()
    return result


def scores_of(model: pc.Model, table: pa.Table) -> np.ndarray:
    """Log posteriors relative to the best class, at least −20."""
    logs = model.predict_log_proba(table)
    return np.maximum(logs - logs.max(axis=1, keepdims=True), -20.0)


TRAIN, HELD_OUT, REST = copies()
MODEL = fitted(TRAIN, "kind", BLOCK)
WEIGHTED = fitted(weighted(TRAIN, 1.0), "kind", BLOCK, weight="w")


def test_temperature_and_biases_minimize_the_penalized_log_loss() -> None:
    scores, truth = scores_of(MODEL, HELD_OUT), class_positions(MODEL, HELD_OUT["kind"])

    def loss(values: np.ndarray) -> float:
        scaled = values[0] * scores + values[1:]
        own = scaled[np.arange(len(truth)), truth] - logsumexp(scaled, axis=1)
        away = values - np.eye(len(values))[0]
        return float(0.5 * (away**2).sum() - own.sum())

    best = minimize(loss, np.eye(4)[0], method="BFGS", options={"gtol": 1e-6}).x
    calibrated = pc.calibrate(MODEL, HELD_OUT)
    ours = parameters(calibrated)
    assert [1.0 / ours[0], *ours[1:]] == pytest.approx(best, abs=1e-5)
    assert ours[0] > 1.5
    raw = scores_of(MODEL, REST) / ours[0] + ours[1:]
    expected = raw - logsumexp(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(calibrated.predict_log_proba(REST), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_agrees_with_a_logistic_regression_on_the_scores(classes: int) -> None:
    """Rows of a large weight make the pull toward no change, which scikit-learn lacks, vanish.

    With three classes, the regression may weigh each score by itself, so that its loss is smaller.
    """
    train, held_out, _ = copies(classes=classes)
    model = fitted(weighted(train, 1.0), "kind", BLOCK, weight="w")
    calibrated = pc.calibrate(model, weighted(held_out, 1e6))
    scores, truth = scores_of(model, held_out), class_positions(model, held_out["kind"])
    peer = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000)
    peer.fit(scores[:, 1:] - scores[:, :1], truth)
    expected = peer.predict_proba(scores[:, 1:] - scores[:, :1])
    found = calibrated.predict_proba(held_out)
    if classes == 2:
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    assert 0.0 <= log_loss(truth, found) - log_loss(truth, expected) < 0.01 * (classes - 1)


def test_a_row_of_weight_2_counts_twice() -> None:
    counts = 1 + np.arange(len(HELD_OUT)) % 2
    repeated = weighted(HELD_OUT.take(pa.array(np.repeat(np.arange(len(HELD_OUT)), counts))), 1.0)
    once, twice = (pc.calibrate(WEIGHTED, each) for each in (weighted(HELD_OUT, counts), repeated))
    np.testing.assert_allclose(once.predict_proba(REST), twice.predict_proba(REST), atol=1e-6)
    alone = pc.calibrate(WEIGHTED, weighted(HELD_OUT, 1.0))
    assert np.abs(alone.predict_proba(REST) - once.predict_proba(REST)).max() > 1e-3


def test_no_calibration_of_digits_makes_them_worse() -> None:
    """Constant columns and a small variance floor give log losses of 10⁸ here."""
    pixels, digits = load_digits(return_X_y=True)
    names = [f"pixel {number}" for number in range(64)]
    table = pa.table({**dict(zip(names, pixels.T, strict=True)), "digit": digits})
    order = np.random.default_rng(0).permutation(len(digits))
    train, held_out, test = (table.take(pa.array(part)) for part in np.array_split(order, 3))
    model = fitted(train, "digit", pc.Block("gaussian_diagonal", names, variance_floor=1e-9))
    raw, calibrated = (pc.evaluate(each, test) for each in (model, pc.calibrate(model, held_out)))
    assert raw.log_loss > 1e8
    assert calibrated.log_loss < raw.baseline_log_loss / 2
    assert calibrated.ece < raw.ece / 2
    assert calibrated.brier < raw.brier
    assert (calibrated.accuracy or 0.0) > 0.8


def test_a_calibration_that_does_not_help_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """The model is the truth, so a calibration can learn only noise."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 20_000)
    table = pa.table({"x": truth + rng.normal(0.0, 1.0, len(truth)), "kind": truth})
    model = fitted(table.slice(400), "kind", pc.Block("gaussian_diagonal", ["x"]))
    calibrated = pc.calibrate(model, table.slice(0, 400))
    assert calibrated.calibration is None
    assert calibrated.id == model.id
    record = calibrated.training["calibration"]
    assert not record["applied"]
    loss = pc.evaluate(model, table.slice(0, 400)).log_loss
    assert record["uncalibrated_log_loss"] == pytest.approx(loss, rel=1e-12)
    assert "calibrated, the log loss of held-out rows would be" in caplog.text


def test_rows_that_are_all_right_do_not_make_the_posterior_certain() -> None:
    train, _, _ = copies(classes=2)
    model = fitted(train, "kind", BLOCK)
    right = train.filter(compute.equal(model.predict(train), train["kind"])).slice(0, 30)
    temperature = parameters(pc.calibrate(model, right))[0]
    assert 0.3 < temperature < 1.0


def test_a_true_class_of_probability_0_becomes_possible() -> None:
    table = pa.table({"u": ["p"] * 9 + ["q"] * 9, "y": ["a"] * 9 + ["b"] * 9})
    model = fitted(table, "y", pc.Block("categorical", ["u"], pseudo_count=0.0))
    held_out = pa.table({"u": ["p"] * 9 + ["q"] * 9, "y": ["b", *"aaaaaaaa", "a", *"bbbbbbbb"]})
    assert pc.evaluate(model, held_out).log_loss == math.inf
    calibrated = pc.calibrate(model, held_out)
    # One row in nine is of the other class: the entropy of that is 0.349.
    assert 0.34 < pc.evaluate(calibrated, held_out).log_loss < 0.40
    assert calibrated.training["calibration"]["uncalibrated_log_loss"] is None, "infinite"


def test_rows_that_no_class_explains_are_left_out() -> None:
    table = pa.table({"u": ["p", "p", "q", "q", "p"], "y": ["a", "a", "b", "b", "b"]})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    model = fitted(table, "y", block)
    explained = {"u": ["p", "p", "p", "q"] * 9, "y": ["a", "b", "b", "a"] * 9}
    all_rows = {"u": [*explained["u"], "r"], "y": [*explained["y"], "a"]}
    calibrated = pc.calibrate(model, all_rows)
    assert calibrated.calibration == pc.calibrate(model, explained).calibration
    assert calibrated.training["calibration"]["applied"]
    assert calibrated.predict_proba({"u": ["r"]})[0] == pytest.approx([0.4, 0.6])
    assert calibrated.score_samples({"u": ["r"]})[0] == -math.inf


def test_models_with_block_weights_are_calibrated_in_all_rows() -> None:
    """Their product gives the last row density 0, but the weighted blocks have a lower bound."""
    table = pa.table({"u": ["p", "q"] * 50, "y": (["a", "b"] * 3 + ["a"] * 4) * 10})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    spec = pc.ModelSpec("y", [block], block_weights={"categorical": 5.0})
    model = pc.fit(table, spec)
    calibrated = pc.calibrate(model, table)
    assert calibrated.training["calibration"]["applied"]
    losses = [pc.evaluate(each, table).log_loss for each in (model, calibrated)]
    assert losses[1] < losses[0]
    rows = pa.table({"u": ["p", "q", "r"]})
    np.testing.assert_array_equal(calibrated.score_samples(rows), model.score_samples(rows))
    assert np.abs(calibrated.predict_proba(rows) - model.predict_proba(rows)).min() > 1e-3


def test_calibration_changes_the_posterior_only() -> None:
    calibrated = pc.calibrate(MODEL, HELD_OUT)
    for name in ("score_samples", "joint_log_likelihood", "log_likelihood_by_block"):
        np.testing.assert_array_equal(getattr(calibrated, name)(REST), getattr(MODEL, name)(REST))
    assert calibrated.predict(REST, "ml") == MODEL.predict(REST, "ml")
    assert calibrated.predict_proba(REST).tolist() != MODEL.predict_proba(REST).tolist()
    # A second calibration replaces the first.
    again = pc.calibrate(pc.calibrate(MODEL, REST), HELD_OUT)
    assert again.id == calibrated.id


def test_a_partitioned_lake_calibrates_like_one_table(tmp_path: Path) -> None:
    lake = lay_out(tmp_path / "lake")
    weather = ["dew_point", "temperature", "pressure", "log_wind_speed"]
    spec = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", weather)])
    model = pc.fit(lake, spec, partition={"month": "2012-06"})
    spring = [("month", "in", ["2013-06", "2013-07", "2013-08"])]
    one_worker, four_workers = (
        pc.calibrate(
            *(pc.with_density_quantiles(model, lake, where=spring, workers=workers), lake),
            where=spring,
            workers=workers,
        )
        for workers in (1, 4)
    )
    assert one_worker.id == four_workers.id
    rows = pa.Table.from_batches(list(open_table(lake).plan(where=spring).batches()))
    from_table = pc.calibrate(model, rows)
    np.testing.assert_allclose(
        from_table.predict_proba(rows), one_worker.predict_proba(rows), rtol=0, atol=1e-7
    )


def test_reliability_and_calibration_error_by_hand(iris: pa.Table) -> None:
    train, table = iris.take(list(range(0, 150, 3))), iris
    model = fitted(train, "species", pc.Block("gaussian_diagonal", SEPALS))
    result = pc.evaluate(model, table)
    posterior, truth = model.predict_proba(table), class_positions(model, table["species"])
    ece = dict(zip(*(result.per_class[key].to_pylist() for key in ("class", "ece")), strict=True))
    ece[None] = result.ece
    curves = {None: (posterior.max(axis=1), posterior.argmax(axis=1) == truth)}
    for position, name in enumerate(model.class_names):
        curves[name] = posterior[:, position], truth == position
    for name, (probability, came_true) in curves.items():
        error, expected = 0.0, []
        for lower, upper in itertools.pairwise(np.linspace(0, 1, 16)):
            inside = (probability > lower) & (probability <= upper)
            if inside.any():
                means = probability[inside].mean(), came_true[inside].mean()
                expected.append([name, lower, upper, inside.sum(), *map(pytest.approx, means)])
                error += inside.sum() / len(truth) * abs(means[0] - means[1])
        bins = [row for row in result.reliability.to_pylist() if row["class"] == name]
        columns = ("class", "lower", "upper", "rows", "probability", "frequency")
        assert [[row[column] for column in columns] for row in bins] == expected
        assert ece[name] == pytest.approx(error, rel=1e-12)
    assert result.log_loss == pytest.approx(log_loss(truth, posterior), rel=1e-9)


def test_probabilities_of_0_and_1_are_in_the_first_and_last_bin() -> None:
    table = pa.table({"u": ["p", "p", "q", "q"], "y": ["a", "a", "b", "b"]})
    model = fitted(table, "y", pc.Block("categorical", ["u"], pseudo_count=0.0))
    bins = pc.evaluate(model, table).reliability.filter(compute.field("class") == "a").to_pylist()
    assert [(row["lower"], row["upper"], row["rows"], row["frequency"]) for row in bins] == [
        (0.0, pytest.approx(1 / 15), 2, 0.0),
        (pytest.approx(14 / 15), 1.0, 2, 1.0),
    ]
