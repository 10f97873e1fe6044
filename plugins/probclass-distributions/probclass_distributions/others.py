"""Beta for shares, negative binomial for counts, von Mises for angles and times of day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pa_compute
from scipy import optimize, special

import probclass_core as pc
from probclass_core.authoring import (
    IMPOSSIBLE,
    BoolArray,
    Case,
    Column,
    Expression,
    FloatArray,
    Function,
    Moments,
    as_expression,
    check_row_counts,
    label_codes,
    ln,
    log_gamma,
    log_rising,
    number,
    numeric_column,
    positive,
    sum_counts,
)
from probclass_distributions.base import Distribution, Estimates, FromMoments, SpreadOptions, Terms
from probclass_distributions.special import concentration, log1p_minus, log_minus, stirling_rest

_NARROW = 1e-7
"""Spread below which a beta density is fitted by its moments, which differ only by rounding."""

_EXACT_BITS = 12
_LARGEST_COUNT = 2.0**53
_LEAST_SHAPE, _LARGEST_SHAPE = 1e-8, 1e6
_LARGE = 1e3


class Beta(FromMoments):
    """Shares: f(x) = x^(a−1) (1 − x)^(b−1) / B(a, b) for 0 < x < 1, by Newton's method."""

    name = "beta"
    Options = SpreadOptions
    options: SpreadOptions
    support = "numbers above 0 and below 1"
    terms = ("x", "log x", "log (1 - x)")
    estimates = ("mean", "variance", "a", "b")

    def has_density(self, values: FloatArray) -> BoolArray:
        inside: BoolArray = (values > 0.0) & (values < 1.0)
        return inside

    def terms_of(self, values: FloatArray) -> Terms:
        return {"x": values, "log x": np.log(values), "log (1 - x)": np.log1p(-values)}

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        keys = [("feature", "ascending"), ("class", "ascending")]
        some = statistics.filter(pa_compute.field("count") > 0.0).sort_by(keys)
        means = [some.filter(pa_compute.field("term") == term)["mean"] for term in self.terms]
        if len({len(values) for values in means}) > 1:
            raise pc.StoreError("the terms of a share have rows of different classes.")
        of_x, *of_logs = (values.to_numpy() for values in means)
        # By Jensen's inequality, exp E[log x] is at most E[x].
        with np.errstate(over="ignore"):
            excess = np.exp(of_logs) - np.array([of_x, 1.0 - of_x])
        if (excess > 1e-9).any():
            raise pc.StoreError("the means of log x or log (1 - x) are not those of shares.")

    def spread(self, moments: Mapping[str, Moments]) -> FloatArray:
        """Variance as a fraction of μ (1 − μ), the largest that a share of this mean can have."""
        x = moments["x"]
        mean = np.where(x.count > 0.0, x.mean, 0.5)
        variance = x.scatter / np.where(x.count > 0.0, x.count, 1.0)
        fraction: FloatArray = variance / (mean * (1.0 - mean))
        return np.clip(fraction, 0.0, 1.0)

    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        mean = moments["x"].mean
        own = self.spread(moments)
        size = np.maximum(1.0 / spread - 1.0, 1e-3)
        a, b = mean * size, (1.0 - mean) * size
        # A class whose spread was raised to the floor keeps the moments, too.
        likely = (own > _NARROW) & (own >= spread)
        fitted = _likeliest_beta(
            moments["log x"].mean[likely], moments["log (1 - x)"].mean[likely], a[likely], b[likely]
        )
        a[likely], b[likely] = fitted
        mean = a / (a + b)
        return {"mean": mean, "variance": mean * (1.0 - mean) / (a + b + 1.0), "a": a, "b": b}

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        a, b = estimates["a"], estimates["b"]
        size = a + b
        # The kernel is −(a + b) KL(mean ‖ x), whose terms of first order cancel exactly.
        logs, largest = (np.log(values), np.log1p(-values)), float(size.max())
        kernel = a * log_minus(values, logs[0], a / size, largest)
        kernel += b * log_minus(1.0 - values, logs[1], b / size, largest)
        constant = stirling_rest(a) + stirling_rest(b) - stirling_rest(size)
        log_density: FloatArray = kernel + constant - logs[0] - logs[1]
        return log_density

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        a, b = estimates["a"], estimates["b"]
        size = a + b
        logs = ln(positive(x)), ln(positive(1.0 - x))
        # −(a + b) KL(mean ‖ x): the terms of first order cancel.
        kernel = a * (logs[0] - np.log(a / size)) + b * (logs[1] - np.log(b / size))
        constant = stirling_rest(a) + stirling_rest(b) - stirling_rest(size)
        density = kernel + constant - logs[0] - logs[1]
        return Case([((x <= 0.0) | (x >= 1.0), IMPOSSIBLE)], density)


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


