"""Independent normal features: a mean and a variance per class and feature.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2, Algorithm 18.2: f(x | c) is the
product over features of N(x_j; μ_cj, σ²_cj), with 2d parameters per class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray, sorted_classes
from probclass_core.arrow.compiled import kernels
from probclass_core.arrow.rows import Rows
from probclass_core.estimation import formulas, moments
from probclass_core.estimation.column_density import ColumnDensity, DensityLikelihood
from probclass_core.estimation.contract import POINT_MASS_WIDTH
from probclass_core.estimation.evidence import normal_evidence
from probclass_core.estimation.families.gaussian import normal
from probclass_core.estimation.kinds.moments import TermMoments
from probclass_core.estimation.marginals import Curve
from probclass_core.estimation.options import number
from probclass_core.estimation.tidy import FINITE, NOT_NEGATIVE, tidy_table

_FRACTION_WITHIN = 0.005
"""Default floor of a variance, as a fraction of the feature's variance within the classes."""

_LEAST_FRACTION = 1e-9
"""Least default floor, as a fraction of the feature's variance over all classes."""

LOG_2PI = math.log(2.0 * math.pi)

_BLOCK_ROWS = 2304
"""Rows of a block: two copies of a block with 20 features fit the processor's cache."""

_BUFFER = 1024
"""Size of NumPy's buffer for arithmetic on blocks, in numbers. In a broadcast, NumPy copies rows of
up to half of the buffer (8192 by default) into it, which takes as long as the arithmetic itself."""


class GaussianDiagonal(ColumnDensity):
    """Independent normal features given the class.

    Statistics: class, feature, term (x), count (Σ w), mean, scatter (Σ w (x − x̄)²).
    Parameters: class, feature, count, mean, variance; the floor of each feature is in the notes.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "gaussian_diagonal"
    parameters = {"mean": FINITE, "variance": NOT_NEGATIVE}

    class Options(normal.NormalOptions):
        """Options of `GaussianDiagonal`."""

        variance_floor: float | None = number(
            None,
            doc="Smallest variance, as a fraction of the feature's variance over all classes; 0 "
            "keeps a zero variance as a point mass. By default 0.005 of the variance within the "
            "classes, but at least 1e-9 of that over all classes.",
        )
        conjugate_prior: normal.ConjugatePrior = normal.conjugate_prior(
            joint=False,
            doc="Normal–inverse-χ² prior of each feature, for the evidence: count κ₀ (default 1), "
            "degrees_of_freedom ν₀ (3), mean and variance, each a number or one per column. "
            "Missing values are those of the rows, classes pooled. The prior mean of σ² is "
            "variance.",
        )

    options: Options

    @property
    def kind(self) -> TermMoments:
        return TermMoments(self.features.names, ["x"])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        m, ddof = self.kind.arrays(statistics, classes), self.options.ddof
        names, m, notes = normal.modeled_columns(self.features.names, m)
        few = m.count <= ddof
        divisor = np.where(few, 1.0, m.count - ddof)
        scatter = np.where(few, 0.0, m.scatter)
        variance = moments.without_rounding(scatter / divisor, m.mean)
        within = moments.variance_within(m.count, variance)
        floor = self._floor(names, m, within)
        mean = m.mean
        if (m.count <= max(ddof, 1.0)).any():
            none, of_all = m.count == 0.0, moments.pooled_variance(m)
            largest = np.abs(m.mean).max(axis=0)
            instead = np.where(within > 0.0, within, moments.without_rounding(of_all, largest))
            alone = few & ~none
            if self.options.variance_floor is None:
                alone |= ~none & (m.count <= 1.0) & (variance == 0.0) & (instead > 0.0)
            variance = np.where(alone, instead, variance)
            variance = np.where(none, of_all, variance)
            mean = np.where(none, moments.pooled(m).mean, mean)
            notes += normal.notes_on_classes(names, classes, none, alone)
        fields = {"count": m.count, "mean": mean, "variance": np.maximum(variance, floor)}
        parameters = tidy_table(classes, {"feature": pa.array(names, pa.string())}, fields)
        floors = dict(zip(names, floor.tolist(), strict=True))
        return self.annotate(parameters, scarce=notes, variance_floor=floors)

    def _floor(self, names: Sequence[str], m: moments.Moments, within: FloatArray) -> FloatArray:
        """Smallest variance of each feature, ``(d,)``, given that within the classes, ``(d,)``.

        A class that is constant by chance (all its rows are 0, say) would have a spike that
        decides about every row. The variance within the classes shows how much a class varies; that
        over all classes would widen narrow classes that are far apart.
        """
        scale = normal.feature_scale(names, m)
        fraction = self.options.variance_floor
        if fraction is not None:
            return fraction * scale
        return np.maximum(_LEAST_FRACTION * scale, _FRACTION_WITHIN * within)

    def log_density(self, x: Any, p: Any) -> FloatArray:
        is_mass = p.variance == 0.0
        width = np.where(is_mass, POINT_MASS_WIDTH, np.sqrt(p.variance))
        density = -0.5 * (LOG_2PI + np.square((x - p.mean) / width)) - np.log(width)
        return np.where(is_mass & (x != p.mean), -np.inf, density)

    def formula(self, x: formulas.Column, p: Mapping[str, FloatArray]) -> formulas.Expression:
        is_mass = p["variance"] == 0.0
        width = np.sqrt(np.where(is_mass, 1.0, p["variance"]))
        peak = -0.5 * LOG_2PI - np.log(np.where(is_mass, POINT_MASS_WIDTH, width))
        distance = formulas.Distance(x, p["mean"], 1.0 / width * math.sqrt(0.5))
        density = peak - formulas.Square(distance)
        if not is_mass.any():
            return formulas.ZeroIfNull(density)
        at_mass = formulas.as_condition(is_mass)
        off_point = at_mass & (x != p["mean"])
        at_peak = at_mass, formulas.as_expression(peak)
        branches = [(off_point, formulas.IMPOSSIBLE), at_peak]
        return formulas.if_known([x], formulas.Case(branches, density))

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DiagonalLikelihood:
        return DiagonalLikelihood(self, parameters, classes)

    def log_evidence(self, statistics: pa.Table) -> float:
        if not statistics.num_rows:
            return 0.0
        m = self.kind.arrays(statistics, sorted_classes(statistics["class"]))
        prior = self.options.conjugate_prior.complete(m, self.features.names)
        return float(normal_evidence(prior, m.count, m.mean, m.scatter).sum())


@contextmanager
def block_arithmetic() -> Iterator[None]:
    """Speed up arithmetic on blocks; overflow gives ∞ or NaN, which the caller must check."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        before = np.setbufsize(_BUFFER)
        try:
            yield
        finally:
            np.setbufsize(before)


