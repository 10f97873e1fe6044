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
