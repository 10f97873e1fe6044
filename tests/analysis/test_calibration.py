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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

import probclass_core as pc
from probclass_core.demo.lake import lay_out
from probclass_core.io.open import open_table

SEPALS = ["sepal_length", "sepal_width"]
METHODS = ["temperature_and_bias", "temperature", "isotonic"]
every_method = pytest.mark.parametrize("method", METHODS)
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
    assert set(model.calibration["method"].to_pylist()) <= set(METHODS)
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


@pytest.mark.parametrize("biases", [3, 0])
def test_temperature_and_biases_minimize_the_penalized_log_loss(biases: int) -> None:
    scores, truth = scores_of(MODEL, HELD_OUT), class_positions(MODEL, HELD_OUT["kind"])

    def loss(values: np.ndarray) -> float:
        scaled = values[0] * scores + (values[1:] if biases else 0.0)
        own = scaled[np.arange(len(truth)), truth] - logsumexp(scaled, axis=1)
        away = values - np.eye(len(values))[0]
        return float(0.5 * (away**2).sum() - own.sum())

    best = minimize(loss, np.eye(1 + biases)[0], method="BFGS", options={"gtol": 1e-6}).x
    calibrated = pc.calibrate(MODEL, HELD_OUT, "temperature_and_bias" if biases else "temperature")
    ours = parameters(calibrated)
    assert [1.0 / ours[0], *ours[1:]] == pytest.approx(best, abs=1e-5)
    assert ours[0] > 1.5
    raw = scores_of(MODEL, REST) / ours[0] + (ours[1:] if biases else 0.0)
    expected = raw - logsumexp(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(calibrated.predict_log_proba(REST), expected, rtol=0, atol=1e-12)
    if not biases:
        assert calibrated.predict(REST) == MODEL.predict(REST)


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_agrees_with_scikit_learn(method: str, classes: int) -> None:
    """Rows of a large weight make the pull toward no change, which scikit-learn lacks, vanish."""
    train, held_out, rest = copies(classes=classes)
    model = fitted(weighted(train, 1.0), "kind", BLOCK, weight="w")
    assert scores_of(model, held_out).min() > -20.0, "scikit-learn's scores have no bound"
    calibrated = pc.calibrate(model, weighted(held_out, 1e6), method)
    theirs = GaussianNB(var_smoothing=0).fit(matrix(train, COPIES), train["kind"].to_numpy())
    peer = CalibratedClassifierCV(FrozenEstimator(theirs), method=method)
    peer.fit(matrix(held_out, COPIES), held_out["kind"].to_numpy())
    expected = peer.predict_proba(matrix(rest, COPIES))
    # scikit-learn's search for the temperature stops at about five digits.
    np.testing.assert_allclose(calibrated.predict_proba(rest), expected, rtol=0, atol=1e-4)


def test_isotonic_knots_agree_with_pool_adjacent_violators() -> None:
    """One more row of unknown class is a third of the class at 0, and two thirds another at 1."""
    weights = np.random.default_rng(1).integers(0, 4, len(HELD_OUT)).astype(float)
    calibrated = pc.calibrate(WEIGHTED, weighted(HELD_OUT, weights), "isotonic")
    assert calibrated.calibration is not None
    assert calibrated.calibration.column_names == ["method", "class", "knot", "value"]
    grid = np.linspace(0, 1, 101)
    for position, name in enumerate(WEIGHTED.class_names):
        peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        came_true = class_positions(WEIGHTED, HELD_OUT["kind"]) == position
        peer.fit(
            [*WEIGHTED.predict_proba(HELD_OUT)[:, position], 0.0, 1.0],
            [*came_true, True, False],
            [*weights, 1 / 3, 2 / 3],
        )
        knots = calibrated.calibration.filter(compute.field("class") == name)
        ours = np.interp(grid, knots["knot"].to_numpy(), knots["value"].to_numpy())
        np.testing.assert_allclose(ours, peer.predict(grid), rtol=0, atol=1e-9)
        assert compute.all(compute.is_valid(knots["knot"])).as_py()


@every_method
def test_a_row_of_weight_2_counts_twice(method: str) -> None:
    counts = 1 + np.arange(len(HELD_OUT)) % 2
    repeated = weighted(HELD_OUT.take(pa.array(np.repeat(np.arange(len(HELD_OUT)), counts))), 1.0)
    once, twice = (
        pc.calibrate(WEIGHTED, each, method) for each in (weighted(HELD_OUT, counts), repeated)
    )
    np.testing.assert_allclose(once.predict_proba(REST), twice.predict_proba(REST), atol=1e-6)
    alone = pc.calibrate(WEIGHTED, weighted(HELD_OUT, 1.0), method)
    assert np.abs(alone.predict_proba(REST) - once.predict_proba(REST)).max() > 1e-3


@every_method
def test_no_calibration_of_digits_makes_them_worse(method: str) -> None:
    """Constant columns and a small variance floor give log losses of 10⁸ here."""
    pixels, digits = load_digits(return_X_y=True)
    names = [f"pixel {number}" for number in range(64)]
    table = pa.table({**dict(zip(names, pixels.T, strict=True)), "digit": digits})
    order = np.random.default_rng(0).permutation(len(digits))
    train, held_out, test = (table.take(pa.array(part)) for part in np.array_split(order, 3))
    model = fitted(train, "digit", pc.Block("gaussian_diagonal", names, variance_floor=1e-9))
    raw, calibrated = (
        pc.evaluate(each, test) for each in (model, pc.calibrate(model, held_out, method))
    )
    assert raw.log_loss > 1e8
    assert calibrated.log_loss < raw.baseline_log_loss / 2
    assert calibrated.ece < raw.ece / 2
    assert calibrated.brier < raw.brier
    assert (calibrated.accuracy or 0.0) > 0.8


@every_method
def test_a_calibration_that_does_not_help_is_the_identity(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is the truth, so a calibration can learn only noise."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 20_000)
    table = pa.table({"x": truth + rng.normal(0.0, 1.0, len(truth)), "kind": truth})
    model = fitted(table.slice(400), "kind", pc.Block("gaussian_diagonal", ["x"]))
    calibrated = pc.calibrate(model, table.slice(0, 400), method)
    assert calibrated.calibration is not None
    assert calibrated.calibration["method"].to_pylist() == ["identity"]
    np.testing.assert_array_equal(calibrated.predict_proba(table), model.predict_proba(table))
    record = calibrated.training["calibration"]
    assert not record["applied"]
    loss = pc.evaluate(model, table.slice(0, 400)).log_loss
    assert record["uncalibrated_log_loss"] == pytest.approx(loss, rel=1e-12)
    assert f"calibrated by {method}, the log loss" in caplog.text


def test_rows_that_are_all_right_do_not_make_the_posterior_certain() -> None:
    train, _, _ = copies(classes=2)
    model = fitted(train, "kind", BLOCK)
    right = train.filter(compute.equal(model.predict(train), train["kind"])).slice(0, 30)
    (temperature,) = parameters(pc.calibrate(model, right, "temperature"))
    assert 0.3 < temperature < 1.0


def test_a_true_class_of_probability_0_becomes_possible() -> None:
    table = pa.table({"u": ["p"] * 9 + ["q"] * 9, "y": ["a"] * 9 + ["b"] * 9})
    model = fitted(table, "y", pc.Block("categorical", ["u"], pseudo_count=0.0))
    held_out = pa.table({"u": ["p"] * 9 + ["q"] * 9, "y": ["b", *"aaaaaaaa", "a", *"bbbbbbbb"]})
    assert pc.evaluate(model, held_out).log_loss == math.inf
    for method in METHODS:
        calibrated = pc.calibrate(model, held_out, method)
        # One row in nine is of the other class: the entropy of that is 0.349.
        assert 0.34 < pc.evaluate(calibrated, held_out).log_loss < 0.40
        assert calibrated.training["calibration"]["uncalibrated_log_loss"] is None, "infinite"


def test_rows_that_no_class_explains_are_left_out() -> None:
    table = pa.table({"u": ["p", "p", "q", "q", "p"], "y": ["a", "a", "b", "b", "b"]})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    model = fitted(table, "y", block)
    explained = {"u": ["p", "p", "p", "q"] * 9, "y": ["a", "b", "b", "a"] * 9}
    all_rows = {"u": [*explained["u"], "r"], "y": [*explained["y"], "a"]}
    for method in METHODS:
        calibrated = pc.calibrate(model, all_rows, method)
        assert calibrated.calibration == pc.calibrate(model, explained, method).calibration
        assert calibrated.training["calibration"]["applied"]
        assert calibrated.predict_proba({"u": ["r"]})[0] == pytest.approx([0.4, 0.6])
        assert calibrated.score_samples({"u": ["r"]})[0] == -math.inf


@every_method
def test_models_with_block_weights_are_calibrated_in_all_rows(method: str) -> None:
    """Their product gives the last row density 0, but the weighted blocks have a lower bound."""
    table = pa.table({"u": ["p", "q"] * 50, "y": (["a", "b"] * 3 + ["a"] * 4) * 10})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    spec = pc.ModelSpec("y", [block], block_weights={"categorical": 5.0})
    model = pc.fit(table, spec)
    calibrated = pc.calibrate(model, table, method)
    assert calibrated.training["calibration"]["applied"]
    losses = [pc.evaluate(each, table).log_loss for each in (model, calibrated)]
    assert losses[1] < losses[0]
    rows = pa.table({"u": ["p", "q", "r"]})
    np.testing.assert_array_equal(calibrated.score_samples(rows), model.score_samples(rows))
    assert np.abs(calibrated.predict_proba(rows) - model.predict_proba(rows)).min() > 1e-3


def test_isotonic_posteriors_sum_to_1_and_are_never_0() -> None:
    """Also of a class without held-out rows, whose probability stays as it is."""
    far = pa.table({name: [-1e6, -1e3, 1e3, 1e6] for name in COPIES})
    without = HELD_OUT.filter(compute.field("kind") != "kind 0")
    calibrated = [pc.calibrate(MODEL, rows, "isotonic") for rows in (HELD_OUT, without)]
    for model in calibrated:
        assert model.training["calibration"]["applied"]
        for table in (far, REST):
            result = model.predict_proba(table)
            assert (result > 0.0).all()
            np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert calibrated[1].calibration is not None
    absent = calibrated[1].calibration.filter(compute.field("class") == "kind 0")
    assert absent["knot"].to_pylist() == absent["value"].to_pylist() == [math.exp(-20.0), 1.0]


@every_method
def test_calibration_changes_the_posterior_only(method: str) -> None:
    calibrated = pc.calibrate(MODEL, HELD_OUT, method)
    for name in ("score_samples", "joint_log_likelihood", "log_likelihood_by_block"):
        np.testing.assert_array_equal(getattr(calibrated, name)(REST), getattr(MODEL, name)(REST))
    assert calibrated.predict(REST, "ml") == MODEL.predict(REST, "ml")
    assert calibrated.predict_proba(REST).tolist() != MODEL.predict_proba(REST).tolist()
    # A second calibration replaces the first.
    again = pc.calibrate(pc.calibrate(MODEL, REST, "isotonic"), HELD_OUT, method)
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
