"""Kernel densities compared with SciPy's, bandwidth rules computed by hand, and the laws."""

from __future__ import annotations

import numpy as np
import probclass_kde
import pyarrow as pa
import pytest
from probclass_kde import bandwidth
from scipy import stats

import probclass_core as pc
from probclass_core.errors import DataError, SpecError
from probclass_core.testing.suite import EstimatorLaws, numbers

COLUMNS = {"x": numbers(), "y": numbers()}


class TestKernelDensity(EstimatorLaws):
    estimator = probclass_kde.KernelDensity
    columns = COLUMNS
    options = ({}, {"bandwidth": "scott"}, {"bandwidth": "silverman"}, {"bandwidth": 0.5})
    examples = 4


def fitted(x: np.ndarray, y: np.ndarray, **options: object) -> pc.Model:
    block = pc.Block("kde", ["x"], **options)
    with pc.trying(probclass_kde.KernelDensity):
        return pc.fit({"x": x, "y": y}, pc.ModelSpec("y", [block]))


def densities(model: pc.Model, x: np.ndarray) -> np.ndarray:
    with pc.trying(probclass_kde.KernelDensity):
        return np.exp(model.log_likelihood_by_block({"x": x})[:, :, 0])


def widths(model: pc.Model) -> list[float]:
    by_class = {row["class"]: row["bandwidth"] for row in model.parameters["kde"].to_pylist()}
    return list(by_class.values())


def two_modes(size: int) -> np.ndarray:
    rng = np.random.default_rng(11)
    return np.concatenate([rng.normal(-5.0, 0.5, size), rng.normal(5.0, 0.5, size)])


def test_density_equals_that_of_scipy() -> None:
    rng = np.random.default_rng(12)
    x = np.concatenate([rng.normal(size=80), rng.gamma(2.0, size=60)])
    y = np.repeat(["a", "b"], [80, 60])
    points = np.linspace(-4.0, 9.0, 50)
    model = fitted(x, y, bandwidth=0.3)
    density = densities(model, points)
    for column, sample in enumerate((x[:80], x[80:])):
        peer = stats.gaussian_kde(sample, bw_method=0.3 / sample.std(ddof=1))
        np.testing.assert_allclose(density[:, column], peer(points), rtol=1e-9)
    grid = np.linspace(-10.0, 30.0, 20_001)
    np.testing.assert_allclose(np.trapezoid(densities(model, grid), grid, axis=0), 1.0, rtol=1e-6)


def test_scott_and_silverman_follow_their_formulas() -> None:
    x = np.arange(1.0, 101.0)
    y = np.array(["a", "b"] * 50)
    for rule, factor in (("scott", 1.06), ("silverman", 0.9)):
        expected = [factor * x[start::2].std() * 50**-0.2 for start in (0, 1)]
        assert widths(fitted(x, y, bandwidth=rule)) == pytest.approx(expected)
    with_outlier = np.sort(np.append(x[0::2], 1e6))
    low, high = with_outlier[[12, 38]]
    expected_width = 0.9 * (high - low) / (2.0 * stats.norm.ppf(0.75)) * 51**-0.2
    assert bandwidth.choose("silverman", with_outlier, np.ones(51)) == pytest.approx(expected_width)


@pytest.mark.parametrize("size", [300, 5000, 50_000])
def test_isj_is_close_to_the_optimal_width_for_a_normal_sample(size: int) -> None:
    """(4 / 3n)^(1/5) σ is optimal for a normal density: Silverman, eq. 3.28."""
    values = np.sort(np.random.default_rng(13).normal(7.0, 2.0, size))
    width = bandwidth.choose("isj", values, np.ones(size))
    assert width == pytest.approx(2.0 * (4.0 / (3.0 * size)) ** 0.2, rel=0.15)
    scaled = bandwidth.choose("isj", 1e-3 * values + 1.0, np.ones(size))
    assert scaled == pytest.approx(1e-3 * width, rel=1e-6)


def test_isj_is_narrow_enough_for_two_modes() -> None:
    """Scott's rule is about right for each mode alone, and ten times too wide for both."""
    x = np.sort(two_modes(1000))
    isj, scott = (bandwidth.choose(rule, x, np.ones(len(x))) for rule in ("isj", "scott"))
    assert isj == pytest.approx(1.06 * 0.5 * 1000**-0.2, rel=0.2)
    assert scott > 8.0 * isj


def test_isj_predicts_two_modes_better_than_the_other_rules() -> None:
    x = two_modes(500)
    y = np.where(np.arange(len(x)) % 2, "a", "b")
    held_out = two_modes(700)
    mean = {
        rule: np.log(densities(fitted(x, y, bandwidth=rule), held_out)).mean()
        for rule in bandwidth.RULES
    }
    assert mean["isj"] > mean["silverman"] + 0.1
    assert mean["isj"] > mean["scott"] + 0.1


def test_isj_falls_back_to_silvermans_rule_for_few_values() -> None:
    values = np.arange(10.0)
    isj, silverman = (bandwidth.choose(rule, values, np.ones(10)) for rule in ("isj", "silverman"))
    assert isj == silverman


def test_invalid_data_and_options_are_refused() -> None:
    x, y = np.array([1.0, 2.0, np.nan]), np.array(["a", "a", "b"])
    with pytest.raises(DataError, match="class 'b' has no value in column 'x'"):
        fitted(x, y)
    for wrong in ("sjw", 0, -1.0, [1]):
        with pytest.raises(SpecError, match="kde: bandwidth must be"):
            fitted(x, y, bandwidth=wrong)
    with (
        pc.trying(probclass_kde.KernelDensity),
        pytest.raises(SpecError, match="column 'x' is string"),
    ):
        pc.fit({"x": ["p", "q"], "y": ["a", "b"]}, pc.ModelSpec("y", [pc.Block("kde", ["x"])]))


def test_parameters_are_the_distinct_points_with_counts() -> None:
    model = fitted(np.array([1.0, 1.0, 2.0, 5.0]), np.array(["a", "a", "a", "b"]), bandwidth=1)
    assert model.parameters["kde"].to_pylist() == [
        {"class": "a", "feature": "x", "point": 1.0, "count": 2.0, "bandwidth": 1.0},
        {"class": "a", "feature": "x", "point": 2.0, "count": 1.0, "bandwidth": 1.0},
        {"class": "b", "feature": "x", "point": 5.0, "count": 1.0, "bandwidth": 1.0},
    ]
    assert isinstance(model.parameters["kde"], pa.Table)


def test_drift_compares_the_density_of_each_column() -> None:
    spec = pc.ModelSpec("c", [pc.Block("kde", ["x", "y"])])
    before = {"x": [0.0, 2.0, 5.0, 7.0], "y": [1.0, 3.0, 1.0, 2.0], "c": ["a", "a", "b", "b"]}
    with pc.trying(probclass_kde.KernelDensity):
        drift = pc.drift(pc.fit(before, spec), pc.fit({**before, "y": [4.0, 6.0, 1.0, 2.0]}, spec))
    x_of_a, _, y_of_a, _ = drift.features.to_pylist()
    assert (x_of_a["mean_shift"], x_of_a["divergence"]) == (0.0, 0.0)
    means = y_of_a["mean_before"], y_of_a["mean_after"]
    assert means == pytest.approx((2.0, 5.0), abs=1e-3)  # those of the points
    assert y_of_a["divergence"] > 0.5
