"""Rows far from the data, tiny and huge units, and underflow: correct, and never NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from model_values import (
    covariance,
    fitted,
    likelihood,
    normal,
    posterior,
    predicted,
    rows,
    table_of_matrix,
)

import probclass_core as pc
from probclass_core.errors import DataError

GAUSSIANS = ["gaussian_diagonal", "gaussian_full"]
LARGEST = float(np.finfo(np.float64).max)


def two_normals(estimator: str) -> pc.Model:
    """N(0, 1) and N(70, 1) exactly: the moments of −1, 1 and of 69, 71."""
    table = pa.table({"x": [-1.0, 1.0, 69.0, 71.0], "c": ["near", "near", "far", "far"]})
    return fitted(table, "c", pc.Block(estimator, ["x"]))


@pytest.mark.parametrize("estimator", GAUSSIANS)
@pytest.mark.parametrize("x", [60.0, 35.0, 34.0, -60.0, 1e3, 1e6, -1e6, 1e12, 5e-324])
def test_far_tails_agree_with_exact_arithmetic(estimator: str, x: float) -> None:
    """log P(far)/P(near) = (x² − (x − 70)²)/2. A floor for densities would give 0 from 38 on."""
    odds = (Fraction(x) ** 2 - (Fraction(x) - 70) ** 2) / 2
    model, row = two_normals(estimator), pa.table({"x": [x]})
    far, near = model.predict_log_proba(row)[0]
    # The squares have 16 digits, so their difference is precise to 16 digits of the squares.
    rounding = 4e-16 * x * x
    assert far - near == pytest.approx(float(odds), rel=1e-13, abs=rounding)
    assert max(far, near) == pytest.approx(-math.log1p(math.exp(-abs(odds))), abs=1e-15)
    if odds:
        assert predicted(model, x=x) == ("far" if odds > 0 else "near")
    closest = min(abs(x), abs(x - 70.0))
    peak = -0.5 * math.log(2.0 * math.pi) + math.log(0.5)
    evidence = peak - 0.5 * closest**2 + math.log1p(math.exp(-abs(odds)))
    assert model.score_samples(row)[0] == pytest.approx(evidence, rel=1e-13)


@pytest.mark.parametrize("estimator", GAUSSIANS)
@pytest.mark.parametrize("x", [1e300, -1e300, LARGEST, -LARGEST])
def test_beyond_float64_the_posterior_is_the_prior(estimator: str, x: float) -> None:
    model = two_normals(estimator).with_prior({"near": 0.25, "far": 0.75})
    assert posterior(model, x=x) == pytest.approx({"near": 0.25, "far": 0.75})
    assert model.score_samples(pa.table({"x": [x]}))[0] == -math.inf


def test_a_row_that_no_class_explains_has_the_prior_and_density_0() -> None:
    table = rows(["x", "v", "c"], [(0.0, "a", 0), (0.0, "a", 0), (1.0, "b", 1)])
    for block in (
        pc.Block("gaussian_diagonal", ["x"], variance_floor=0.0),
        pc.Block("categorical", ["v"], pseudo_count=0.0),
    ):
        model = fitted(table, "c", block)
        assert posterior(model, x=0.5, v="c") == pytest.approx({0: 2 / 3, 1: 1 / 3})
        rows_to_score = pa.table({"x": [0.5, 0.0], "v": ["c", "a"]})
        assert model.score_samples(rows_to_score)[0] == -math.inf
        assert np.isfinite(model.score_samples(rows_to_score)[1])


@pytest.mark.parametrize("count", [2, 8, 33])
def test_correlated_features_far_out_give_no_nan(count: int) -> None:
    """Terms overflow with both signs there, and ∞ − ∞ is NaN."""
    random = np.random.default_rng(count)
    x = 1e-12 * random.normal(size=(400, count)) @ random.normal(size=(count, count))
    scored = table_of_matrix(1e300 * random.choice([-1.0, 1.0], size=(50, count)))
    block = pc.Block("gaussian_full", scored.column_names)
    model = fitted(table_of_matrix(x, c=np.tile([0, 1], 200)), "c", block)
    assert np.isneginf(model.joint_log_likelihood(scored)).all()
    assert model.predict_proba(scored) == pytest.approx(np.full((50, 2), 0.5))


@pytest.mark.parametrize("estimator", GAUSSIANS)
def test_a_variance_of_1e_300(estimator: str) -> None:
    unit = 1e-150
    x = unit * np.array([-1.0, 1.0, 1.0, 3.0])
    model = fitted(pa.table({"x": x, "c": [0, 0, 1, 1]}), "c", pc.Block(estimator, ["x"]))
    assert posterior(model, x=unit) == pytest.approx({0: 0.5, 1: 0.5})
    assert posterior(model, x=0.0)[0] == pytest.approx(1.0 / (1.0 + math.exp(-2.0)))
    density = math.log(0.5 / math.sqrt(2.0 * math.pi)) - math.log(unit)
    expected = density + math.log(1.0 + math.exp(-2.0))
    assert model.score_samples(pa.table({"x": [0.0]}))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("apart", [1e4, 1e8, 1e12])
def test_a_narrow_class_far_from_the_others_is_not_singular(apart: float) -> None:
    """Two well-spread clouds are not singular, at any distance from each other."""
    cloud = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [2.0, 2.0], [-2.0, -2.0]])
    centers = np.repeat([[0.0, 0.0], [apart, 0.0]], len(cloud), axis=0)
    labels = np.repeat([0, 1], len(cloud))
    table = table_of_matrix(np.vstack([cloud, cloud]) + centers, "uv", c=labels)
    block = pc.Block("gaussian_full", ["u", "v"], on_singular="error")
    model = fitted(table, "c", block)
    for label in (0, 1):
        assert covariance(model, label) == pytest.approx(np.cov(cloud.T, ddof=0), rel=1e-9)


UNITS = [(1.0, 1.0), (1e-12, 1e12), (1e12, 1e-12), (1e-100, 1e100)]


@pytest.mark.parametrize(("one", "other"), UNITS)
def test_very_different_units_in_one_full_covariance(one: float, other: float) -> None:
    """Another unit changes the log density by its log, and no posterior."""
    random = np.random.default_rng(7)
    x = random.normal(size=(300, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
    y = np.tile([0, 1, 2], 100)
    x[y == 1] += [1.0, -1.0]

    def of(units: Sequence[float]) -> tuple[pc.Model, pa.Table]:
        table = table_of_matrix(x * units, "ab", c=y)
        block = pc.Block("gaussian_full", ["a", "b"], on_singular="error")
        return fitted(table, "c", block), table

    (plain, table), (scaled, scaled_table) = of([1.0, 1.0]), of([one, other])
    ours = scaled.predict_log_proba(scaled_table)
    assert ours == pytest.approx(plain.predict_log_proba(table), rel=1e-9, abs=1e-9)
    shift = plain.score_samples(table) - scaled.score_samples(scaled_table)
    assert shift == pytest.approx(math.log(one) + math.log(other), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("estimator", GAUSSIANS)
@pytest.mark.parametrize(
    ("values", "says"),
    [
        *(([-x, x, 0.0, 1.0], "too large") for x in (1e160, 1e300, LARGEST)),
        *(([x, 0.0, 0.0, 3.0 * x], "too small") for x in (1e-153, 2.2e-159, 1e-200, 5e-324)),
    ],
)
def test_values_that_cannot_be_squared_are_refused(
    estimator: str, values: list[float], says: str
) -> None:
    table = pa.table({"x": values, "c": [0, 0, 1, 1]})
    with pytest.raises(DataError, match=rf"column 'x' .* {says} to square"):
        fitted(table, "c", pc.Block(estimator, ["x"]))


def test_a_point_mass_explains_its_point_only() -> None:
    table = rows(["x", "c"], [(2.0, "mass"), (2.0, "mass"), (0.0, "wide"), (4.0, "wide")])
    model = fitted(table, "c", pc.Block("gaussian_diagonal", ["x"], variance_floor=0.0))
    assert normal(model, "mass", "x") == (2.0, 0.0)
    assert posterior(model, x=2.0) == pytest.approx({"mass": 1.0, "wide": 0.0}, abs=1e-300)
    assert posterior(model, x=2.0 + 4e-16) == {"mass": 0.0, "wide": 1.0}
    assert likelihood(model, x=2.0)["mass"] < math.inf


def test_two_equal_point_masses_have_the_prior_as_posterior() -> None:
    """The width used for variance 0 is the same for all classes, so it cancels."""
    table = rows(["x", "c"], [(2.0, 0), (2.0, 0), (2.0, 0), (2.0, 1)])
    model = fitted(table, "c", pc.Block("gaussian_diagonal", ["x"], variance_floor=0.0))
    assert posterior(model, x=2.0) == pytest.approx({0: 0.75, 1: 0.25})
