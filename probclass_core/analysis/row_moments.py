"""Moments of a few numbers of each row, such as its losses; those of batches add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray


@dataclass(frozen=True)
class RowMoments:
    """Moments of ``m`` variables.

    Attributes:
        rows: number of rows.
        mean: means, ``(m,)``.
        scatter: sums of products of deviations, ``(m, m)``; NaN if a variable may be infinite.
    """

    rows: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of_rows(cls, variables: FloatArray) -> RowMoments:
        """Moments of ``n`` rows, ``(m, n)``."""
        rows = variables.shape[1]
        with np.errstate(invalid="ignore"):  # deviations of infinite variables are NaN
            mean = variables.sum(axis=1) / max(rows, 1)
            deviation = variables - mean[:, None]
            return cls(rows, mean, deviation @ deviation.T)

    def __add__(self, other: RowMoments) -> RowMoments:
        """Moments of the rows of both, by the update of Chan, Golub and LeVeque (1979)."""
        if not (self.rows and other.rows):
            return self if self.rows else other
        rows = self.rows + other.rows
        with np.errstate(invalid="ignore"):
            shift = other.mean - self.mean
            # Of an infinite mean the shift may be undefined, but not the mean of both.
            mean = self.mean * (self.rows / rows) + other.mean * (other.rows / rows)
            between = np.outer(shift, shift) * (self.rows * (other.rows / rows))
            return RowMoments(rows, mean, self.scatter + other.scatter + between)

    @property
    def standard_errors(self) -> list[float | None]:
        """Standard errors of the means; None for one that is unknown."""
        if self.rows < 2:
            return [None] * len(self.mean)
        errors = np.sqrt(np.diagonal(self.scatter) / (self.rows - 1.0) / self.rows)
        return [float(error) if np.isfinite(error) else None for error in errors]
