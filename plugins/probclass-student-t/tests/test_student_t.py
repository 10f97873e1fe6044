"""Student's t compared with SciPy's, the laws, and further passes for heavy tails."""

from __future__ import annotations

import numpy as np
import probclass_student_t
import pyarrow as pa
import pytest
from scipy import stats

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.testing.suite import EstimatorLaws, numbers

COLUMNS = {"x": numbers(), "y": numbers()}
ONE_COLUMN = {"x": numbers()}


class TestStudentT(EstimatorLaws):
    estimator = probclass_student_t.StudentT
    columns = COLUMNS
    options = ({}, {"degrees_of_freedom": 4}, {"scale_floor": 0})
    examples = 3


class TestStudentTOnGrids(EstimatorLaws):
    estimator = probclass_student_t.StudentT
    columns = ONE_COLUMN
    options = ({"cells": 4}, {"cells": 64})
    examples = 3


def two_classes(*samples: np.ndarray) -> pa.Table:
    labels = np.repeat(["a", "b"], [len(sample) for sample in samples])
    return pa.table({"x": np.concatenate(samples), "y": labels})


def spec(**options: object) -> pc.ModelSpec:
    return pc.ModelSpec("y", [pc.Block("student_t", ["x"], **options)])


def fitted(table: pa.Table, **options: object) -> pc.Model:
    with pc.trying(probclass_student_t.StudentT):
        return pc.fit(table, spec(**options))


def parameters(model: pc.Model) -> list[dict[str, float]]:
    return model.parameters["student_t"].drop_columns(["class", "feature"]).to_pylist()


@pytest.mark.parametrize(
    ("freedom", "location", "scale"), [(1.5, 0, 1), (4, 1e6, 1e-3), (30, -7, 50)]
)
def test_fit_is_at_least_as_likely_as_that_of_scipy(
    freedom: float, location: float, scale: float
) -> None:
    rng = np.random.default_rng(3)
    samples = [stats.t.rvs(freedom, location, scale, 1500, random_state=rng) for _ in range(2)]
    model = fitted(two_classes(*samples))
    assert "passes" not in model.training
    for sample, row in zip(samples, parameters(model), strict=True):
        assert row["count"] == 1500
        fit = row["degrees_of_freedom"], row["location"], row["scale"]
        standardized = stats.t.fit((sample - location) / scale, 4.0, loc=0.0, scale=1.0)
        peer = standardized[0], location + scale * standardized[1], scale * standardized[2]
        assert stats.t.logpdf(sample, *fit).sum() >= stats.t.logpdf(sample, *peer).sum() - 1e-3
        assert fit[1] == pytest.approx(peer[1], abs=1e-2 * scale)
        assert fit[2] == pytest.approx(peer[2], rel=1e-2)


def test_log_density_equals_that_of_scipy() -> None:
    rng = np.random.default_rng(4)
    model = fitted(two_classes(rng.standard_t(3, 300), rng.standard_t(2, 300) + 2.0))
    points = np.array([-1e200, -50.0, 0.0, 0.3, 1e6])
    with pc.trying(probclass_student_t.StudentT):
        logs = model.log_likelihood_by_block({"x": points})[:, :, 0]
    for column, row in enumerate(parameters(model)):
        fit = row["degrees_of_freedom"], row["location"], row["scale"]
        np.testing.assert_allclose(logs[1:, column], stats.t.logpdf(points[1:], *fit), rtol=1e-9)
        tail = (fit[0] + 1) * (np.log(1e200) - np.log(fit[2]) - np.log(fit[0]) / 2)
        constant = stats.t.logpdf(0.0, fit[0]) - np.log(fit[2])
        assert logs[0, column] == pytest.approx(constant - tail)


def test_fit_to_a_normal_sample_is_close_to_a_normal() -> None:
    rng = np.random.default_rng(5)
    sample = rng.normal(10.0, 2.0, 20_000)
    model = fitted(two_classes(sample, sample), degrees_of_freedom=200)
    fit = parameters(model)[0]
    assert fit["location"] == pytest.approx(sample.mean(), abs=0.01)
    assert fit["scale"] == pytest.approx(sample.std(), rel=0.02)


def test_outliers_do_not_move_the_location() -> None:
    rng = np.random.default_rng(6)
    clean = rng.normal(0.0, 1.0, 1000)
    with_outliers = np.concatenate([clean, np.full(50, 1e9)])
    model = fitted(two_classes(with_outliers, clean + 5.0))
    assert abs(parameters(model)[0]["location"]) < 0.1
    with pc.trying(probclass_student_t.StudentT):
        assert model.predict({"x": [0.0, 5.0]}).to_pylist() == ["a", "b"]


def test_long_tails_need_another_pass() -> None:
    """Cells over the range of Cauchy's outliers are too coarse; around the median they are fine."""
    rng = np.random.default_rng(7)
    one, other = rng.standard_cauchy(20_000), 5.0 + 0.1 * rng.standard_cauchy(20_000)
    table = two_classes(one, other)
    model, exact = fitted(table, cells=64), fitted(table, cells=50_000)
    assert model.training["passes"] in (2, 3)
    assert "passes" not in exact.training
    assert model.spec.blocks[0].options == {"cells": 64}
    for fit, best, scale in zip(parameters(model), parameters(exact), (1.0, 0.1), strict=True):
        assert fit["location"] == pytest.approx(best["location"], abs=1e-3 * scale)
        assert fit["scale"] == pytest.approx(best["scale"], rel=2e-3)
        assert fit["degrees_of_freedom"] == pytest.approx(best["degrees_of_freedom"], rel=2e-3)
    with pc.trying(probclass_student_t.StudentT):
        early = pc.finalize(pc.summarize(table, spec(cells=64)), early=True)
    assert parameters(early)[1]["scale"] != pytest.approx(parameters(exact)[1]["scale"], rel=0.5)


def test_invalid_data_and_options_are_refused() -> None:
    table = pa.table({"x": [1.0, None, 2.0], "y": ["a", "b", "a"]})
    (note,) = fitted(table).training["notes"]
    assert "class 'b' has no value of column 'x'" in note
    for options in ({"degrees_of_freedom": 0.5}, {"cells": 3}):
        with pytest.raises(SpecError, match="student_t: " + next(iter(options))):
            fitted(table, **options)
    with pytest.raises(SpecError, match="column 'x' is string"):
        fitted(pa.table({"x": ["p", "q"], "y": ["a", "b"]}))
