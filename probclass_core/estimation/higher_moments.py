"""Cross moments of third and fourth order by class, and their merge.

They extend the cross moments of `moments`: for each pair of features, over the rows that have both,
about the means of these rows. Parts are merged by the update formulas of Pébay ("Formulas for
robust, one-pass parallel computation of covariances and arbitrary-order statistical moments", 2008)
for two features: moving the center of a part adds terms of its lower moments. A difference of raw
moments, such as E[x⁴] − …, is never computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import ByClass, FloatArray, IntArray
from probclass_core.estimation.moments import BEYOND_FLOAT64, Moments, sums_by_group

_NEAR = 0.99
"""Largest share of the squared distance of the centers in the mean square about a center: ten
standard deviations, so that fourth powers lose up to four of sixteen digits."""


@dataclass(frozen=True)
class HigherMoments:
    """Moments of ``g`` groups over pairs of features, each of shape ``(g, d, d)``.

    Entry ``[i, j]`` is a sum over the rows that have both features, with deviations u = xᵢ − x̄ᵢ and
    v = xⱼ − x̄ⱼ from the means of these rows.

    Attributes:
        square: Σ w u², in the unit squared; without nulls it is the scatter of feature i.
        third: Σ w u² v.
        fourth: Σ w u² v².
    """

    square: FloatArray
    third: FloatArray
    fourth: FloatArray


@BEYOND_FLOAT64
def higher_moments(
    columns: Sequence[FloatArray], groups: ByClass, weights: FloatArray | None, moments: Moments
) -> HigherMoments:
    """Higher moments of all pairs of features by class.

    Args:
        columns: ``d`` features ``(n,)``; NaN is ignored.
        groups: the rows grouped by class.
        weights: ``(n,)``, or None for weights of 1.
        moments: cross moments of the same rows, ``(g, d, d)``.

    Returns:
        Moments of shape ``(g, d, d)``.
    """
    shape = moments.count.shape
    sums = Moments(moments.count, np.empty(shape), moments.scatter)
    result = HigherMoments(np.empty(shape), np.empty(shape), np.empty(shape))
    for group, rows in enumerate(groups.slices):
        picked = groups.order[rows]
        part = np.array([column[picked] for column in columns])
        weight = None if weights is None else weights[picked]
        mean = moments.mean[group]
        if np.isnan(part).any():
            of_group = _sums_with_nulls(part, weight, mean)
        else:
            of_group = _sums(part, weight, np.diagonal(mean))
        first, result.square[group], result.third[group], result.fourth[group] = of_group
        sums.mean[group] = first / np.where(moments.count[group] > 0.0, moments.count[group], 1.0)
    return _centered(sums, result)


_Sums = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Σ w u, Σ w u², Σ w u² v and Σ w u² v² of each pair of features, ``(d, d)``."""


def _sums(part: FloatArray, weight: FloatArray | None, center: FloatArray) -> _Sums:
    """Sums of deviations from ``center`` ``(d,)`` of rows without nulls, ``(d, n)``."""
    deviation = part - center[:, None]
    square = deviation * deviation
    weighted = square if weight is None else square * weight
    first = deviation.sum(axis=1) if weight is None else deviation @ weight
    once = np.ones(len(part))
    return (
        np.outer(first, once),
        np.outer(weighted.sum(axis=1), once),
        weighted @ deviation.T,
        weighted @ square.T,
    )


