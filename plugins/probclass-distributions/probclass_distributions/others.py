"""Beta for shares, negative binomial for counts, von Mises for angles and times of day."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import optimize, special

import probclass_core as pc
from probclass_core.authoring import (
    ABOVE_0,
    BELOW_1,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    Counts,
    FloatArray,
    HistogramDensity,
    SpreadOptions,
    Terms,
    number,
)
from probclass_distributions.special import concentration, log1p_minus, log_minus, stirling_rest

_NARROW = 1e-7
"""Spread below which a beta density is fitted by its moments, which differ only by rounding."""

_EXACT_BITS = 16
_LEAST_SHAPE, _LARGEST_SHAPE = 1e-8, 1e6
_LARGE = 1e3


class Beta(pc.Density):
    """Shares: f(x) = x^(a−1) (1 − x)^(b−1) / B(a, b) for 0 < x < 1, by Newton's method."""

    name = "beta"
    support = (ABOVE_0, BELOW_1)
    parameters = {"a": POSITIVE, "b": POSITIVE}
    Options = SpreadOptions

    def terms(self, x: Any) -> Mapping[str, Any]:
        return {"x": x, "log_x": np.log(x), "log_rest": np.log1p(-x)}

    def spread(self, m: Terms) -> FloatArray:
        """Variance as a fraction of μ (1 − μ), the largest that a share of this mean can have."""
        fraction = m.x.scatter / m.x.count / (m.x.mean * (1.0 - m.x.mean))
        return np.clip(fraction, 0.0, 1.0)

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        own, size = self.spread(m), np.maximum(1.0 / m.spread - 1.0, 1e-3)
        a, b = m.x.mean * size, (1.0 - m.x.mean) * size
        # A class whose spread was raised to the floor keeps the moments, too.
        likely = (own > _NARROW) & (own >= m.spread)
        logs = m.log_x.mean[likely], m.log_rest.mean[likely]
        a[likely], b[likely] = _likeliest_beta(*logs, a[likely], b[likely])
        return {"a": a, "b": b}

    def log_density(self, x: Any, p: Any) -> Any:
        # The kernel is −(a + b) KL(mean ‖ x), whose terms of first order cancel exactly.
        size, log_x, log_rest = p.a + p.b, np.log(x), np.log1p(-x)
        kernel = p.a * log_minus(x, log_x, p.a / size)
        kernel = kernel + p.b * log_minus(1.0 - x, log_rest, p.b / size)
        constant = stirling_rest(p.a) + stirling_rest(p.b) - stirling_rest(size)
        return kernel + constant - log_x - log_rest


