"""Kernel densities of single features: a normal kernel at every training row.

    f(x | c) = ∏ⱼ 1 / (n_cj h_cj) · Σᵢ w_i φ((xⱼ − x_ij) / h_cj)

Zaki and Meira, *Data Mining and Machine Learning*, section 15.2, in one dimension for each feature:
a product over features, so that a null drops one factor and the density of the others is unchanged.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import logsumexp

import probclass_core as pc
from probclass_core.authoring import (
    ABOVE_0,
    FINITE,
    NUMBERS,
    POINT_MASS_WIDTH,
    Counts,
    EstimatorOptions,
    FloatArray,
    Grids,
    IntArray,
    Range,
    Rows,
    check_parameters,
    label_codes,
    notes_of,
    number,
    tidy_table,
)
from probclass_core.errors import DataError, StoreError
from probclass_kde import bandwidth

_CELLS = 4_000_000
"""Largest number of rows times points in memory at once: 32 MB."""


class KernelDensity(pc.Estimator):
    """Independent features, each with a normal kernel at every training row of the class.

    Statistics: those of `Grids`, every value as it is.
    Parameters: class, feature, point (a distinct value), count (Σ w), bandwidth.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "kde"
    models = NUMBERS
    factorizes = True
    state_grows = True

    class Options(EstimatorOptions):
        """Options of `KernelDensity`."""

        bandwidth: str | float = number(
            "isj",
            list(bandwidth.RULES),
            at_least=ABOVE_0,
            doc="The standard deviation of the kernel in the column's unit, or a rule to find it: "
            "'isj' (improved Sheather–Jones), 'scott' or 'silverman'.",
        )

    options: Options

    @property
    def kind(self) -> Grids:
        return Grids(self.features.names, math.inf)

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts = []
        for name, histogram, _ in self.kind.read([statistics], classes):
            points, counts = histogram.values, histogram.counts
            none = ~counts.any(axis=1)
            if none.any():
                raise DataError(
                    f"class {classes[int(np.argmax(none))].as_py()!r} has no value in column "
                    f"{name!r}; drop the class, or leave the column out."
                )
            (widths,) = Counts(points, counts).each(self._width)
            fields = {"count": counts, "bandwidth": np.broadcast_to(widths[:, None], counts.shape)}
            cells = {"feature": name, "point": points}
            parts.append(tidy_table(classes, cells, fields, counts > 0.0))
        return self.annotate(pa.concat_tables(parts).combine_chunks())

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        positive = Range(low=POINT_MASS_WIDTH)
        numbers = {"point": FINITE, "count": positive, "bandwidth": positive}
        cells = {"feature": pa.string(), "point": pa.float64()}
        check_parameters(parameters, classes, cells, numbers, complete=False)
        place = _places(parameters, self.features.names, classes)
        if not np.array_equal(np.unique(place), np.arange(len(classes) * len(self.features))):
            raise StoreError("the points of a class are missing.")

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> KernelDensityLikelihood:
        return KernelDensityLikelihood(parameters, classes)

    def _width(self, points: FloatArray, counts: FloatArray) -> tuple[float]:
        rule = self.options.bandwidth
        if not isinstance(rule, str):
            return (max(rule, POINT_MASS_WIDTH),)
        return (max(bandwidth.choose(rule, points, counts), POINT_MASS_WIDTH),)


class KernelDensityLikelihood:
    """log p(x | c): the sum over the observed features of the log of the mean of the kernels.

    Args:
        parameters: of `KernelDensity`.
        classes: ``k`` labels.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array) -> None:
        self.features: list[str] = notes_of(parameters)["features"]
        self.classes = len(classes)
        place = _places(parameters, self.features, classes)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(1, len(self.features) * len(classes)))
        points, counts, widths = (
            np.split(parameters[name].to_numpy()[order], ends)
            for name in ("point", "count", "bandwidth")
        )
        self.kernels = list(zip(points, counts, widths, strict=True))

    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.zeros((len(rows), self.classes))
        for place, (points, counts, widths) in enumerate(self.kernels):
            feature, column = divmod(place, self.classes)
            values = rows.numbers(self.features[feature])
            known = np.flatnonzero(~np.isnan(values))
            result[known, column] += _log_density(values[known], points, counts, float(widths[0]))
        return result


def _places(parameters: pa.Table, features: list[str], classes: pa.Array) -> IntArray:
    """Number of the feature and class of each point, features first, ``(m,)``."""
    feature = label_codes(parameters["feature"], pa.array(features))
    place: IntArray = feature * len(classes) + label_codes(parameters["class"], classes)
    return place


def _log_density(
    values: FloatArray, points: FloatArray, counts: FloatArray, width: float
) -> FloatArray:
    """Log of the mean of normal kernels, ``(n,)``; −∞ far from all points."""
    constant = np.log(counts.sum()) + np.log(width) + 0.5 * np.log(2.0 * np.pi)
    log_counts = np.log(counts)
    result = np.empty(len(values))
    step = max(1, _CELLS // len(points))
    for start in range(0, len(values), step):
        block = slice(start, start + step)
        with np.errstate(over="ignore"):
            z = (values[block, None] - points) / width
            kernels = log_counts - 0.5 * z**2
        result[block] = logsumexp(kernels, axis=1) - constant
    return result
