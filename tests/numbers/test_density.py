"""A density that an author writes as NumPy: every route gives the same numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from model_values import left_out
from scipy import stats

import probclass_core as pc
from probclass_core.authoring import (
    ABOVE_0,
    FINITE,
    POSITIVE,
    PROBABILITY,
    Counts,
    FloatArray,
    HistogramDensity,
    SpreadOptions,
    Terms,
    number,
)
from probclass_core.errors import DataError, NotSupportedError
from probclass_core.testing.laws import masses_sum_to_1
from probclass_core.testing.suite import EstimatorLaws, numbers
from probclass_core.testing.trial import COUNTS, LABEL, Trial

RNG = np.random.default_rng(7)


class Exponential(pc.Density):
    """Waiting times: f(x | c) = λ exp(−λx), x ≥ 0."""

    name = "exponential"
    support = (0.0, math.inf)
    parameters = {"rate": POSITIVE}

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        return {"rate": 1.0 / m.x.mean}

    def log_density(self, x: Any, p: Any) -> Any:
        return np.log(p.rate) - p.rate * x


class Normal(pc.Density):
    """A normal; its evidence is that of the plug-in density, for the test."""

    name = "normal"
    parameters = {"mean": FINITE, "variance": POSITIVE}

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        return {"mean": m.x.mean, "variance": m.x.scatter / m.x.count}

    def log_density(self, x: Any, p: Any) -> Any:
        squares = np.square(x - p.mean) / p.variance
        return -0.5 * (np.log(2.0 * np.pi * p.variance) + squares)

    def evidence(self, m: Terms) -> FloatArray:
        return -0.5 * m.x.count


class LogNormal(pc.Density):
    """A normal of logarithms, whose narrow classes have a floor."""

    name = "log_normal"
    support = (ABOVE_0, math.inf)
    parameters = {"log_mean": FINITE, "log_variance": POSITIVE}
    Options = SpreadOptions

    def terms(self, x: Any) -> Mapping[str, Any]:
        return {"log_x": np.log(x)}

    def spread(self, m: Terms) -> FloatArray:
        return m.log_x.scatter / m.log_x.count

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        return {"log_mean": m.log_x.mean, "log_variance": m.spread}

    def log_density(self, x: Any, p: Any) -> Any:
        squares = np.square(np.log(x) - p.log_mean) / p.log_variance
        return -0.5 * (np.log(2.0 * np.pi * p.log_variance) + squares) - np.log(x)


SAMPLES = {
    Exponential: lambda codes: RNG.exponential(1.0 + codes),
    Normal: lambda codes: RNG.normal(codes, 1.0 + codes),
    LogNormal: lambda codes: RNG.lognormal(codes, 0.5),
}
PEERS = {
    Exponential: lambda p: stats.expon(scale=1.0 / p["rate"]),
    Normal: lambda p: stats.norm(p["mean"], math.sqrt(p["variance"])),
    LogNormal: lambda p: stats.lognorm(math.sqrt(p["log_variance"]), scale=math.exp(p["log_mean"])),
}


def sample(density: type[pc.Density], rows: int = 600) -> pa.Table:
    codes = RNG.integers(0, 3, rows)
    x = SAMPLES[density](codes)
    x[::50] = np.nan
    return pa.table({"x": pa.array(x, from_pandas=True), "c": np.array(list("abc"))[codes]})


def spec(density: type[pc.Density], **options: Any) -> pc.ModelSpec:
    return pc.ModelSpec("c", [pc.Block(density.name, ["x"], **options)])


def scores(model: pc.Model, table: Any) -> np.ndarray:
    return model.log_likelihood_by_block(table)[:, :, 0]


@pytest.fixture(params=SAMPLES, ids=lambda kind: kind.name)
def density(request: pytest.FixtureRequest) -> type[pc.Density]:
    kind: type[pc.Density] = request.param
    return kind


def test_scores_are_scipys_and_the_marginal_is_the_density(density: type[pc.Density]) -> None:
    table = sample(density)
    with pc.trying(density):
        model = pc.fit(table, spec(density))
        scored = scores(model, table)
        (likelihood,) = model.likelihoods.values()
    x = table["x"].to_numpy()
    known = ~np.isnan(x)
    assert not scored[~known].any()
    for column, p in enumerate(model.parameters[density.name].to_pylist()):
        expected = PEERS[density](p).logpdf(x[known])
        np.testing.assert_allclose(scored[known, column], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(likelihood.marginal("x").log_density(x), scored)


def test_a_row_left_out_is_a_fit_without_it(density: type[pc.Density]) -> None:
    table = sample(density, 60)
    with pc.trying(density):
        left = left_out(pc.fit(table, spec(density)), table)
        for row in range(1, 60):
            others = table.take(pa.array(np.delete(np.arange(60), row)))
            alone = scores(pc.fit(others, spec(density)), table.slice(row, 1))
            own = "abc".index(table["c"][row].as_py())
            assert left[row, own] == pytest.approx(alone[0, own], rel=1e-9, abs=1e-9)


def test_values_outside_the_support_are_impossible_and_refused_in_training() -> None:
    table = sample(Exponential)
    with pc.trying(Exponential):
        model = pc.fit(table, spec(Exponential))
        assert (scores(model, {"x": [-1.0]}) == -np.inf).all()
        with pytest.raises(DataError, match=r"column 'x' has 2 values .* such as -1: .* least 0"):
            pc.fit({"x": [-1.0, -2.0, 1.0], "c": list("aab")}, spec(Exponential))


SCARCE = {"x": [0.0, 0.0, 1.0, 3.0, None], "c": list("aabbd")}


def test_a_class_without_an_estimate_has_the_density_of_all_and_a_note() -> None:
    with pc.trying(Exponential):
        model = pc.fit(SCARCE, spec(Exponential))
        assert model.parameters["exponential"]["rate"].to_pylist() == [1.0, 0.5, 1.0]
        instead = "of column 'x': the density there is that of all classes."
        lacks = [f"class 'd' has no value {instead}"]
        lacks.append(f"class 'a' has too few different values {instead}")
        assert model.training["notes"] == lacks
        strict = pc.ModelSpec("c", [pc.Block("exponential", ["x"])], on_scarce="error")
        with pytest.raises(DataError, match="class 'd' has no value of column 'x': the density"):
            pc.fit(SCARCE, strict)
        none = pc.fit({"x": [0.0, 0.0], "c": list("ab")}, spec(Exponential))
        assert "column 'x' has no value" in none.training["notes"][0]
        assert not scores(none, {"x": [1.0, -1.0]}).any()


def test_a_narrow_class_has_the_floor_of_its_spread() -> None:
    rows = {"x": [2.0, 2.0, 2.0, 1.0, math.e**2], "c": list("aaabb")}
    with pc.trying(LogNormal):
        for floor in (0.005, 0.5):
            model = pc.fit(rows, spec(LogNormal, spread_floor=floor))
            variances = model.parameters["log_normal"]["log_variance"].to_pylist()
            assert variances == pytest.approx([floor, 1.0])


def test_another_pass_has_the_options_that_the_moments_say() -> None:
    class Trimmed(Exponential):
        """Exponential times without outliers."""

        name = "trimmed"
        passes = 2

        class Options(Exponential.Options):
            """Options of `Trimmed`."""

            at_most: float = number(math.inf, doc="Ignore times above this.")

        options: Options

        def terms(self, x: Any) -> Mapping[str, Any]:
            return {"x": np.where(x <= self.options.at_most, x, np.nan)}

        def next_pass(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
            means = {name: m.x.mean @ m.x.count / m.x.count.sum() for name, m in columns.items()}
            return {"at_most": 3.0 * means["x"]}

    rows = {"x": [1.0, 2.0, 1.5, 2.5, 2.0, 90.0], "c": list("aaabbb")}
    with pc.trying(Trimmed):
        model = pc.fit(rows, spec(Trimmed))
    assert model.training["passes"] == 2
    assert model.parameters["trimmed"]["rate"].to_pylist() == pytest.approx([1 / 1.5, 1 / 2.25])


def test_a_function_without_sql_is_named_and_only_sql_is_refused() -> None:
    class Angle(Normal):
        """A normal of remainders."""

        name = "angle"

        def log_density(self, x: Any, p: Any) -> Any:
            return super().log_density(np.fmod(x, 360.0), p)

    table = sample(Normal)
    with pc.trying(Angle):
        model = pc.fit(table, spec(Angle))
        assert np.isfinite(scores(model, table)).all()
        with pytest.raises(NotSupportedError, match="the function fmod has no SQL"):
            model.to_sql(dialect="duckdb", source="rows")


@pytest.mark.parametrize(
    ("of_arrays_only", "named"),
    [
        (lambda x, p: -p.rate * x.copy(), "copy"),
        (lambda x, p: -p.rate * np.power(x, 1.5), r"write another power as exp\(b \* log\(a\)\)"),
        (lambda x, p: stats.expon.logpdf(x, scale=1.0 / p.rate), "write numpy.where"),
    ],
)
def test_what_only_arrays_can_is_refused_by_sql_alone(of_arrays_only: Any, named: str) -> None:
    class OfArrays(Exponential):
        """What an array has and a column of a query lacks."""

        name = "of_arrays"

        def log_density(self, x: Any, p: Any) -> Any:
            return of_arrays_only(x, p)

    table = sample(Exponential)
    with pc.trying(OfArrays):
        model = pc.fit(table, spec(OfArrays))
        assert np.isfinite(scores(model, table)).all()
        with pytest.raises(NotSupportedError, match=named):
            model.to_sql(dialect="duckdb", source="rows")


def test_comparisons_and_absolute_values_have_sql() -> None:
    class ZeroInflated(pc.Density):
        """Zero more often than a geometric number is; far numbers are impossible in some."""

        name = "zero_inflated"
        support = (0.0, math.inf)
        whole = True
        parameters = {"zero": PROBABILITY, "mean": POSITIVE}

        def terms(self, x: Any) -> Mapping[str, Any]:
            return {"x": x, "is_zero": x == 0}

        def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
            return {"zero": m.is_zero.mean, "mean": m.x.mean}

        def log_density(self, x: Any, p: Any) -> Any:
            more = np.log1p(-p.zero) - np.log(p.mean) + (x - 1.0) * np.log1p(-1.0 / p.mean)
            usual = np.where(x == 0, np.log(p.zero), more) - 0.01 * abs(x - 3)
            far = (p.mean < 3.0) & (x > 5) | (x != 7) & (x >= 9)
            return np.where(far, -np.inf, np.where(p.mean > 1e6, 0.0, usual))

    rows = {"x": [0.0, 0, 3, 2, 0, 5, 0, 4, 2, 7, None], "c": list("aabbabbbaab")}
    with pc.trying(ZeroInflated):
        model = pc.fit(rows, spec(ZeroInflated))
        scored = {"x": [0, 1, 5, 6, 7, 8, 9, None]}
        connection = duckdb.connect()
        connection.register("rows", pa.table(scored))
        found = connection.sql(model.to_sql(dialect="duckdb", source="rows")).fetchnumpy()
        expected = model.predict_table(scored)
    for name in ("p_a", "log_density"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)


def test_the_masses_of_a_column_that_the_model_leaves_out_are_not_added_up() -> None:
    class Shifted(pc.Density):
        """Counts whose mean is above 0."""

        name = "shifted"
        support = (0.0, math.inf)
        whole = True
        parameters = {"mean": POSITIVE}

        def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
            return {"mean": m.x.mean}

        def log_density(self, x: Any, p: Any) -> Any:
            return x * np.log(p.mean) - (x + 1.0) * np.log1p(p.mean)

    zeros = pa.table({LABEL: ["a", "b"], "x": [0.0, 0.0]})
    masses_sum_to_1(Trial(Shifted, ["x"], spaces={"x": COUNTS}), table=zeros)


class Laplace(HistogramDensity):
    """f(x | c) = exp(−|x − m| / b) / 2b, with the median m and the mean distance b from it."""

    name = "laplace"
    parameters = {"median": FINITE, "scale": POSITIVE}

    def estimate(self, h: Counts) -> Mapping[str, FloatArray]:
        median = h.quantile(0.5)
        return {"median": median, "scale": h.mean(np.abs(h.values - median[:, None]))}

    def log_density(self, x: Any, p: Any) -> Any:
        return -np.log(2.0 * p.scale) - np.absolute(x - p.median) / p.scale


class TestLaplace(EstimatorLaws):
    """A density by a histogram obeys the laws."""

    estimator = Laplace
    columns: ClassVar = {"x": numbers(), "y": numbers()}
    examples = 3


@pytest.mark.parametrize(("rows", "error"), [(999, 1e-12), (20_001, 1e-3)])
def test_a_density_by_a_histogram_is_that_of_scipy(rows: int, error: float) -> None:
    x, label = RNG.laplace(3.0, 2.0, 2 * rows), np.repeat(["a", "b"], rows)
    with pc.trying(Laplace):
        model = pc.fit({"x": x, "c": label}, spec(Laplace))
        scored = scores(model, {"x": [2.0, 9.0]})
    for column, own in enumerate((x[:rows], x[rows:])):
        peer = stats.laplace(*stats.laplace.fit(own))
        np.testing.assert_allclose(scored[:, column], peer.logpdf([2.0, 9.0]), atol=5.0 * error)