def _likeliest_beta(
    log_x: FloatArray, log_rest: FloatArray, a: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Maximum likelihood of a beta density from E[log x] and E[log (1 − x)], by Newton's method.

    The log-likelihood is concave in (a, b); a step that would leave the positive numbers is halved
    on a logarithmic scale.
    """
    for _ in range(100):
        slope_a = special.digamma(a + b) - special.digamma(a) + log_x
        slope_b = special.digamma(a + b) - special.digamma(b) + log_rest
        common = special.polygamma(1, a + b)
        own_a, own_b = special.polygamma(1, a), special.polygamma(1, b)
        determinant = own_a * own_b - common * (own_a + own_b)
        step_a = ((own_b - common) * slope_a + common * slope_b) / determinant
        step_b = (common * slope_a + (own_a - common) * slope_b) / determinant
        a = np.maximum(np.minimum(a + step_a, 4.0 * a), 0.25 * a)
        b = np.maximum(np.minimum(b + step_b, 4.0 * b), 0.25 * b)
    return a, b


class VonMises(pc.Density):
    """Angles: f(x) = exp(κ cos 2π(x − m)/P) / (P I₀(κ)), with direction m and period P.

    All numbers are angles: x and x + P are the same. The density integrates to 1 over one period,
    in the unit of the column.
    """

    name = "von_mises"
    parameters = {"direction": FINITE, "concentration": NOT_NEGATIVE}

    class Options(SpreadOptions):
        """Options of `VonMises`."""

        period: float = number(
            2.0 * math.pi,
            at_least=1e-100,
            doc="The period: 2π for radians, 360 for degrees, 24 for hours of the day.",
        )

    options: Options

    @property
    def span(self) -> tuple[float, float]:  # type: ignore[override]  # not settable
        """One period."""
        return 0.0, self.options.period

    def _angle(self, x: Any) -> Any:
        """Values in radians, between −2π and 2π. A remainder is exact, which SQL's is not."""
        return np.fmod(x, self.options.period) * (2.0 * math.pi / self.options.period)

    def terms(self, x: Any) -> Mapping[str, Any]:
        return {"cos": np.cos(self._angle(x)), "sin": np.sin(self._angle(x))}

    def spread(self, m: Terms) -> FloatArray:
        """1 − R, the circular variance: from Σ (cos − mean)² + Σ (sin − mean)² = n (1 − R²)."""
        resultant = np.minimum(np.hypot(m.cos.mean, m.sin.mean), 1.0)
        spread = (m.cos.scatter + m.sin.scatter) / m.cos.count / (1.0 + resultant)
        return np.clip(spread, 0.0, 1.0)

    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        turn = np.arctan2(m.sin.mean, m.cos.mean) / (2.0 * math.pi)
        # If the resultant is 0, no direction is defined; rounding must not choose one.
        even = m.spread > 1.0 - 1e-12
        direction = np.where(even, 0.0, np.mod(turn, 1.0) * self.options.period)
        return {
            "direction": direction,
            "concentration": np.where(even, 0.0, concentration(m.spread)),
        }

    def log_density(self, x: Any, p: Any) -> Any:
        half = 0.5 * (self._angle(x) - self._angle(p.direction))
        scale = np.log(special.i0e(p.concentration)) + math.log(self.options.period)
        return -2.0 * p.concentration * np.square(np.sin(half)) - scale


class NegativeBinomial(HistogramDensity):
    """Counts that vary more than Poisson's: mean μ and shape r, variance μ + μ² / r.

    p(x) = Γ(x + r) / (Γ(r) x!) · (r / (r + μ))^r · (μ / (r + μ))^x. The mean is that of the rows; r
    maximizes the likelihood. If the rows vary no more than a Poisson distribution, r is so large
    that the distribution is one. A class without any event has the mean of half an event in all its
    rows. Counts above 65,536 are rounded to 16 binary digits before they are fitted.
    """

    name = "negative_binomial"
    support = (0.0, 2.0**53)
    whole = True
    cells = math.inf
    parameters = {"mean": POSITIVE, "shape": POSITIVE}

    def rounded(self, x: FloatArray) -> FloatArray:
        _, exponents = np.frexp(x)
        fine = np.exp2(np.maximum(exponents - _EXACT_BITS, 0))
        nearest: FloatArray = np.rint(x / fine) * fine
        return nearest

    def estimate(self, h: Counts) -> Mapping[str, FloatArray]:
        return dict(zip(self.parameters, h.each(_likeliest_negative_binomial), strict=True))

    def log_density(self, x: Any, p: Any) -> Any:
        # As a binomial probability in the form of Loader (2000), whose terms do not cancel.
        some, size = np.maximum(x, 1.0), p.shape + p.mean
        up, down = (some - p.mean) / size, -(p.shape / size) * (some - p.mean) / some
        far = np.log(p.mean / size) + np.log1p(p.shape / some) - down
        of_x = np.where(down < -0.5, far, log1p_minus(np.maximum(down, -0.5)))
        constant = stirling_rest(p.shape) + stirling_rest(some) - stirling_rest(some + p.shape)
        above_0 = p.shape * log1p_minus(up) + some * of_x + constant - np.log(some)
        return np.where(x > 0.0, above_0, -p.shape * np.log1p(p.mean / p.shape))


def _likeliest_negative_binomial(values: FloatArray, count: FloatArray) -> tuple[float, float]:
    """Mean and shape of the rows of a table of counts.

    The derivative of the log-likelihood by the shape has one root if the variance exceeds the mean
    (Levin and Reeds, "Compound multinomial likelihood functions are unimodal", 1977).

    Args:
        values: numbers of events.
        count: Σ w of each.
    """
    rows, total = count.sum(), count @ values
    mean = max(total, 0.5) / rows

    def slope(log_shape: float) -> float:
        """Derivative by the shape; Σ (ψ(x + r) − ψ(r)) keeps its digits for a large r."""
        r = math.exp(log_shape)
        if r < _LARGE:
            rises = special.digamma(values + r) - special.digamma(r)
        else:
            sums = values + r
            rises = np.log1p(values / r) + values / (2.0 * r * sums)
            rises += values * (r + sums) / (12.0 * (r * sums) ** 2)
        return float(count @ rises - rows * np.log1p(mean / r))

    low, high = math.log(_LEAST_SHAPE), math.log(_LARGEST_SHAPE * max(mean, 1.0))
    if not total or slope(high) >= 0.0:
        return mean, math.exp(high)
    if slope(low) <= 0.0:
        return mean, _LEAST_SHAPE
    return mean, math.exp(optimize.brentq(slope, low, high, xtol=1e-13, rtol=1e-13))
