"""The counts of a column in bins, compared between two partitions, and in words."""

from __future__ import annotations

import numpy as np

from probclass_core.analysis.distributions.divergence import of_samples
from probclass_core.analysis.distributions.health import ColumnHealth
from probclass_core.arrow.arrays import FloatArray


def distance(left: ColumnHealth, right: ColumnHealth) -> float | None:
    """Jensen–Shannon divergence of a column in two partitions, less that of chance, in bits.

    Numbers that were counted in other bins are counted anew: the cumulative distribution is
    interpolated between the cuts, and bins beyond them are joined.

    Returns:
        A number of at least 0, or None if the bins do not compare.
    """
    if not left.counts or not right.counts:
        return None
    if left.cuts != right.cuts:
        pair = _rebinned(left, right)
    elif left.values != right.values:
        pair = _matched(left, right)
    else:
        pair = np.array(left.counts, np.float64), np.array(right.counts, np.float64)
    if pair is None or not pair[0].sum() or not pair[1].sum():
        return None
    return of_samples(*pair)


def _rebinned(left: ColumnHealth, right: ColumnHealth) -> tuple[FloatArray, FloatArray] | None:
    """Counts of numbers between those cuts of the left that lie within the cuts of the right."""
    if not left.cuts or not right.cuts:
        return None
    cuts, others = np.array(left.cuts), np.array(right.cuts)
    within = np.flatnonzero((cuts >= others[0]) & (cuts <= others[-1]))
    if not len(within):
        return None
    cumulative = np.cumsum(right.counts, dtype=np.float64)
    at_cuts = np.interp(cuts[within], others, cumulative[:-1])
    own = np.cumsum(left.counts, dtype=np.float64)
    return (
        np.diff(own[within], prepend=0.0, append=own[-1]),
        np.diff(at_cuts, prepend=0.0, append=cumulative[-1]),
    )


def _matched(left: ColumnHealth, right: ColumnHealth) -> tuple[FloatArray, FloatArray]:
    """Counts of the categories that both name; all others count together."""
    common = [value for value in left.values if value in right.values]

    def counts(column: ColumnHealth) -> FloatArray:
        named = [float(column.counts[column.values.index(value)]) for value in common]
        return np.array([*named, sum(column.counts) - sum(named)])

    return counts(left), counts(right)


def largest_change(column: ColumnHealth) -> str:
    """The bin of a column that changed most against the model, as a sentence."""
    assert column.expected is not None  # drift is measured against it
    expected, total = np.array(column.expected), sum(column.counts)
    shares = np.array(column.counts) / total
    number = int(np.argmax(np.abs(shares - expected)))
    if number < len(column.values):
        where = f"{column.values[number]!r} is"
    elif column.values:
        where = "other values are"
    elif not number:
        where = f"values below {column.cuts[0]:.4g} are"
    elif number == len(column.cuts):
        where = f"values of at least {column.cuts[-1]:.4g} are"
    else:
        where = f"values from {column.cuts[number - 1]:.4g} to {column.cuts[number]:.4g} are"
    found, usual = percent(float(shares[number])), percent(float(expected[number]))
    return f"Its {where} {found} of the rows instead of {usual}"


def percent(share: float) -> str:
    """A share in percent with three digits."""
    return f"{100 * share:.3g} %"