class VonMises(FromMoments):
    """Angles: f(x) = exp(κ cos 2π(x − m)/P) / (P I₀(κ)), with direction m and period P.

    All numbers are angles: x and x + P are the same. The density integrates to 1 over one period,
    in the unit of the column.
    """

    name = "von_mises"

    class Options(SpreadOptions):
        """Options of `VonMises`."""

        period: float = number(
            2.0 * math.pi,
            at_least=1e-100,
            doc="The period: 2π for radians, 360 for degrees, 24 for hours of the day.",
        )

    options: Options
    support = "angles"
    terms = ("cos", "sin")
    estimates = ("direction", "concentration")

    def has_density(self, values: FloatArray) -> BoolArray:
        return ~np.isnan(values)

    def terms_of(self, values: FloatArray) -> Terms:
        angle = self._angle(values)
        return {"cos": np.cos(angle), "sin": np.sin(angle)}

    def _angle(self, values: FloatArray) -> FloatArray:
        """Values in radians, between −2π and 2π."""
        period = self.options.period
        angle: FloatArray = np.fmod(values, period) * (2.0 * math.pi / period)
        return angle

    def spread(self, moments: Mapping[str, Moments]) -> FloatArray:
        """1 − R, the circular variance: from Σ (cos − mean)² + Σ (sin − mean)² = n (1 − R²)."""
        cos, sin = moments["cos"], moments["sin"]
        count = np.where(cos.count > 0.0, cos.count, 1.0)
        resultant = np.minimum(np.hypot(cos.mean, sin.mean), 1.0)
        spread: FloatArray = (cos.scatter + sin.scatter) / count / (1.0 + resultant)
        return np.clip(spread, 0.0, 1.0)

    def fit(self, moments: Mapping[str, Moments], spread: FloatArray) -> Estimates:
        angle = np.arctan2(moments["sin"].mean, moments["cos"].mean)
        period = self.options.period
        direction = np.mod(angle * (period / (2.0 * math.pi)), period)
        # If the resultant is 0, no direction is defined; rounding must not choose one.
        direction = np.where(spread > 1.0 - 1e-12, 0.0, direction)
        kappa = np.where(spread > 1.0 - 1e-12, 0.0, concentration(spread))
        return {"direction": direction, "concentration": kappa}

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        raise pc.NotSupportedError(
            "an angle is an exact remainder, which engines do not compute alike; score it by "
            "pc.score."
        )

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        kappa, period = estimates["concentration"], self.options.period
        difference = 0.5 * (self._angle(values) - self._angle(estimates["direction"]))
        scale = np.log(special.i0e(kappa)) + math.log(period)
        log_density: FloatArray = -2.0 * kappa * np.sin(difference) ** 2 - scale
        return log_density