def _sums_with_nulls(part: FloatArray, weight: FloatArray | None, mean: FloatArray) -> _Sums:
    """Sums of deviations, as `_sums`, of rows with nulls, ``(d, n)``.

    They are about the mean of each feature, or, for a pair whose rows are far from it, about the
    means of the pair: fourth powers of a far center would cost all digits.

    Args:
        part: features, ``(d, n)``.
        weight: ``(n,)``, or None for weights of 1.
        mean: of each pair, ``(d, d)``.
    """
    observed = ~np.isnan(part)
    present = observed.astype(np.float64)
    share = np.ones(part.shape[1]) if weight is None else weight
    deviation = np.where(observed, part - np.diagonal(mean)[:, None], 0.0)
    squares = deviation * deviation
    weighted = squares * share
    first = (deviation * share) @ present.T
    square = weighted @ present.T
    sums = first, square, weighted @ deviation.T, weighted @ squares.T
    far = first * first > _NEAR * square * ((present * share) @ present.T)
    far |= far.T
    for feature in np.flatnonzero(far.any(axis=1)):
        pairs = far[feature]
        rows = observed[feature]
        both = observed[pairs][:, rows]
        u = np.where(both, part[feature, rows] - mean[feature, pairs][:, None], 0.0)
        v = np.where(both, part[pairs][:, rows] - mean[pairs, feature][:, None], 0.0)
        weighted = u * u * share[rows]
        about_means = (
            u @ share[rows],
            weighted.sum(axis=1),
            np.einsum("dn,dn->d", weighted, v),
            np.einsum("dn,dn->d", weighted, v * v),
        )
        for values, exact in zip(sums, about_means, strict=True):
            values[feature, pairs] = exact
    return sums


@BEYOND_FLOAT64
def merge_higher_moments(
    group: IntArray, merged: Moments, moments: Moments, parts: HigherMoments
) -> HigherMoments:
    """Merge parts: the higher moments of all rows of each group.

    Args:
        group: group of each part, ``(r,)``.
        merged: cross moments of the groups, ``(g, d, d)``, by `merge_moments`.
        moments: cross moments of the parts, ``(r, d, d)``.
        parts: higher moments of the parts, ``(r, d, d)``.

    Returns:
        Moments of shape ``(g, d, d)``.
    """
    groups = len(merged.count)
    shift = np.where(moments.count > 0.0, moments.mean - merged.mean[group], 0.0)
    added = _added_by_shift(Moments(moments.count, shift, moments.scatter), parts)
    square, third, fourth = (
        sums_by_group(group, groups, own + more)
        for own, more in zip(vars(parts).values(), vars(added).values(), strict=True)
    )
    divisor = np.where(merged.count > 0.0, merged.count, 1.0)
    residue = sums_by_group(group, groups, moments.count * shift) / divisor
    return _centered(
        Moments(merged.count, residue, merged.scatter), HigherMoments(square, third, fourth)
    )


def _added_by_shift(moments: Moments, about_mean: HigherMoments) -> HigherMoments:
    """What the moments about another center have more than those about the mean.

    Args:
        moments: count, mean less center, and scatter, ``(…, d, d)``.
        about_mean: higher moments about the mean.
    """
    count, u, scatter = moments.count, moments.mean, moments.scatter
    v = np.swapaxes(u, -1, -2)
    square, third = about_mean.square, about_mean.third
    return HigherMoments(
        square=count * u * u,
        third=2.0 * u * scatter + v * square + count * u * u * v,
        fourth=(
            2.0 * (v * third + u * np.swapaxes(third, -1, -2))
            + v * v * square
            + u * u * np.swapaxes(square, -1, -2)
            + 4.0 * u * v * scatter
            + count * u * u * v * v
        ),
    )


def _centered(moments: Moments, about_center: HigherMoments) -> HigherMoments:
    """Moments about the mean, from those about a center next to it: the mean was rounded.

    Args:
        moments: count, mean less center, and scatter about the mean, ``(…, d, d)``.
        about_center: moments about the center.
    """
    # The terms of each order need only the centered moments of lower orders.
    square = about_center.square - moments.count * moments.mean * moments.mean
    square = np.maximum(square, 0.0)
    lower = HigherMoments(square, about_center.third, about_center.fourth)
    third = about_center.third - _added_by_shift(moments, lower).third
    lower = HigherMoments(square, third, about_center.fourth)
    fourth = about_center.fourth - _added_by_shift(moments, lower).fourth
    return HigherMoments(square, third, np.maximum(fourth, 0.0))
