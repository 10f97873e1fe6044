"""Calibration agrees with scikit-learn and direct minimization; calibration errors by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from model_values import fitted, rows
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB

import probclass_core as pc
from probclass_core.demo.lake import lay_out
from probclass_core.io.open import open_table

SEPALS = ["sepal_length", "sepal_width"]
EXACT = pc.Block("gaussian_diagonal", SEPALS, variance_floor=0)


def thirds(iris: pa.Table) -> list[pa.Table]:
    return [iris.take(list(range(first, 150, 3))) for first in range(3)]


def matrix(table: pa.Table, columns: list[str]) -> np.ndarray:
    return np.column_stack([table[name].to_numpy() for name in columns])


def temperature(model: pc.Model) -> float:
    assert model.calibration is not None
    assert model.calibration["method"].to_pylist() == ["temperature"]
    value: float = model.calibration["value"][0].as_py()
    return value


def class_positions(model: pc.Model, labels: pa.ChunkedArray) -> np.ndarray:
    result: np.ndarray = compute.index_in(labels, value_set=model.classes).to_numpy()
    return result


def test_the_temperature_minimizes_the_log_loss(iris: pa.Table) -> None:
    train, held_out, rest = thirds(iris)
    model = fitted(train, "species", EXACT)
    scores = model.predict_log_proba(held_out)
    truth = class_positions(model, held_out["species"])

    def loss(value: float) -> float:
        scaled = scores / value
        own = scaled[np.arange(len(truth)), truth] - logsumexp(scaled, axis=1)
        return -float(own.mean())

    best = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    calibrated = pc.calibrate(model, held_out)
    assert temperature(calibrated) == pytest.approx(best.x, rel=1e-5)
    assert pc.evaluate(calibrated, held_out).log_loss == pytest.approx(best.fun, rel=1e-12)
    raw = model.predict_log_proba(rest) / temperature(calibrated)
    expected = raw - logsumexp(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(calibrated.predict_log_proba(rest), expected, rtol=0, atol=1e-12)
    assert calibrated.predict(rest) == model.predict(rest)


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_agrees_with_scikit_learn(iris: pa.Table, method: str, classes: int) -> None:
    chosen = iris if classes == 3 else iris.slice(50)
    train, held_out, rest = (chosen.take(list(range(first, len(chosen), 3))) for first in range(3))
    model = pc.calibrate(fitted(train, "species", EXACT), held_out, method)
    theirs = GaussianNB(var_smoothing=0).fit(matrix(train, SEPALS), train["species"].to_numpy())
    peer = CalibratedClassifierCV(FrozenEstimator(theirs), method=method)
    peer.fit(matrix(held_out, SEPALS), held_out["species"].to_numpy())
    expected = peer.predict_proba(matrix(rest, SEPALS))
    # scikit-learn's search for the temperature stops at about five digits.
    tolerance = 1e-4 if method == "temperature" else 1e-9
    np.testing.assert_allclose(model.predict_proba(rest), expected, rtol=0, atol=tolerance)


def test_isotonic_knots_agree_with_pool_adjacent_violators(iris: pa.Table) -> None:
    train, held_out, _ = thirds(iris)
    weights = pa.array(np.random.default_rng(1).integers(0, 4, len(held_out)).astype(float))
    train = train.append_column("w", pa.array([1.0] * len(train)))
    held_out = held_out.append_column("w", weights)
    model = fitted(train, "species", EXACT, weight="w")
    calibrated = pc.calibrate(model, held_out, "isotonic")
    assert calibrated.calibration is not None
    assert calibrated.calibration.column_names == ["method", "class", "knot", "value"]
    grid = np.linspace(0, 1, 101)
    for position, name in enumerate(model.class_names):
        peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        came_true = class_positions(model, held_out["species"]) == position
        peer.fit(model.predict_proba(held_out)[:, position], came_true, weights.to_numpy())
        knots = calibrated.calibration.filter(compute.field("class") == name)
        ours = np.interp(grid, knots["knot"].to_numpy(), knots["value"].to_numpy())
        np.testing.assert_allclose(ours, peer.predict(grid), rtol=0, atol=1e-9)
        assert compute.all(compute.is_valid(knots["knot"])).as_py()


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_a_row_of_weight_2_counts_twice(iris: pa.Table, method: str) -> None:
    train, held_out, rest = (
        each.append_column("w", pa.array([1 + row % 2 for row in range(len(each))]))
        for each in thirds(iris)
    )
    model = fitted(train, "species", EXACT, weight="w")
    indices = [row for row in range(len(held_out)) for _ in range(1 + row % 2)]
    repeated = held_out.take(indices)
    repeated = repeated.set_column(
        repeated.column_names.index("w"), "w", pa.array([1] * len(repeated))
    )
    weighted, twice = (pc.calibrate(model, each, method) for each in (held_out, repeated))
    np.testing.assert_allclose(
        weighted.predict_proba(rest), twice.predict_proba(rest), rtol=0, atol=1e-12
    )
    alone = pc.calibrate(fitted(train, "species", EXACT), held_out, method)
    assert alone.predict_proba(rest).tolist() != weighted.predict_proba(rest).tolist()


def test_the_temperature_is_bounded_if_all_rows_are_right_or_wrong() -> None:
    train = pa.table({"x": [0.0, 1.0, 5.0, 6.0], "y": ["a", "a", "b", "b"]})
    model = fitted(train, "y", pc.Block("gaussian_diagonal", ["x"]))
    assert temperature(pc.calibrate(model, train)) == pytest.approx(1e-3)
    wrong = pa.table({"x": train["x"], "y": ["b", "b", "a", "a"]})
    calibrated = pc.calibrate(model, wrong)
    assert temperature(calibrated) == pytest.approx(1e3)
    assert np.isfinite(pc.evaluate(calibrated, wrong).log_loss)


def test_rows_whose_loss_ignores_the_temperature_are_left_out() -> None:
    table = pa.table({"u": ["p", "p", "q", "q", "p"], "y": ["a", "a", "b", "b", "b"]})
    block = pc.Block("categorical", ["u"], pseudo_count=0.0, domain={"u": ["p", "q", "r"]})
    model = fitted(table, "y", block)
    informative = {"u": ["p", "p", "p"], "y": ["a", "a", "b"]}
    all_rows = {"u": [*informative["u"], "q", "r"], "y": [*informative["y"], "a", "a"]}
    assert pc.calibrate(model, all_rows).calibration == pc.calibrate(model, informative).calibration
    isotonic = pc.calibrate(model, all_rows, "isotonic")
    # A row that no class explains keeps the prior.
    for each in (isotonic, pc.calibrate(model, all_rows)):
        assert each.predict_proba({"u": ["r"]})[0] == pytest.approx([0.4, 0.6])
        assert each.score_samples({"u": ["r"]})[0] == -math.inf


def test_isotonic_posteriors_sum_to_1() -> None:
    train = pa.table({"x": [0.0, 0.1, 4.0, 4.1, 8.0, 8.1], "y": list("aabbcc")})
    model = fitted(train, "y", pc.Block("gaussian_diagonal", ["x"], variance_floor=1.0))
    held_out = pa.table({"x": [0.0, 4.0, 8.0, -9.0, 4.05, 17.0], "y": list("bcaabc")})
    result = pc.calibrate(model, held_out, "isotonic").predict_proba(
        {"x": np.linspace(-20, 20, 99)}
    )
    assert np.isfinite(result).all()
    assert (result >= 0.0).all()
    np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_a_row_that_isotonic_maps_make_impossible_keeps_its_posterior() -> None:
    """Each map gives 1 at 0.6 and 0 at 0.4; the prior, a third, is below that for every class."""
    counts = [
        ("p", "a", 4),
        ("p", "b", 6),
        ("q", "b", 4),
        ("q", "c", 6),
        ("r", "c", 4),
        ("r", "a", 6),
    ]
    cells = [(u, y) for u, y, count in counts for _ in range(count)]
    model = fitted(rows(["u", "y"], cells), "y", pc.Block("categorical", ["u"], pseudo_count=0.0))
    held_out = rows(["u", "y"], [("p", "b"), ("q", "c"), ("r", "a")])
    calibrated = pc.calibrate(model, held_out, "isotonic")
    result = calibrated.predict_proba({"u": ["p", "q", None]})
    expected = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)
    # The map gives the true class probability 0, so the loss is infinite.
    assert pc.evaluate(calibrated, {"u": ["p"], "y": ["a"]}).log_loss == math.inf


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_calibration_changes_the_posterior_only(iris: pa.Table, method: str) -> None:
    train, held_out, rest = thirds(iris)
    model = fitted(train, "species", EXACT)
    calibrated = pc.calibrate(model, held_out, method)
    for name in ("score_samples", "joint_log_likelihood", "log_likelihood_by_block"):
        np.testing.assert_array_equal(getattr(calibrated, name)(rest), getattr(model, name)(rest))
    assert calibrated.predict(rest, "ml") == model.predict(rest, "ml")
    assert calibrated.predict_proba(rest).tolist() != model.predict_proba(rest).tolist()
    # A second calibration replaces the first.
    again = pc.calibrate(pc.calibrate(model, rest, "isotonic"), held_out, method)
    assert again.id == calibrated.id


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_a_partitioned_lake_calibrates_like_one_table(tmp_path: Path, method: str) -> None:
    lake = lay_out(tmp_path / "lake")
    weather = ["dew_point", "temperature", "pressure", "log_wind_speed"]
    spec = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", weather)])
    model = pc.fit(lake, spec, partition={"month": "2012-06"})
    spring = [("month", "in", ["2013-06", "2013-07", "2013-08"])]
    one_worker, four_workers = (
        pc.calibrate(
            pc.with_density_quantiles(model, lake, where=spring, workers=workers),
            lake,
            method,
            where=spring,
            workers=workers,
        )
        for workers in (1, 4)
    )
    assert one_worker.id == four_workers.id
    complete = pa.Table.from_batches(open_rows(lake, spring))
    from_table = pc.calibrate(model, complete, method)
    july = pa.Table.from_batches(open_rows(lake, [("month", "==", "2014-07")]))
    np.testing.assert_allclose(
        from_table.predict_proba(july), one_worker.predict_proba(july), rtol=0, atol=1e-9
    )


def open_rows(lake: Path, where: list[tuple[str, str, object]]) -> list[pa.RecordBatch]:
    return list(open_table(lake).plan(where=where).batches())


def test_calibration_corrects_the_overconfidence_of_naive_bayes(
    adult: tuple[pa.Table, pa.Table],
) -> None:
    train, test = adult
    model = pc.fit(train.slice(0, 20_000), pc.ModelSpec.auto(train.schema, "income"))
    raw, *corrected = (
        pc.evaluate(each, test)
        for each in (
            model,
            pc.calibrate(model, train.slice(20_000)),
            pc.calibrate(model, train.slice(20_000), "isotonic"),
        )
    )
    assert raw.log_loss > raw.baseline_log_loss, "worse than the prior"
    for result in corrected:
        assert result.log_loss < 0.75 * raw.baseline_log_loss
        assert result.ece < raw.ece / 4
        assert result.brier < raw.brier


def test_reliability_and_calibration_error_by_hand(iris: pa.Table) -> None:
    train, held_out, rest = thirds(iris)
    model = fitted(train, "species", EXACT)
    table = pa.concat_tables([held_out, rest])
    result = pc.evaluate(model, table)
    posterior = model.predict_proba(table)
    truth = class_positions(model, table["species"])
    assert result.reliability.column_names == [
        *("class", "lower", "upper", "rows", "probability", "frequency"),
    ]
    curves = {None: (posterior.max(axis=1), posterior.argmax(axis=1) == truth)}
    for position, name in enumerate(model.class_names):
        curves[name] = posterior[:, position], truth == position
    for name, (probability, came_true) in curves.items():
        error, expected = 0.0, []
        for number in range(15):
            lower, upper = np.linspace(0, 1, 16)[number : number + 2]
            inside = (probability > lower) & (probability <= upper)
            inside |= (probability == 0.0) & (number == 0)
            if inside.any():
                means = probability[inside].mean(), came_true[inside].mean()
                expected.append((name, lower, upper, inside.sum(), *means))
                error += inside.sum() / len(truth) * abs(means[0] - means[1])
        bins = [row for row in result.reliability.to_pylist() if row["class"] == name]
        assert [tuple(row.values())[:4] for row in bins] == [row[:4] for row in expected]
        assert [tuple(row.values())[4:] for row in bins] == [
            pytest.approx(row[4:], rel=1e-12) for row in expected
        ]
        if name is None:
            assert result.ece == pytest.approx(error, rel=1e-12)
        else:
            by_class = dict(
                zip(*(result.per_class[key].to_pylist() for key in ("class", "ece")), strict=True)
            )
            assert by_class[name] == pytest.approx(error, rel=1e-12)
    assert result.log_loss == pytest.approx(log_loss(truth, posterior), rel=1e-9)


def test_probabilities_of_0_and_1_are_in_the_first_and_last_bin() -> None:
    table = pa.table({"u": ["p", "p", "q", "q"], "y": ["a", "a", "b", "b"]})
    model = fitted(table, "y", pc.Block("categorical", ["u"], pseudo_count=0.0))
    bins = pc.evaluate(model, table).reliability.filter(compute.field("class") == "a").to_pylist()
    assert [(row["lower"], row["upper"], row["rows"], row["frequency"]) for row in bins] == [
        (0.0, pytest.approx(1 / 15), 2, 0.0),
        (pytest.approx(14 / 15), 1.0, 2, 1.0),
    ]
