"""Count, mean and scatter of rows by class, and the only merge of moments.

Scatter is the sum of squared deviations from the mean, Σ w (x − x̄)². Rows are centered on their own
class mean before they are squared, and parts are merged by the update of Chan, Golub and LeVeque
("Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq. 2.1),
generalized to any number of parts and to cross moments. E[x²] − m² is never formed: it loses every
digit when the mean is large beside the deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import BoolArray, ByClass, FloatArray, IntArray

_FEW_CLASSES = 64
"""Up to here a loop over the classes of a batch costs less than it saves."""

_BEYOND_FLOAT64 = np.errstate(over="ignore", invalid="ignore")
"""Squares of values beyond 1e154 become infinite; `own_scale` then says so, and training stops."""

_LEAST_SCALE = 1e-305
"""A variance below it has lost digits, or leaves none to a floor that is a fraction of it."""


@dataclass(frozen=True)
class Moments:
    """Moments of ``g`` groups; the trailing shape is ``(d,)``, or ``(d, d)`` for cross moments.

    Attributes:
        count: Σ w.
        mean: Σ w x / Σ w, in the feature's unit; 0 where the count is 0. In cross moments entry
            ``[i, j]`` is the mean of feature i over the rows that have both i and j.
        scatter: Σ w (x − x̄)², in the unit squared; in cross moments Σ w (xᵢ − x̄ᵢ)(xⱼ − x̄ⱼ).
    """

    count: FloatArray
    mean: FloatArray
    scatter: FloatArray


@_BEYOND_FLOAT64
def column_moments(column: FloatArray, groups: ByClass, weights: FloatArray | None) -> Moments:
    """Moments of one column by class.

    Args:
        column: ``(n,)``; NaN is left out.
        groups: the rows by class.
        weights: ``(n,)`` or none.

    Returns:
        Moments of shape ``(g,)``.
    """
    values = np.take(column, groups.order, mode="clip")  # "clip" spares a check; order is valid
    if weights is None and len(groups.counts) <= _FEW_CLASSES:
        moments = _sliced_moments(values, groups)
        if not np.isnan(moments.mean).any():
            return moments
        values = np.take(column, groups.order, mode="clip")
    return _reduced_moments(values, groups, weights)


def _sliced_moments(values: FloatArray, groups: ByClass) -> Moments:
    """Class by class in place: several times faster than `_reduced_moments`, for few classes.

    The values are sorted by class and used up; a NaN among them makes its class NaN.
    """
    mean, residue = _centered(values, groups)
    squares = np.array([values[rows].dot(values[rows]) for rows in groups.slices])
    return _corrected(groups.counts.astype(np.float64), mean, residue, squares)


def _centered(values: FloatArray, groups: ByClass) -> tuple[FloatArray, FloatArray]:
    """Center values, sorted by class, on the mean of their class, in place.

    Returns:
        The means and what is left of them after rounding, each ``(g,)``; NaN for a class with NaN.
    """
    mean = np.add.reduceat(values, groups.starts) / groups.counts
    for rows, center in zip(groups.slices, mean, strict=True):
        values[rows] -= center
    return mean, np.add.reduceat(values, groups.starts) / groups.counts


def _reduced_moments(values: FloatArray, groups: ByClass, weights: FloatArray | None) -> Moments:
    """All classes at once, with weights and NaN."""
    observed = ~np.isnan(values)
    weight = observed.astype(np.float64)
    if weights is not None:
        weight *= weights[groups.order]
    values = np.where(observed, values, 0.0)
    count = np.add.reduceat(weight, groups.starts)
    divisor = np.where(count > 0.0, count, 1.0)
    mean = np.add.reduceat(values * weight, groups.starts) / divisor
    deviation = values - np.repeat(mean, groups.counts)
    residue = np.add.reduceat(deviation * weight, groups.starts) / divisor
    scatter = np.add.reduceat(deviation * deviation * weight, groups.starts)
    return _corrected(count, mean, residue, scatter)


def _corrected(
    count: FloatArray, mean: FloatArray, residue: FloatArray, scatter: FloatArray
) -> Moments:
    """Mean and scatter without the rounding of the mean that the rows were centered on.

    Deviations from a rounded mean do not average to 0 but to ``residue``.
    """
    return Moments(count, mean + residue, np.maximum(scatter - count * residue * residue, 0.0))


@_BEYOND_FLOAT64
def cross_moments(
    columns: Sequence[FloatArray], groups: ByClass, weights: FloatArray | None
) -> Moments:
    """Cross moments of all pairs of features by class, each pair over the rows that have both.

    Args:
        columns: ``d`` features of shape ``(n,)``; NaN is left out.
        groups: the rows by class.
        weights: ``(n,)`` or none.

    Returns:
        Moments of shape ``(g, d, d)``.
    """
    features = len(columns)
    shape = (len(groups.counts), features, features)
    count, mean, scatter = np.empty(shape), np.empty(shape), np.empty(shape)
    matrix = np.empty((features, len(groups.order)))
    center, residue = np.empty(shape[:2]), np.empty(shape[:2])
    for feature, (column, row) in enumerate(zip(columns, matrix, strict=True)):
        np.take(column, groups.order, out=row, mode="clip")
        center[:, feature], residue[:, feature] = _centered(row, groups)
    gaps: BoolArray = np.asarray(np.isnan(center).any(axis=1))
    for group, rows in enumerate(groups.slices):
        if weights is None and not gaps[group]:
            part, left = matrix[:, rows], residue[group]
            count[group] = groups.counts[group]
            mean[group] = (center[group] + left)[:, None]
            scatter[group] = part @ part.T - count[group] * np.outer(left, left)
        else:
            picked = groups.order[rows]
            part = np.array([column[picked] for column in columns])
            weight = np.ones(len(picked)) if weights is None else weights[picked]
            count[group], mean[group], scatter[group] = _with_gaps(part, weight)
        np.fill_diagonal(scatter[group], np.maximum(np.diagonal(scatter[group]), 0.0))
    return Moments(count, mean, scatter)


def _with_gaps(part: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of one class, ``(d, n)`` with NaN, and weights: count, mean and scatter, each ``(d, d)``."""
    observed = ~np.isnan(part)
    part = np.where(observed, part, 0.0)
    present = observed @ weight
    center = (part @ weight) / np.where(present > 0.0, present, 1.0)
    deviation = (part - center[:, None]) * observed
    indicator = observed.astype(np.float64)
    count = (indicator * weight) @ indicator.T
    divisor = np.where(count > 0.0, count, 1.0)
    # residue[i, j]: mean deviation of feature i over the rows that also have feature j.
    residue = (deviation * weight) @ indicator.T / divisor
    scatter = (deviation * weight) @ deviation.T - count * residue * residue.T
    mean = np.where(count > 0.0, center[:, None] + residue, 0.0)
    return count, mean, scatter


