"""Count, mean and scatter of rows by class, and their merge.

Scatter is the sum of squared deviations from the mean, Σ w (x − x̄)². Rows are centered on the mean
of their class before they are squared, and parts are merged by the update of Chan, Golub and
LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances", 1979, eq.
2.1), generalized to any number of parts and to cross moments. E[x²] − m² is never computed: it
loses all digits if the mean is large compared with the deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import SHORT, ByClass, FloatArray, IntArray
from probclass_core.arrow.compiled import kernels
from probclass_core.arrow.rows import Rows

FEW_CLASSES = 64
"""Largest number of classes for which a Python loop over the classes is faster."""

_COLUMNS_AT_ONCE = 16
"""Columns in one call of a compiled loop, so that threads seldom wait for Python's lock. More would
take more memory, because columns that are not float64 are converted."""

_BLOCK = 4096
"""Rows with gaps that are multiplied together, so that they stay in the processor's cache."""

BEYOND_FLOAT64 = np.errstate(over="ignore", invalid="ignore")
"""Squares of values above 1e154 become infinite. `own_scale` returns them, and training stops."""

_LEAST_SCALE = 1e-305
"""Smallest usable variance: a smaller one has lost digits, or a fraction of it would."""


@dataclass(frozen=True)
class Moments:
    """Moments of ``g`` groups, each of shape ``(g,)``, ``(g, d)``, or ``(g, d, d)`` if crossed.

    Attributes:
        count: Σ w.
        mean: Σ w x / Σ w, in the unit of the feature; 0 if the count is 0. In cross moments, entry
            ``[i, j]`` is the mean of feature i over the rows that have both features i and j.
        scatter: Σ w (x − x̄)², in the unit squared; in cross moments, Σ w (xᵢ − x̄ᵢ)(xⱼ − x̄ⱼ).
    """

    count: FloatArray
    mean: FloatArray
    scatter: FloatArray

    def map(self, change: Callable[[FloatArray], FloatArray]) -> Moments:
        """The same change of each of the arrays, such as a selection."""
        return Moments(*map(change, (self.count, self.mean, self.scatter)))


@BEYOND_FLOAT64
def moments_of_arrays(
    columns: Sequence[FloatArray], groups: ByClass, weights: FloatArray | None
) -> Moments:
    """Moments of columns by class.

    Args:
        columns: ``d`` arrays of values ``(n,)``; NaN is ignored.
        groups: the rows grouped by class.
        weights: ``(n,)``, or None for weights of 1.

    Returns:
        Moments of shape ``(g, d)``.
    """
    return _of_sums(np.moveaxis(_sums_of_columns(columns, groups, weights), 0, -1))


@BEYOND_FLOAT64
def moments_of_columns(
    rows: Rows, names: Sequence[str], groups: ByClass, weights: FloatArray | None
) -> Moments:
    """`moments_of_arrays` of columns.

    Args:
        rows: ``n`` rows.
        names: ``d`` columns of numbers.
        groups: the rows grouped by class.
        weights: ``(n,)``, or None for weights of 1.

    Returns:
        Moments of shape ``(g, d)``.

    Raises:
        DataError: as `Rows.numbers`.
    """
    compiled = kernels(len(rows))
    if compiled is None or len(rows) < SHORT:
        sums = _sums_of_columns(rows.arrays(names), groups, weights)
    else:
        sums = np.empty((len(names), 4, len(groups.counts)))
        for part, columns in _few_columns(rows, names):
            found = compiled.sums_by_class(columns, groups.order, groups.counts, weights)
            sums[part] = found[0]
            rows.check(names[part], found[1])
    return _of_sums(np.moveaxis(sums, 0, -1))


def _few_columns(rows: Rows, names: Sequence[str]) -> Iterator[tuple[slice, Sequence[FloatArray]]]:
    """A few columns at a time for a compiled loop, which finds infinite values: `Rows.check`.

    Yields:
        The place of these columns among all, and the columns, each ``(n,)``.
    """
    for start in range(0, len(names), _COLUMNS_AT_ONCE):
        part = slice(start, min(start + _COLUMNS_AT_ONCE, len(names)))
        yield part, [rows.unchecked(name) for name in names[part]]


