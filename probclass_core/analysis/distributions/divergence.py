"""The Jensen–Shannon divergence of two distributions of one column, in bits.

JS(p, q) = ½ KL(p ‖ m) + ½ KL(q ‖ m) with m = (p + q) / 2, after Lin, "Divergence measures based on
the Shannon entropy", IEEE Transactions on Information Theory 37 (1991). It is symmetric, 0 for
equal distributions and 1 bit for disjoint ones. Unlike the Kullback–Leibler divergence it is finite
even if one distribution gives a value probability 0.

Near equal distributions the divergence of counts is χ² / (8 n ln 2) bits, to second order, and χ²
has the mean b − 1 and the variance 2 (b − 1) for n rows and b bins. What sampling alone gives on
average is subtracted.
"""

from __future__ import annotations

import math

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray


def divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """The divergence of masses of the same values, in bits from 0 to 1.

    Args:
        p: ``(…, m)``, sums of 1 over the last axis.
        q: likewise.
    """
    pair = np.stack([p, q])
    middle = pair.mean(axis=0)
    # A quotient, because half of the smallest positive mass is 0.
    ratio = np.divide(pair, middle, out=np.ones_like(pair), where=(pair > 0.0) & (middle > 0.0))
    bits: FloatArray = (pair * np.log2(ratio)).sum(axis=(0, -1)) / 2.0
    return np.clip(bits, 0.0, 1.0)


def of_sample(counts: IntArray, expected: FloatArray) -> tuple[float, float]:
    """The divergence of counts from what is expected, less that of chance.

    Args:
        counts: number of rows in each bin, ``(b,)``; at least one row.
        expected: probability of each bin, ``(b,)``.

    Returns:
        The divergence in bits, at least 0, and its standard deviation by sampling alone.
    """
    rows = counts.sum()
    degrees = ((counts > 0) | (expected > 0.0)).sum() - 1
    unit = 1.0 / (8.0 * math.log(2.0) * rows)
    bits = float(divergence(counts / rows, expected) - degrees * unit)
    return max(0.0, bits), float(math.sqrt(2.0 * degrees) * unit)


def of_samples(left: FloatArray, right: FloatArray) -> float:
    """The divergence of two vectors of counts in the same bins, less that of chance; at least 0."""
    counts = np.stack([left, right])
    counts = counts[:, counts.sum(axis=0) > 0.0]
    shares = counts / counts.sum(axis=1, keepdims=True)
    chance = (counts.shape[1] - 1) / (8.0 * math.log(2.0)) * (1.0 / counts.sum(axis=1)).sum()
    return max(0.0, float(divergence(*shares) - chance))


def in_shared_bins(
    cuts: FloatArray, masses: FloatArray, other_cuts: FloatArray, other_masses: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Masses of two sets of bins of numbers, in the bins of the first within the cuts of the other.

    The cumulative distribution of the other is interpolated between its cuts.

    Args:
        cuts: ascending cuts between the bins of the first, ``(b − 1,)``.
        masses: probabilities or counts in them, ``(b, k)``.
        other_cuts: likewise of the other.
        other_masses: likewise.

    Returns:
        The shared cuts, and the masses of both between them; None without a shared cut.
    """
    if not len(cuts) or not len(other_cuts):
        return None
    within = (cuts >= other_cuts[0]) & (cuts <= other_cuts[-1])
    if not within.any():
        return None
    shared = cuts[within]
    below, other_below = np.cumsum(masses, axis=0), np.cumsum(other_masses, axis=0)
    found = [np.interp(shared, other_cuts, of[:-1]) for of in other_below.T]
    own = np.diff(below[:-1][within], axis=0, prepend=0.0, append=below[-1:])
    other = np.diff(np.stack(found, axis=1), axis=0, prepend=0.0, append=other_below[-1:])
    return shared, own, other