class NegativeBinomial(Distribution):
    """Counts that vary more than Poisson's: mean μ and shape r, variance μ + μ² / r.

    p(x) = Γ(x + r) / (Γ(r) x!) · (r / (r + μ))^r · (μ / (r + μ))^x. The mean is that of the rows; r
    maximizes the likelihood of the table of counts. If the rows vary no more than a Poisson
    distribution, r is so large that the distribution is one. A class without any event has the mean
    of half an event in all its rows.

    Statistics: class, feature, cell, count (Σ w), total (Σ w x). A cell is a count, or a range of
    counts above 4096 that differ by less than one part in 2048.
    """

    name = "negative_binomial"
    support = "whole numbers from 0 to 2⁵³"
    estimates = ("mean", "variance", "shape")

    def has_density(self, values: FloatArray) -> BoolArray:
        counts = (values >= 0.0) & (values <= _LARGEST_COUNT)
        whole: BoolArray = counts & (values == np.floor(values))
        return whole

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        check_row_counts(statistics, classes, ["feature"], features=self.features.names)
        cell, count, total = (statistics[n].to_numpy() for n in ("cell", "count", "total"))
        low, high = cell * count, cell * (1.0 + 2.0 ** (1 - _EXACT_BITS)) * count
        within = (low * (1.0 - 1e-9) <= total) & (total <= high * (1.0 + 1e-9))
        if not (within & self.has_density(cell) & (count > 0.0)).all():
            raise pc.StoreError("a total is not one of the counts of its cell.")

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary_decode()
        share = np.ones(batch.num_rows) if weights is None else weights
        parts = []
        for name in self.features.names:
            values = numeric_column(batch, name)
            self.refuse_others(name, values)
            known = ~np.isnan(values)
            counts = values[known] + 0.0  # −0.0 becomes 0.0
            _, exponents = np.frexp(counts)
            fine = np.exp2(np.maximum(exponents - _EXACT_BITS, 0))
            parts.append(
                pa.table(
                    {
                        "class": labels.filter(pa.array(known)),
                        "feature": pa.array([name] * len(counts), pa.string()),
                        "cell": np.floor(counts / fine) * fine,
                        "count": share[known],
                        "total": share[known] * counts,
                    }
                )
            )
        return self.merge(parts)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return sum_counts(tables, ["class", "feature", "cell"], ["count", "total"])

    def fit_column(
        self, name: str, statistics: pa.Table, classes: pa.Array, notes: list[str]
    ) -> Estimates | None:
        if not statistics.num_rows:
            return None
        codes = label_codes(statistics["class"], classes)
        count, total = (statistics[key].to_numpy() for key in ("count", "total"))
        own = np.bincount(codes, count, len(classes)).astype(np.float64)
        self.note_pooled(name, classes, own == 0.0, notes)
        mean, shape = np.empty(len(classes)), np.empty(len(classes))
        for code, rows_of_class in enumerate(own):
            rows = codes == code if rows_of_class else slice(None)
            mean[code], shape[code] = _likeliest_negative_binomial(count[rows], total[rows])
        variance = mean + mean * mean / shape
        return {"count": own, "mean": mean, "variance": variance, "shape": shape}

    def log_density(self, values: FloatArray, estimates: Mapping[str, FloatArray]) -> FloatArray:
        mean, shape = estimates["mean"], estimates["shape"]
        # As a binomial probability in the form of Loader (2000), whose terms do not cancel.
        x, size = np.maximum(values, 1.0), shape + mean
        up, down = (x - mean) / size, -(shape / size) * (x - mean) / x
        far = np.log(mean / size) + np.log1p(shape / x) - down
        of_x = np.where(down < -0.5, far, log1p_minus(np.maximum(down, -0.5)))
        constant = stirling_rest(shape) + stirling_rest(x) - stirling_rest(x + shape)
        above_0 = shape * log1p_minus(up) + x * of_x + constant - np.log(x)
        at_0 = -shape * np.log1p(mean / shape)
        log_density: FloatArray = np.where(values > 0.0, above_0, at_0)
        return log_density

    def formula(self, x: Column, estimates: Mapping[str, FloatArray]) -> Expression:
        mean, shape = estimates["mean"], estimates["shape"]
        at_0 = as_expression(-shape * np.log1p(mean / shape))
        rise = log_rising(shape, x) - log_gamma(x + 1.0)
        above_0 = rise + x * (np.log(mean) - np.log(shape + mean)) + at_0
        others = (x < 0.0) | (x > _LARGEST_COUNT) | x.differs(Function("floor", x))
        return Case([(others, IMPOSSIBLE), (x.equals(0.0), at_0)], above_0)


def _likeliest_negative_binomial(count: FloatArray, total: FloatArray) -> tuple[float, float]:
    """Mean and shape of the rows of a table of counts.

    The derivative of the log-likelihood by the shape has one root if the variance exceeds the mean
    (Levin and Reeds, "Compound multinomial likelihood functions are unimodal", 1977).

    Args:
        count: Σ w of each cell.
        total: Σ w x of each cell.
    """
    rows, values = count.sum(), total / count
    mean = max(total.sum(), 0.5) / rows

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
    if not total.any() or slope(high) >= 0.0:
        return mean, math.exp(high)
    if slope(low) <= 0.0:
        return mean, _LEAST_SHAPE
    return mean, math.exp(optimize.brentq(slope, low, high, xtol=1e-13, rtol=1e-13))