def _of_sums(sums: FloatArray) -> Moments:
    """Moments of Σ w, Σ w x, Σ w (x − x̄) and Σ w (x − x̄)², ``(4, …)``."""
    count, total, residue, squares = sums
    return moments_about(total / np.where(count > 0.0, count, 1.0), count, residue, squares)


def _sums_of_columns(
    columns: Sequence[FloatArray], groups: ByClass, weights: FloatArray | None
) -> FloatArray:
    """`_sums_by_class` of each column, ``(d, 4, g)``."""
    if columns and (compiled := kernels(len(columns[0]))) is not None:
        columns = [np.ascontiguousarray(column) for column in columns]
        sums: FloatArray
        sums, _ = compiled.sums_by_class(columns, groups.order, groups.counts, weights)
        return sums
    if columns and len(columns[0]) < SHORT:
        values = np.take(np.stack(columns), groups.order, axis=1, mode="clip")
        weight = None if weights is None else weights[groups.order]
        total = _sums(values, groups.starts, weight)
        if not np.isnan(total).any():
            return _sums_without_gaps(values, total, groups.starts, groups.counts, weight)
    return np.array([_sums_by_class(column, groups, weights) for column in columns])


def _sums_by_class(column: FloatArray, groups: ByClass, weights: FloatArray | None) -> FloatArray:
    """Σ w, Σ w x, Σ w (x − x̄) and Σ w (x − x̄)² of each class, ``(4, g)``; 0 without values."""
    values = np.take(column, groups.order, mode="clip")  # "clip" skips a bounds check
    weight = None if weights is None else weights[groups.order]
    starts, counts = groups.starts, groups.counts
    total = _sums(values, starts, weight)
    if not np.isnan(total).any():
        return _sums_without_gaps(values, total, starts, counts, weight)
    observed = np.flatnonzero(~np.isnan(values))
    values, weight = values[observed], None if weight is None else weight[observed]
    starts = np.searchsorted(observed, starts)
    counts = np.diff(starts, append=len(observed))
    present = np.flatnonzero(counts)
    starts = starts[present]
    total = _sums(values, starts, weight)
    sums = np.zeros((4, len(counts)))
    sums[:, present] = _sums_without_gaps(values, total, starts, counts[present], weight)
    return sums


def _sums(values: FloatArray, starts: IntArray, weight: FloatArray | None) -> FloatArray:
    """Σ w x of each class, ``(…, g)``, of values ``(…, n)`` that are sorted by class."""
    products = values if weight is None else values * weight
    sums: FloatArray = np.add.reduceat(products, starts, axis=-1)
    return sums


def _sums_without_gaps(
    values: FloatArray,
    total: FloatArray,
    starts: IntArray,
    counts: IntArray,
    weight: FloatArray | None,
) -> FloatArray:
    """`_sums_by_class` of values without NaN, ``(…, 4, g)``.

    Args:
        values: sorted by class, ``(…, n)``; they are overwritten.
        total: Σ w x of each class, ``(…, g)``.
        starts: start of each class among the values, ``(g,)``.
        counts: number of values of each class, at least 1, ``(g,)``.
        weight: weights of the values, ``(n,)``, or None for weights of 1.
    """
    count = counts.astype(np.float64) if weight is None else np.add.reduceat(weight, starts)
    mean = total / np.where(count > 0.0, count, 1.0)
    if values.ndim > 1 or len(counts) > FEW_CLASSES:
        values -= np.repeat(mean, counts, axis=-1)
    else:
        slices = [slice(start, start + rows) for start, rows in zip(starts, counts, strict=True)]
        _center(values, slices, mean)
    residue = _sums(values, starts, weight)
    np.multiply(values, values, out=values)
    squares = _sums(values, starts, weight)
    return np.stack([np.broadcast_to(count, total.shape), total, residue, squares], axis=-2)


def _center(values: FloatArray, slices: Sequence[slice], mean: FloatArray) -> None:
    """Subtract from the values of each class their mean, in place."""
    for rows, center in zip(slices, mean, strict=True):
        values[rows] -= center


