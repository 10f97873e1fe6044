"""Distributions of positive numbers: exponential, gamma, log-normal; and zero-inflated ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import probclass_core as pc
from probclass_core.authoring import (
    ABOVE_0,
    FINITE,
    POSITIVE,
    PROBABILITY,
    ByName,
    FloatArray,
    Range,
    SpreadOptions,
    Terms,
    choice,
    number,
)
from probclass_distributions.special import gamma_shape, log_minus, stirling_rest

_NARROW = 1e-6
"""Variance of log x below which log E[x] − E[log x] comes from moments, without cancellation."""


class Exponential(pc.Density):
    """Waiting times: f(x) = λ exp(−λx) for x ≥ 0, with the rate λ of the class."""

    name = "exponential"
    support = (0.0, math.inf)
    parameters = {"rate": POSITIVE}

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        return {"rate": 1.0 / m.x.mean}

    def log_density(self, x: Any, p: Any) -> Any:
        return np.log(p.rate) - p.rate * x


class Gamma(pc.Density):
    """Amounts above 0: f(x) = x^(a−1) exp(−x / θ) / (Γ(a) θ^a), with shape a and scale θ.

    log a − ψ(a) = log E[x] − E[log x] is solved by Newton's method.
    """

    name = "gamma"
    support = (ABOVE_0, math.inf)
    parameters = {"shape": POSITIVE, "scale": POSITIVE}
    Options = SpreadOptions

    def terms(self, x: Any) -> Mapping[str, Any]:
        return {"x": x, "log_x": np.log(x)}

    def spread(self, m: Terms) -> FloatArray:
        """log E[x] − E[log x]; for a narrow density half of its squared relative width."""
        variance = m.log_x.scatter / m.log_x.count
        relative = np.log1p(m.x.scatter / m.x.count / np.square(m.x.mean))
        gap = np.maximum(np.log(m.x.mean) - m.log_x.mean, 0.0)
        return np.where(variance < _NARROW, (2.0 * variance + relative) / 6.0, gap)

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        shape = gamma_shape(m.spread)
        return {"shape": shape, "scale": m.x.mean / shape}

    def log_density(self, x: Any, p: Any) -> Any:
        logs = np.log(x)
        kernel = p.shape * log_minus(x, logs, p.shape * p.scale)
        return kernel + stirling_rest(p.shape) - logs


class LogNormal(pc.Density):
    """Sizes above 0 whose logarithm is normal, with mean μ and variance σ² of log x."""

    name = "log_normal"
    support = (ABOVE_0, math.inf)
    parameters = {"log_mean": FINITE, "log_variance": POSITIVE}
    Options = SpreadOptions

    def terms(self, x: Any) -> Mapping[str, Any]:
        return {"log_x": np.log(x)}

    def spread(self, m: Terms) -> FloatArray:
        """The variance of log x."""
        variance: FloatArray = m.log_x.scatter / m.log_x.count
        return variance

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        return {"log_mean": m.log_x.mean, "log_variance": m.spread}

    def log_density(self, x: Any, p: Any) -> Any:
        logs = np.log(x)
        squares = np.square(logs - p.log_mean) / p.log_variance
        return -0.5 * np.log(2.0 * np.pi * p.log_variance) - 0.5 * squares - logs


_DENSITIES: Mapping[str, type[pc.Density]] = {
    family.name: family for family in (Gamma, LogNormal, Exponential)
}


class ZeroInflated(pc.Density):
    """Amounts that are often exactly 0: P(0) = π, and (1 − π) times a density of the others.

    The likelihood of a 0 is the probability π, that of another value a density.
    """

    name = "zero_inflated"
    support = (0.0, math.inf)

    class Options(SpreadOptions):
        """Options of `ZeroInflated`."""

        density: str = choice("gamma", tuple(_DENSITIES), doc="The density of the values above 0.")
        pseudo_count: float = number(
            0.5, doc="α, added to the number of zeros and of other values of a class."
        )

    options: Options

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        self.positive = _DENSITIES[self.options.density](features, {})

    @property
    def parameters(self) -> Mapping[str, Range]:
        positive = self.positive.parameters.items()
        return {"zero_probability": PROBABILITY, **{f"positive_{k}": each for k, each in positive}}

    def terms(self, x: Any) -> Mapping[str, Any]:
        is_zero = np.where(np.isnan(x), np.nan, x == 0.0)
        return {"is_zero": is_zero, **self.positive.terms(np.where(x > 0.0, x, np.nan))}

    def spread(self, m: Terms) -> FloatArray | None:
        return self.positive.spread(m)

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        zeros, alpha = m.is_zero, self.options.pseudo_count
        share = (zeros.count * zeros.mean + alpha) / (zeros.count + 2.0 * alpha)
        positive = self.positive.estimate(m).items()
        return {"zero_probability": share, **{f"positive_{key}": each for key, each in positive}}

    def log_density(self, x: Any, p: Any) -> Any:
        positive = {key: getattr(p, f"positive_{key}") for key in self.positive.parameters}
        above = self.positive.log_density(np.where(x > 0.0, x, 1.0), ByName(positive))
        share = p.zero_probability
        return np.where(x > 0.0, np.log1p(-share) + above, np.log(share))
