"""Independent features with the density of Student's t, fitted to counts on grids.

The first pass counts the distinct values, or cells of equal width if there are too many distinct
values. That is fine enough unless the tails are so long that cells wide enough to reach the
outliers are too coarse for the middle. Then another pass counts in more cells. There are never many
more cells than values far out, each of which has its own, so few passes suffice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.authoring import (
    FINITE,
    POINT_MASS_WIDTH,
    POSITIVE,
    Counts,
    EstimatorOptions,
    FloatArray,
    HistogramDensity,
    number,
    whole,
)
from probclass_student_t import fitting

_FINE = 16.0
"""Fewest cells between the quartiles of a class that need no further pass."""

_MORE, _MOST_CELLS = 16, 2**18
"""Factor of the number of cells from one pass to the next, and their largest number."""


class StudentT(HistogramDensity):
    """Independent features with Student's t given the class: a location, a scale and heavy tails.

    Statistics: those of `Grids`.
    Parameters: class, feature, count, location, scale, degrees_of_freedom.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "student_t"
    parameters = {"location": FINITE, "scale": POSITIVE, "degrees_of_freedom": POSITIVE}
    passes = 3

    class Options(EstimatorOptions):
        """Options of `StudentT`."""

        degrees_of_freedom: float | None = number(
            None,
            at_least=fitting.LEAST_FREEDOM,
            doc="ν of every class and feature; by default it is estimated for each.",
        )
        scale_floor: float = number(
            1e-9,
            doc="Smallest scale, as a fraction of the feature's scale, classes pooled; 0 keeps a "
            "zero scale as a point mass.",
        )
        cells: int = whole(
            4096,
            at_least=4,
            doc="Largest number of distinct values of a feature that are counted as they are; more "
            "are counted on a grid. A further pass takes 16 times as many if they are too coarse.",
        )

    options: Options

    @property
    def cells(self) -> int:  # type: ignore[override]  # not settable
        """Largest number of cells of a column."""
        return self.options.cells

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        for _, histogram, _ in self.kind.read([statistics], classes):
            h = Counts(histogram.values, histogram.counts)
            if (h.quantile(0.75) - h.quantile(0.25) < _FINE * histogram.width).any():
                more = min(_MORE * self.cells, _MOST_CELLS)
                return {"cells": more} if more > self.cells else None
        return None

    def estimate(self, h: Counts) -> Mapping[str, FloatArray]:
        _, scale = fitting.robust_scale(h.values, h.counts.sum(axis=0))
        floor = max(self.options.scale_floor * scale, POINT_MASS_WIDTH)
        freedom = self.options.degrees_of_freedom
        fits = h.each(lambda values, counts: fitting.fit(values, counts, floor, freedom))
        return dict(zip(self.parameters, fits, strict=True))

    def log_density(self, x: Any, p: Any) -> Any:
        # The kernel log(1 + z² / ν) is computed in logs, so that no square overflows.
        z = np.log(np.absolute(x - p.location)) - np.log(p.scale)
        kernel = np.logaddexp(0.0, 2.0 * z - np.log(p.degrees_of_freedom))
        peak = fitting.log_normalizer(p.degrees_of_freedom) - np.log(p.scale)
        return peak - 0.5 * (p.degrees_of_freedom + 1.0) * kernel