def _centered(
    rows: Rows, names: Sequence[str], groups: ByClass
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sort columns by class, and center the values on the mean of their class.

    The values of a class with NaN are not centered.

    Returns:
        The columns ``(d, n)``; the means, and the means of the centered values, which differ from 0
        by rounding: both ``(g, d)`` and NaN for a class with NaN.
    """
    matrix = np.empty((len(names), len(rows)))
    mean, residue = np.empty((2, len(names), len(groups.counts)))
    if (compiled := kernels(len(rows))) is not None:
        for part, columns in _few_columns(rows, names):
            mean[part], residue[part], found = compiled.center_by_class(
                columns, groups.order, groups.counts, matrix[part]
            )
            rows.check(names[part], found)
        return matrix, mean.T, residue.T
    for row, column in enumerate(rows.arrays(names)):
        values = matrix[row]
        np.take(column, groups.order, out=values, mode="clip")  # "clip" skips a bounds check
        mean[row] = np.add.reduceat(values, groups.starts) / groups.counts
        _center(values, groups.slices, np.where(np.isnan(mean[row]), 0.0, mean[row]))
        residue[row] = np.add.reduceat(values, groups.starts) / groups.counts
    return matrix, mean.T, residue.T


@BEYOND_FLOAT64
def cross_moments(
    rows: Rows, names: Sequence[str], groups: ByClass, weights: FloatArray | None
) -> Moments:
    """Cross moments of all pairs of features by class, each pair over the rows that have both.

    Args:
        rows: ``n`` rows; NaN and null are ignored.
        names: ``d`` columns of numbers.
        groups: the rows grouped by class.
        weights: ``(n,)``, or None for weights of 1.

    Returns:
        Moments of shape ``(g, d, d)``.

    Raises:
        DataError: as `Rows.numbers`.
    """
    matrix, center, residue = _centered(rows, names, groups)
    shape = (len(groups.counts), len(names), len(names))
    count, mean, scatter = np.empty(shape), np.empty(shape), np.empty(shape)
    has_gaps = np.isnan(center)
    for group, places in enumerate(groups.slices):
        part = matrix[:, places]
        if weights is None and not has_gaps[group].any():
            left = residue[group]
            count[group] = groups.counts[group]
            mean[group] = (center[group] + left)[:, None]
            scatter[group] = part @ part.T - count[group] * np.outer(left, left)
        else:
            weight = None if weights is None else weights[groups.order[places]]
            found = _with_gaps(part, weight)
            count[group], scatter[group] = found.count, found.scatter
            centered = np.where(has_gaps[group], 0.0, center[group])[:, None]
            mean[group] = np.where(found.count > 0.0, found.mean + centered, 0.0)
        np.fill_diagonal(scatter[group], np.maximum(np.diagonal(scatter[group]), 0.0))
    return Moments(count, mean, scatter)


def _with_gaps(part: FloatArray, weight: FloatArray | None) -> Moments:
    """Cross moments of one class, each ``(d, d)``.

    Args:
        part: rows of the class, ``(d, n)``, with NaN; they are overwritten.
        weight: ``(n,)``, or None for weights of 1.
    """
    missing = np.isnan(part)
    np.copyto(part, 0.0, where=missing)
    if weight is None:
        total = part.sum(axis=1)
        present = part.shape[1] - np.array([np.count_nonzero(row) for row in missing])
    else:
        total, present = part @ weight, ~missing @ weight
    center = (total / np.where(present > 0.0, present, 1.0))[:, None]
    count, deviations, products = np.zeros((3, len(part), len(part)))
    for start in range(0, part.shape[1], _BLOCK):
        rows = slice(start, start + _BLOCK)
        indicator = (~missing[:, rows]).astype(np.float64)
        deviation = (part[:, rows] - center) * indicator
        left = deviation, indicator
        if weight is not None:
            left = deviation * weight[rows], indicator * weight[rows]
        count += left[1] @ indicator.T
        deviations += left[0] @ indicator.T
        products += left[0] @ deviation.T
    return moments_about(center, count, deviations, products, crossed=True)


def moments_about(
    center: FloatArray,
    count: FloatArray,
    deviation: FloatArray,
    products: FloatArray,
    *,
    crossed: bool = False,
) -> Moments:
    """Moments from sums about any center near the means, without loss of digits.

    Args:
        center: c, broadcast to the shape of the count.
        count: Σ w.
        deviation: Σ w (x − c); in cross moments, entry ``[…, i, j]`` is that of feature i over the
            rows that have both features i and j.
        products: Σ w (x − c)²; in cross moments, Σ w (xᵢ − cᵢ)(xⱼ − cⱼ).
        crossed: whether they are cross moments.
    """
    residue = deviation / np.where(count > 0.0, count, 1.0)
    other = np.swapaxes(residue, -1, -2) if crossed else residue
    scatter = products - count * residue * other
    if not crossed:
        scatter = np.maximum(scatter, 0.0)
    return Moments(count, np.where(count > 0.0, center + residue, 0.0), scatter)


@BEYOND_FLOAT64
def merge_moments(
    group: IntArray, groups: int, parts: Moments, *, crossed: bool = False
) -> Moments:
    """Merge parts: the moments of all rows of each group.

    Args:
        group: group of each part, ``(r,)``.
        groups: number of groups; a group without parts gets zeros.
        parts: moments of shape ``(r, …)``.
        crossed: whether they are cross moments, of shape ``(r, d, d)``.

    Returns:
        Moments of shape ``(groups, …)``.
    """

    def total(terms: FloatArray) -> FloatArray:
        return sums_by_group(group, groups, terms)

    count = total(parts.count)
    mean = total(parts.count * parts.mean) / np.where(count > 0.0, count, 1.0)
    shift = np.where(parts.count > 0.0, parts.mean - mean[group], 0.0)
    other = np.swapaxes(shift, -1, -2) if crossed else shift
    products = total(parts.scatter) + total(parts.count * shift * other)
    return moments_about(mean, count, total(parts.count * shift), products, crossed=crossed)


def sums_by_group(group: IntArray, groups: int, terms: FloatArray) -> FloatArray:
    """Sums of the terms ``(r, …)`` of each group: ``(groups, …)``.

    Args:
        group: group of each term, ``(r,)``.
        groups: number of groups; a group without terms gets zeros.
        terms: numbers to add up.
    """
    summed = np.zeros((groups, *terms.shape[1:]))
    if terms.ndim == 1:
        np.add.at(summed, group, terms)
    else:  # np.add.at loops over the terms too, but more slowly
        for index, term in zip(group.tolist(), terms, strict=True):
            summed[index] += term
    return summed


def pooled(moments: Moments) -> Moments:
    """Moments of all classes together: from ``(k, d)`` to ``(d,)``."""
    merged = merge_moments(np.zeros(len(moments.count), dtype=np.intp), 1, moments)
    return Moments(merged.count[0], merged.mean[0], merged.scatter[0])


def pooled_variance(moments: Moments) -> FloatArray:
    """Variance of each feature over the rows of all classes: from ``(k, d)`` moments to ``(d,)``.

    The divisor is the count (maximum likelihood), no matter which ``ddof`` the classes use.
    """
    total = pooled(moments)
    variance: FloatArray = total.scatter / np.where(total.count > 0.0, total.count, 1.0)
    return variance


def variance_within(count: FloatArray, variance: FloatArray) -> FloatArray:
    """Variance within the classes that vary, weighted by count: from ``(k, d)`` to ``(d,)``.

    It is 0 for a feature that is constant within every class.

    Args:
        count: Σ w.
        variance: of each class, 0 if the class is constant or has no value.
    """
    weight = np.where(variance > 0.0, count, 0.0)
    total = weight.sum(axis=0)
    within: FloatArray = (weight * variance).sum(axis=0) / np.where(total > 0.0, total, 1.0)
    return within


@BEYOND_FLOAT64
def without_rounding(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """Variances, with 0 for those that are only the rounding error of a constant."""
    rounding = 4.0 * np.finfo(np.float64).eps * np.abs(mean)
    return np.where(variance <= rounding * rounding, 0.0, variance)


@BEYOND_FLOAT64
def own_scale(moments: Moments) -> FloatArray:
    """The scale of each feature, which floors and ridges multiply: from ``(k, d)`` to ``(d,)``.

    It is the feature's pooled variance. A feature that is constant in all rows carries no
    information about the class, and its rounding errors must not either: its scale is so large that
    a floor of 1e-9 times it is the squared value, or 1 for a value of 0.

    Returns:
        Positive variances, ∞ or NaN if squares exceed float64, and 0 if they underflow.
    """
    largest = np.max(np.abs(moments.mean), axis=0)
    variance = without_rounding(pooled_variance(moments), largest)
    square = largest * largest
    constant = 1e9 * np.where(largest > 0.0, square, 1.0)
    scale = np.where(variance == 0.0, constant, variance)
    return np.where(scale < _LEAST_SCALE, 0.0, scale)
