"""Every law, maximum likelihood compared with SciPy's, scarce classes, and refused values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import probclass_distributions
import pyarrow as pa
import pytest
from scipy import optimize, stats

import probclass_core as pc
from probclass_core.errors import DataError, SpecError
from probclass_core.testing.suite import Column, EstimatorLaws, counts, numbers
from probclass_core.testing.trial import Interval

ESTIMATORS = {kind.name: kind for kind in probclass_distributions.probclass_estimators()}


class Laws(EstimatorLaws):
    examples = 5


def two(column: Column) -> Mapping[str, Column]:
    return {"x": column, "y": column}


class TestExponential(Laws):
    estimator = ESTIMATORS["exponential"]
    columns = two(numbers(at_least=0.0))


class TestGamma(Laws):
    estimator = ESTIMATORS["gamma"]
    columns = two(numbers(at_least=0.125))
    options = ({}, {"spread_floor": 0.5})


class TestLogNormal(Laws):
    estimator = ESTIMATORS["log_normal"]
    columns = two(numbers(at_least=0.125))


class TestBeta(Laws):
    estimator = ESTIMATORS["beta"]
    columns = two(numbers(at_least=0.125, at_most=0.875))


class TestNegativeBinomial(Laws):
    estimator = ESTIMATORS["negative_binomial"]
    columns = two(counts())


class TestVonMises(Laws):
    estimator = ESTIMATORS["von_mises"]
    columns = two(numbers(at_least=0.0, at_most=24.0, space=Interval(0.0, 24.0)))
    options = ({"period": 24},)


class TestZeroInflated(Laws):
    estimator = ESTIMATORS["zero_inflated"]
    columns = two(numbers(at_least=0.0, space=Interval(atoms=(0.0,))))
    options = tuple({"density": density} for density in ("gamma", "log_normal", "exponential"))


def fitted(name: str, data: Any, columns: str = "x", **options: Any) -> pc.Model:
    on_scarce = options.pop("on_scarce", "pool")
    with pc.trying(*ESTIMATORS.values()):
        block = pc.Block(name, list(columns), **options)
        return pc.fit(data, pc.ModelSpec("c", [block], on_scarce=on_scarce))


def two_classes(a: np.ndarray, b: np.ndarray) -> dict[str, Any]:
    return {"x": np.concatenate([a, b]), "c": np.repeat(["a", "b"], [len(a), len(b)])}


def densities(model: pc.Model, x: np.ndarray) -> np.ndarray:
    with pc.trying(*ESTIMATORS.values()):
        return model.log_likelihood_by_block({"x": x})[:, :, 0]


def parameters(model: pc.Model) -> list[dict[str, float]]:
    (table,) = model.parameters.values()
    return table.to_pylist()


RNG = np.random.default_rng(8)
SAMPLES = {
    "exponential": RNG.exponential(3.0, 400),
    "gamma": RNG.gamma(2.5, 3.0, 400),
    "log_normal": RNG.lognormal(1.0, 0.7, 400),
    "beta": RNG.beta(0.7, 2.5, 400),
    "von_mises": RNG.vonmises(1.0, 2.0, 400),
}
PEERS = {
    "exponential": (stats.expon, {"floc": 0.0}),
    "gamma": (stats.gamma, {"floc": 0.0}),
    "log_normal": (stats.lognorm, {"floc": 0.0}),
    "beta": (stats.beta, {"floc": 0.0, "fscale": 1.0}),
    "von_mises": (stats.vonmises, {"fscale": 1.0}),
}


@pytest.mark.parametrize("name", PEERS)
def test_densities_equal_those_that_scipy_fits(name: str) -> None:
    family, fixed = PEERS[name]
    sample = SAMPLES[name]
    model = fitted(name, two_classes(sample[:150], sample[150:]))
    for column, rows in enumerate((sample[:150], sample[150:])):
        peer = family(*family.fit(rows, **fixed))
        values = densities(model, sample)[:, column]
        np.testing.assert_allclose(values, peer.logpdf(sample), rtol=1e-4, atol=1e-4)
        own = densities(model, rows)[:, column].sum()
        assert own >= peer.logpdf(rows).sum() - 1e-6  # at least as likely as SciPy's fit


def test_negative_binomial_has_the_largest_likelihood() -> None:
    rng = np.random.default_rng(9)
    wide, narrow = rng.negative_binomial(1.5, 0.1, 300), rng.binomial(20, 0.9, 300)
    model = fitted("negative_binomial", two_classes(wide.astype(float), narrow.astype(float)))

    def loss(logs: np.ndarray) -> float:
        shape, mean = np.exp(logs)
        return -float(stats.nbinom.logpmf(wide, shape, shape / (shape + mean)).sum())

    best = optimize.minimize(loss, [0.0, 2.0], method="Nelder-Mead", options={"xatol": 1e-9})
    first, second = parameters(model)
    assert (first["shape"], first["mean"]) == pytest.approx(np.exp(best.x), rel=1e-4)
    peer = stats.nbinom(first["shape"], first["shape"] / (first["shape"] + first["mean"]))
    x = np.arange(200.0)
    np.testing.assert_allclose(densities(model, x)[:, 0], peer.logpmf(x), rtol=1e-9)
    # Less variance than a Poisson distribution: that distribution.
    poisson = stats.poisson(second["mean"]).logpmf(x[:40])
    np.testing.assert_allclose(densities(model, x[:40])[:, 1], poisson, rtol=1e-4, atol=1e-4)


def test_von_mises_takes_any_period_and_every_angle() -> None:
    hours = np.array([23.0, 0.5, 1.0, 22.5, 11.0, 13.5, 12.0])
    by_hour = two_classes(hours[:4], hours[4:])
    by_degree = {**by_hour, "x": by_hour["x"] * 15.0}
    model = fitted("von_mises", by_hour, period=24)
    other = fitted("von_mises", by_degree, period=360)
    assert parameters(model)[0]["direction"] == pytest.approx(23.75)
    assert parameters(other)[0]["direction"] == pytest.approx(23.75 * 15.0)
    shifted = [densities(model, hours + turns * 24.0) for turns in (0, 1, -3)]
    for turned in shifted[1:]:
        np.testing.assert_allclose(turned, shifted[0], rtol=1e-9)
    np.testing.assert_allclose(
        densities(other, hours * 15.0) + math.log(15.0), shifted[0], rtol=1e-9
    )


def test_zero_inflated_is_a_probability_of_zero_and_a_density_of_the_rest() -> None:
    rain = np.concatenate([np.zeros(30), SAMPLES["gamma"][:70]])
    model = fitted("zero_inflated", two_classes(rain, rain[20:]), pseudo_count=0)
    assert [row["zero_probability"] for row in parameters(model)] == pytest.approx([0.3, 10 / 80])
    peer = stats.gamma(*stats.gamma.fit(SAMPLES["gamma"][:70], floc=0.0))
    expected = [math.log(0.3), math.log(0.7) + peer.logpdf(4.0)]
    np.testing.assert_allclose(densities(model, np.array([0.0, 4.0]))[:, 0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["gamma", "log_normal", "beta", "von_mises"])
@pytest.mark.parametrize("width", [1e-4, 3e-6, 1e-9])
def test_narrow_densities_keep_their_digits(name: str, width: float) -> None:
    """About a value of 0.4, all of these densities are normal with the same variance."""
    values = 0.4 + width * np.random.default_rng(5).normal(size=300)
    model = fitted(name, two_classes(values, values + width), spread_floor=0)
    points = 0.4 + width * np.array([-2.0, 0.0, 1.0])
    peer = stats.norm(values.mean(), max(values.std(), 0.4e-6)).logpdf(points)
    if width > 1e-8:  # narrower ones have the least spread
        np.testing.assert_allclose(densities(model, points)[:, 0], peer, atol=5.0 * width + 1e-3)
    assert np.isfinite(densities(model, points)[:, 0]).all()


WRONG = {
    "exponential": ([-1.0], "1 value that exponential does not model, such as -1"),
    "gamma": ([0.0, 0.0], "2 values that gamma does not model, such as 0"),
    "log_normal": ([-3.5], "numbers above 0"),
    "beta": ([1.0], "numbers above 0 and below 1"),
    "negative_binomial": ([1.5], "such as 1.5: it models whole numbers of at least 0"),
    "zero_inflated": ([-2.0], "numbers of at least 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_values_outside_the_support_are_refused_in_training_and_impossible_after(name: str) -> None:
    values, words = WRONG[name]
    good = [1.0, 2.0, 1.0, 3.0] if name == "negative_binomial" else [0.5, 0.25, 0.3, 0.6]
    rows = {"x": good, "c": list("aabb")}
    with pytest.raises(DataError, match="column 'x' has") as refused:
        fitted(name, {"x": good + values, "c": list("aabb") + ["a"] * len(values)})
    assert words in str(refused.value)
    assert (densities(fitted(name, rows), np.array(values)) == -np.inf).all()


CONSTANT = {"x": [3.0, 3.0, 3.0, 1.0, 2.0, 4.0], "c": list("aaabbb")}
SINGLE = {"x": [3.0, 1.0, 2.0, 4.0], "c": list("abbb")}
MISSING = {"x": [None, 1.0, 2.0, 4.0], "c": list("abbb")}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_scarce_classes_get_a_finite_density_and_a_note(name: str) -> None:
    scale = 0.1 if name == "beta" else 1.0
    points = scale * np.array([1.0, 3.0, 4.0])
    for data, words in ((CONSTANT, None), (SINGLE, None), (MISSING, "has no value of column 'x'")):
        scaled = {**data, "x": [None if x is None else scale * x for x in data["x"]]}
        model = fitted(name, scaled)
        assert np.isfinite(densities(model, points)).all()
        if words:
            assert words in " ".join(model.training["notes"])
            with pytest.raises(DataError, match="class 'a' has no value of column 'x'"):
                fitted(name, scaled, on_scarce="error")
    empty = {**MISSING, "x": pa.nulls(4, pa.float64())}
    assert not densities(fitted(name, empty), points).any()
    with pytest.raises(DataError, match="column 'x' has no value"):
        fitted(name, empty, on_scarce="error")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in ("exponential", "gamma", "log_normal")),
        *(("zero_inflated", {"density": name}) for name in ("exponential", "gamma", "log_normal")),
    ],
)
def test_a_model_of_values_whose_squares_leave_float64_is_saved_and_loaded(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    wide = {"x": [1e-300, 1e-5, 1e300, 1e299, 1e280, 3e300], "c": list("aaabbb")}
    model = fitted(name, wide, **options)
    points = np.array([1e-200, 1.0, 1e250])
    with pc.trying(*ESTIMATORS.values()):
        model.save(tmp_path / "model")
        loaded = densities(pc.load(tmp_path / "model"), points)
    np.testing.assert_array_equal(loaded, densities(model, points))
    assert not np.isnan(loaded).any()


def test_a_class_of_one_row_has_the_spread_of_the_others() -> None:
    model = fitted("gamma", SINGLE)
    first, second = parameters(model)
    assert first["shape"] == pytest.approx(second["shape"])
    assert "too few values for a spread" in " ".join(model.training["notes"])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("von_mises", {"period": 0}, "period must be"),
        ("zero_inflated", {"density": "normal"}, "density must be one of 'exponential', 'gamma'"),
        ("gamma", {"spread_floor": -1}, "spread_floor must be"),
        ("exponential", {"rate": 2}, "rate"),
    ],
)
def test_invalid_options_are_refused(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        fitted(name, CONSTANT, **options)


def test_a_model_explains_and_compares_its_columns() -> None:
    rows = {
        "x": SAMPLES["gamma"][:80],
        "y": SAMPLES["log_normal"][:80],
        "c": ["a"] * 40 + ["b"] * 40,
    }
    model = fitted("gamma", rows, "xy")
    later = fitted("gamma", {**rows, "x": rows["x"] * 2.0}, "xy")
    with pc.trying(*ESTIMATORS.values()):
        explanation = pc.explain(model, {"x": [4.0], "y": [2.0]})
        drift = pc.drift(model, later)
    assert {"x", "y"} <= set(explanation.table["item"].to_pylist())
    divergence = {
        (row["class"], row["feature"]): row["divergence"] for row in drift.features.to_pylist()
    }
    assert divergence["a", "x"] > 0.05
    assert divergence["a", "y"] == pytest.approx(0.0, abs=1e-6)


def test_the_example_of_the_readme_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == printed


def test_large_counts_of_a_poisson_class_keep_their_digits() -> None:
    counts = np.array([1048576.0, 1048576.0])
    model = fitted("negative_binomial", two_classes(counts, np.array([0.0, 3.0])))
    points = 1048576.0 + np.arange(-6000.0, 6000.0)
    logs = densities(model, points)[:, 0]
    np.testing.assert_allclose(logs, stats.poisson.logpmf(points, counts[0]), atol=1e-4)
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-6)