class DiagonalLikelihood(DensityLikelihood):
    """log f(x | c) = Σ_j log N(x_j; μ_cj, σ²_cj) over the observed features.

    A variance of 0 is a point mass: −inf off its point.
    """

    def __init__(self, density: ColumnDensity, parameters: pa.Table, classes: pa.Array) -> None:
        super().__init__(density, parameters, classes)
        self._features = list(self.estimates)
        self._mean, variance = map(np.ascontiguousarray, self.arrays.values())
        point_mass: BoolArray = variance == 0.0
        self._point_masses = [np.flatnonzero(row) for row in point_mass]
        width = np.sqrt(np.where(point_mass, 1.0, variance))
        self._precision = np.where(point_mass, 0.0, 1.0 / width)
        self._log_peak = -0.5 * LOG_2PI - np.log(np.where(point_mass, POINT_MASS_WIDTH, width))

    # A square beyond float64 means a likelihood of 0, and so does ∞ · 0 away from a point mass.
    @block_arithmetic()
    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.empty((self.classes, len(rows)))
        for part, block in numeric_blocks(rows, self._features):
            self._fill(block, result[:, part])
        return result.T

    def marginal(self, column: str) -> Curve | None:
        curve = super().marginal(column)
        if curve is None:
            return None
        p = self.estimates[column]
        return replace(curve, mean=p["mean"], variance=p["variance"])

    def formula(self) -> formulas.Formula:
        return replace(super().formula(), refused=())  # a `Distance` stays within float64

    def _fill(self, block: FloatArray, result: FloatArray) -> None:
        """Write the log-likelihoods ``(k, m)`` of features ``(d, m)`` into ``result``."""
        missing = np.isnan(block)
        if missing.any():
            result[:] = self._log_peak @ (~missing).astype(np.float64)
        else:
            result[:] = self._log_peak.sum(axis=1)[:, None]
        if (compiled := kernels(block.shape[1])) is not None:
            compiled.subtract_half_squares(block, self._mean, self._precision, result)
        else:
            self._subtract_half_squares(block, missing, result)
        for masses, mean, of_class in zip(self._point_masses, self._mean, result, strict=True):
            if len(masses):
                off = (block[masses] != mean[masses, None]) & ~missing[masses]
                of_class[off.any(axis=0)] = -np.inf

    def _subtract_half_squares(
        self, block: FloatArray, missing: BoolArray, result: FloatArray
    ) -> None:
        deviation, any_missing = np.empty_like(block), bool(missing.any())
        by_class = zip(self._mean[..., None], self._precision[..., None], result, strict=True)
        for mean, precision, of_class in by_class:
            np.subtract(block, mean, out=deviation)
            deviation *= precision
            if any_missing:
                deviation[missing] = 0.0
            of_class -= 0.5 * np.einsum("dn,dn->n", deviation, deviation)


def numeric_blocks(rows: Rows, columns: Sequence[str]) -> Iterator[tuple[slice, FloatArray]]:
    """`Rows.matrix` in blocks of rows that fit the processor's cache.

    Yields:
        ``(part, block)``: positions of the rows, and their ``(d, m)`` features, which the caller
        may overwrite and which are only valid until the next block.

    Raises:
        DataError: as `Rows.numbers`.
    """
    if 0 < len(rows) <= _BLOCK_ROWS:
        yield slice(0, len(rows)), rows.matrix(columns)
        return
    values = [rows.numbers(name) for name in columns]
    memory = np.empty(len(columns) * min(_BLOCK_ROWS, len(rows)))
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = slice(start, min(start + _BLOCK_ROWS, len(rows)))
        size = part.stop - start
        block = memory[: len(columns) * size].reshape(len(columns), size)
        for row, column in zip(block, values, strict=True):
            row[:] = column[part]
        yield part, block
