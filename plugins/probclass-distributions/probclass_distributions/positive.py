"""Distributions of positive numbers: exponential, gamma, log-normal; and zero-inflated ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pa_compute

from probclass_core.authoring import (
    IMPOSSIBLE,
    PROBABILITY,
    BoolArray,
    Case,
    Column,
    Distance,
    Expression,
    FloatArray,
    Moments,
    as_expression,
    choice,
    ln,
    number,
    positive,
    square,
)
from probclass_distributions.base import Estimates, FromMoments, SpreadOptions, Terms
from probclass_distributions.special import (
    gamma_shape,
    log_minus,
    log_minus_formula,
    stirling_rest,
)

_NARROW = 1e-6
"""Variance of log x below which log E[x] − E[log x] comes from moments, without cancellation."""


class Exponential(FromMoments):
    """Waiting times: f(x) = exp(−x / μ) / μ for x ≥ 0, with the mean μ of the class.

    If all values of a class are 0, the mean is a thousandth of that of all classes.
    """

    name = "exponential"
    support = "numbers of at least 0"
    terms = ("x",)
    estimates = ("mean", "variance")

    def has_density(self, values: FloatArray) -> BoolArray:
        inside: BoolArray = values >= 0.0
        return inside

    def terms_of(self, values: FloatArray) -> Terms:
        return {"x": values}

    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        own = moments["x"]
        with np.errstate(over="ignore"):
            of_all = own.count / own.count.sum() @ own.mean
        mean = np.where(own.mean > 0.0, own.mean, 1e-3 * of_all if of_all > 0.0 else 1.0)
        return {"mean": mean, "variance": _square(mean)}

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        mean = estimates["mean"]
        with np.errstate(over="ignore"):
            log_density: FloatArray = -np.log(mean) - values / mean
        return log_density

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        mean = estimates["mean"]
        waited = Distance(x, np.zeros_like(mean), np.minimum(1.0 / mean, 1e308), limit=1e304)
        return Case([(x < 0.0, IMPOSSIBLE)], -np.log(mean) - waited)


class Gamma(FromMoments):
    """Amounts above 0: f(x) = x^(a−1) exp(−x / θ) / (Γ(a) θ^a), with shape a and scale θ.

    The mean is a θ; log a − ψ(a) = log E[x] − E[log x], solved by Newton's method.
    """

    name = "gamma"
    Options = SpreadOptions
    options: SpreadOptions
    support = "numbers above 0"
    terms = ("x", "log x")
    estimates = ("mean", "variance", "shape", "scale")

    def has_density(self, values: FloatArray) -> BoolArray:
        inside: BoolArray = values > 0.0
        return inside

    def terms_of(self, values: FloatArray) -> Terms:
        return {"x": values, "log x": np.log(values)}

    def spread(self, moments: Mapping[str, Moments]) -> FloatArray:
        """log E[x] − E[log x]; for a narrow density half of its squared relative width."""
        x, logs = moments["x"], moments["log x"]
        count = np.where(x.count > 0.0, x.count, 1.0)
        mean = np.where(x.mean > 0.0, x.mean, 1.0)
        variance = logs.scatter / count
        with np.errstate(over="ignore", invalid="ignore"):
            relative = np.log1p(x.scatter / count / mean / mean)
            narrow = (2.0 * variance + relative) / 6.0
        gap = np.maximum(np.log(mean) - logs.mean, 0.0)
        return np.where(variance < _NARROW, narrow, gap)

    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        shape, mean = gamma_shape(spread), moments["x"].mean
        variance = _square(mean / np.sqrt(shape))
        return {"mean": mean, "variance": variance, "shape": shape, "scale": mean / shape}

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        shape, mean = estimates["shape"], estimates["mean"]
        logs = np.log(values)
        with np.errstate(over="ignore"):
            kernel = shape * log_minus(values, logs, mean, float(shape.max()))
        log_density: FloatArray = kernel + stirling_rest(shape) - logs
        return log_density

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        shape, mean = estimates["shape"], estimates["mean"]
        kernel = shape * log_minus_formula(x, mean)
        return Case([(x <= 0.0, IMPOSSIBLE)], kernel + stirling_rest(shape) - ln(positive(x)))


class LogNormal(FromMoments):
    """Sizes above 0 whose logarithm is normal, with mean μ and variance σ² of log x."""

    name = "log_normal"
    Options = SpreadOptions
    options: SpreadOptions
    support = "numbers above 0"
    terms = ("log x",)
    estimates = ("mean", "variance", "log_mean", "log_variance")
    may_overflow = ("mean", "variance")

    def has_density(self, values: FloatArray) -> BoolArray:
        inside: BoolArray = values > 0.0
        return inside

    def terms_of(self, values: FloatArray) -> Terms:
        return {"log x": np.log(values)}

    def spread(self, moments: Mapping[str, Moments]) -> FloatArray:
        """The variance of log x."""
        logs = moments["log x"]
        variance: FloatArray = logs.scatter / np.where(logs.count > 0.0, logs.count, 1.0)
        return variance

    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        mu = moments["log x"].mean
        with np.errstate(over="ignore"):
            mean = np.exp(mu + 0.5 * spread)
            variance = np.expm1(spread) * np.exp(2.0 * mu + spread)
        return {"mean": mean, "variance": variance, "log_mean": mu, "log_variance": spread}

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        mu, variance = estimates["log_mean"], estimates["log_variance"]
        logs = np.log(values)
        log_density: FloatArray = (
            -0.5 * np.log(2.0 * np.pi * variance) - 0.5 * (logs - mu) ** 2 / variance - logs
        )
        return log_density

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        mu, variance = estimates["log_mean"], estimates["log_variance"]
        logs = ln(positive(x))
        peak = -0.5 * np.log(2.0 * np.pi * variance)
        density = peak - square((logs - mu) * np.sqrt(0.5 / variance)) - logs
        return Case([(x <= 0.0, IMPOSSIBLE)], density)


_DENSITIES: Mapping[str, type[FromMoments]] = {
    family.name: family for family in (Gamma, LogNormal, Exponential)
}


class ZeroInflated(FromMoments):
    """Amounts that are often exactly 0: P(0) = π, and (1 − π) times a density of the others.

    The likelihood of a 0 is the probability π, that of another value a density.
    """

    name = "zero_inflated"

    class Options(SpreadOptions):
        """Options of `ZeroInflated`."""

        density: str = choice("gamma", tuple(_DENSITIES), doc="The density of the values above 0.")
        pseudo_count: float = number(
            0.5, doc="α, added to the number of zeros and of other values of a class."
        )

    options: Options
    support = "numbers of at least 0"
    terms: Any
    estimates: Any
    OF_ZERO: ClassVar[str] = "x = 0"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        family = _DENSITIES[self.options.density]
        inherited = {key: options[key] for key in family.Options.declared() if key in options}
        self.positive = family(features, inherited)
        self.terms = (self.OF_ZERO, *self.positive.terms)
        inner = (f"positive_{name}" for name in self.positive.estimates)
        self.estimates = ("mean", "variance", "zero_probability", *inner)
        infinite = (f"positive_{name}" for name in self.positive.may_overflow)
        self.may_overflow = ("mean", "variance", *infinite)

    def has_density(self, values: FloatArray) -> BoolArray:
        inside: BoolArray = values >= 0.0
        return inside

    def terms_of(self, values: FloatArray) -> Terms:
        is_zero = np.where(np.isnan(values), np.nan, values == 0.0)
        others = np.where(values > 0.0, values, np.nan)
        return {self.OF_ZERO: is_zero, **self.positive.terms_of(others)}

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        of_zero = pa_compute.equal(statistics["term"], self.OF_ZERO)
        PROBABILITY.check("mean", statistics.filter(of_zero)["mean"])
        self.positive.check_statistics(statistics.filter(pa_compute.invert(of_zero)), classes)

    def spread(self, moments: Mapping[str, Moments]) -> FloatArray:
        return self.positive.spread(moments)

    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        zeros, alpha = moments[self.OF_ZERO], self.options.pseudo_count
        rows = zeros.count + 2.0 * alpha
        share = (zeros.count * zeros.mean + alpha) / rows
        inner = self.positive.fit(moments, spread)
        mean, rest = inner["mean"], 1.0 - share
        with np.errstate(over="ignore"):
            variance = rest * (inner["variance"] + share * _square(mean))
        return {
            "mean": rest * mean,
            "variance": variance,
            "zero_probability": share,
            **{f"positive_{name}": values for name, values in inner.items()},
        }

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        share = estimates["zero_probability"]
        with np.errstate(divide="ignore"):
            of_zero, of_others = np.log(share), np.log1p(-share)
        inner = {name: estimates[f"positive_{name}"] for name in self.positive.estimates}
        positive = self.positive.log_density(np.where(values > 0.0, values, 1.0), inner)
        log_density: FloatArray = np.where(values > 0.0, of_others + positive, of_zero)
        return log_density

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        share = estimates["zero_probability"]
        with np.errstate(divide="ignore"):
            of_zero, of_others = as_expression(np.log(share)), np.log1p(-share)
        inner = {name: estimates[f"positive_{name}"] for name in self.positive.estimates}
        above = of_others + self.positive.formula(x, inner)
        return Case([(x > 0.0, above), (x < 0.0, IMPOSSIBLE)], of_zero)


def _square(values: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        squares: FloatArray = values * values
    return squares
