"""Student's t against SciPy's, the contract's laws, and the passes that heavy tails take."""

from __future__ import annotations

import numpy as np
import probclass_student_t
import pyarrow as pa
import pytest
from scipy import stats

import probclass_core as pc
from probclass_core.testing.generators import numbers
from probclass_core.testing.suite import EstimatorLaws

(PLUGIN,) = probclass_student_t.probclass_estimators()
COLUMNS = {"x": numbers(), "y": numbers()}
ONE_COLUMN = {"x": numbers()}
CENTRES = {"x": {"a": [0.0, 1.0], "b": [3.0, 0.5]}}


class TestStudentT(EstimatorLaws):
    plugin = PLUGIN
    columns = COLUMNS
    options = ({}, {"degrees_of_freedom": 4}, {"scale_floor": 0})
    examples = 3


class TestStudentTOnGrids(EstimatorLaws):
    plugin = PLUGIN
    columns = ONE_COLUMN
    options = ({"cells": 4}, {"cells": 4, "around": CENTRES}, {"around": CENTRES})
    examples = 3


def two_classes(*samples: np.ndarray) -> pa.Table:
    labels = np.repeat(["a", "b"], [len(sample) for sample in samples])
    return pa.table({"x": np.concatenate(samples), "y": labels})


def spec(**options: object) -> pc.ModelSpec:
    return pc.ModelSpec("y", [pc.Block("student_t", ["x"], **options)])


def fitted(table: pa.Table, **options: object) -> pc.Model:
    with pc.trying(PLUGIN):
        return pc.fit(table, spec(**options))


def parameters(model: pc.Model) -> list[dict[str, float]]:
    return model.parameters["student_t"].drop_columns(["class", "feature"]).to_pylist()


@pytest.mark.parametrize(
    ("freedom", "location", "scale"), [(1.5, 0, 1), (4, 1e6, 1e-3), (30, -7, 50)]
)
def test_the_density_is_the_most_likely_one(freedom: float, location: float, scale: float) -> None:
    """As scipy.stats.t.fit finds it by a general search; no likelihood is below SciPy's."""
    rng = np.random.default_rng(3)
    one, other = (stats.t.rvs(freedom, location, scale, 1500, random_state=rng) for _ in range(2))
    model = fitted(two_classes(one, other))
    assert "passes" not in model.training
    for sample, found in zip((one, other), parameters(model), strict=True):
        peer = stats.t.fit((sample - location) / scale, 4.0, loc=0.0, scale=1.0)
        assert found["count"] == 1500
        ours = found["degrees_of_freedom"], found["location"], found["scale"]
        theirs = peer[0], location + scale * peer[1], scale * peer[2]
        likelihoods = [stats.t.logpdf(sample, *one).sum() for one in (ours, theirs)]
        assert likelihoods[0] >= likelihoods[1] - 1e-3
        assert ours[1] == pytest.approx(theirs[1], abs=1e-2 * scale)
        assert ours[2] == pytest.approx(theirs[2], rel=1e-2)


def test_the_log_density_is_scipys() -> None:
    rng = np.random.default_rng(4)
    model = fitted(two_classes(rng.standard_t(3, 300), rng.standard_t(2, 300) + 2.0))
    points = np.array([-1e200, -50.0, 0.0, 0.3, 1e6])
    with pc.trying(PLUGIN):
        ours = model.log_likelihood_by_block({"x": points})[:, :, 0]
    for column, found in enumerate(parameters(model)):
        shape = found["degrees_of_freedom"], found["location"], found["scale"]
        np.testing.assert_allclose(ours[1:, column], stats.t.logpdf(points[1:], *shape), rtol=1e-9)
        tail = (shape[0] + 1) * (np.log(1e200) - np.log(shape[2]) - np.log(shape[0]) / 2)
        constant = stats.t.logpdf(0.0, shape[0]) - np.log(shape[2])
        assert ours[0, column] == pytest.approx(constant - tail)


def test_a_normal_sample_is_fitted_as_one() -> None:
    rng = np.random.default_rng(5)
    sample = rng.normal(10.0, 2.0, 20_000)
    model = fitted(two_classes(sample, sample), degrees_of_freedom=200)
    found = parameters(model)[0]
    assert found["location"] == pytest.approx(sample.mean(), abs=0.01)
    assert found["scale"] == pytest.approx(sample.std(), rel=0.02)


def test_outliers_do_not_bend_the_location() -> None:
    rng = np.random.default_rng(6)
    clean = rng.normal(0.0, 1.0, 1000)
    spoiled = np.concatenate([clean, np.full(50, 1e9)])
    model = fitted(two_classes(spoiled, clean + 5.0))
    assert abs(parameters(model)[0]["location"]) < 0.1
    with pc.trying(PLUGIN):
        assert model.predict({"x": [0.0, 5.0]}).to_pylist() == ["a", "b"]


def test_tails_too_long_for_one_grid_take_another_pass() -> None:
    """Few cells over the range of Cauchy's outliers; around the median they are fine again."""
    rng = np.random.default_rng(7)
    one, other = rng.standard_cauchy(20_000), 5.0 + 0.1 * rng.standard_cauchy(20_000)
    table = two_classes(one, other)
    model, exact = fitted(table, cells=64), fitted(table, cells=50_000)
    assert model.training["passes"] in (2, 3)
    assert "passes" not in exact.training
    assert model.spec.blocks[0].options == {"cells": 64}
    for found, wanted, scale in zip(parameters(model), parameters(exact), (1.0, 0.1), strict=True):
        assert found["location"] == pytest.approx(wanted["location"], abs=1e-3 * scale)
        assert found["scale"] == pytest.approx(wanted["scale"], rel=2e-3)
        assert found["degrees_of_freedom"] == pytest.approx(wanted["degrees_of_freedom"], rel=2e-3)
    with pc.trying(PLUGIN):
        early = pc.finalize(pc.summarize(table, spec(cells=64)), early=True)
    assert parameters(early)[1]["scale"] != pytest.approx(parameters(exact)[1]["scale"], rel=0.5)


def test_what_it_refuses() -> None:
    table = pa.table({"x": [1.0, None, 2.0], "y": ["a", "b", "a"]})
    with pytest.raises(pc.DataError, match="class 'b' has no value in column 'x'"):
        fitted(table)
    for options in ({"degrees_of_freedom": 0.5}, {"cells": 3}, {"around": {"x": {"a": [0, -1]}}}):
        with pytest.raises(pc.SpecError, match="student_t: " + next(iter(options))):
            fitted(table, **options)
    with pytest.raises(pc.SpecError, match="column 'x' is string"):
        fitted(pa.table({"x": ["p", "q"], "y": ["a", "b"]}))