@_BEYOND_FLOAT64
def merge_moments(
    group: IntArray, groups: int, parts: Moments, *, crossed: bool = False
) -> Moments:
    """The merge: moments of the union of the parts of each group.

    Args:
        group: ``(r,)``, the group that each part belongs to.
        groups: how many groups there are; one without parts gets zeros.
        parts: moments of shape ``(r, …)``.
        crossed: the trailing shape is ``(d, d)``, with means as in `cross_moments`.

    Returns:
        Moments of shape ``(groups, …)``.
    """

    def total(terms: FloatArray) -> FloatArray:
        summed = np.zeros((groups, *terms.shape[1:]))
        if terms.ndim == 1:
            np.add.at(summed, group, terms)
        else:  # which NumPy does term by term as well, and slower
            for place, term in zip(group.tolist(), terms, strict=True):
                summed[place] += term
        return summed

    def transposed(terms: FloatArray) -> FloatArray:
        return np.swapaxes(terms, -1, -2) if crossed else terms

    count = total(parts.count)
    divisor = np.where(count > 0.0, count, 1.0)
    mean = total(parts.count * parts.mean) / divisor
    shift = np.where(parts.count > 0.0, parts.mean - mean[group], 0.0)
    residue = total(parts.count * shift) / divisor
    between = total(parts.count * shift * transposed(shift))
    scatter = total(parts.scatter) + between - count * residue * transposed(residue)
    if not crossed:
        scatter = np.maximum(scatter, 0.0)
    return Moments(count, mean + residue, scatter)


def pooled(moments: Moments) -> Moments:
    """Moments of each feature over all rows, classes pooled: ``(k, d)`` to ``(d,)``."""
    whole = merge_moments(np.zeros(len(moments.count), dtype=np.intp), 1, moments)
    return Moments(whole.count[0], whole.mean[0], whole.scatter[0])


def pooled_variance(moments: Moments) -> FloatArray:
    """Variance of each feature over all rows, classes pooled: ``(k, d)`` moments to ``(d,)``.

    Divides by the count (maximum likelihood), whatever ``ddof`` the classes use.
    """
    whole = pooled(moments)
    variance: FloatArray = whole.scatter / np.where(whole.count > 0.0, whole.count, 1.0)
    return variance


def without_rounding(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Variances, with 0 for those that are nothing but the rounding of a constant."""
    rounding = 4.0 * np.finfo(np.float64).eps * np.abs(mean)
    return np.where(variance <= rounding * rounding, 0.0, variance)


@_BEYOND_FLOAT64
def own_scale(moments: Moments) -> FloatArray:
    """The scale that floors and ridges are relative to: ``(k, d)`` moments to ``(d,)``.

    A feature's pooled variance. A feature that is constant in all the data tells the classes apart
    nowhere, and neither must its rounding: its scale is so wide that a floor of 1e-9 is its squared
    value, or 1 where that is 0 too. Positive; but not finite for a feature whose squares are beyond
    float64, and 0 for one whose squares are lost near the other end.
    """
    largest = np.max(np.abs(moments.mean), axis=0)
    variance = without_rounding(pooled_variance(moments), largest)
    square = largest * largest
    constant = 1e9 * np.where(largest > 0.0, square, 1.0)
    scale = np.where(variance == 0.0, constant, variance)
    return np.where(scale < _LEAST_SCALE, 0.0, scale)
