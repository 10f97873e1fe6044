"""Posteriors from joint log-likelihoods: the only place where probabilities are normalized.

P(c | x) = p(x | c) P(c) / p(x), with p(x) = Σ_c p(x | c) P(c) (Zaki and Meira, ch. 18.1), in logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.errors import PluginError

_FEW_ROWS = 256
"""Up to this many rows `numpy.argmax`, which goes row by row, beats a loop over the classes."""


@dataclass(frozen=True)
class Posterior:
    """Posteriors of ``n`` rows over ``k`` classes.

    Attributes:
        log_probability: log P(c | x), ``(n, k)``.
        probability: P(c | x), ``(n, k)``; every row sums to 1.
        log_density: log p(x) in nats, ``(n,)``; −inf if every class gives the row likelihood 0.
    """

    log_probability: FloatArray
    probability: FloatArray
    log_density: FloatArray

    @property
    def most_probable(self) -> IntArray:
        """The position of the most probable class of each row, ``(n,)``; ties go to the first."""
        return largest(self.log_probability)

    def runner_up(self, choice: IntArray) -> IntArray:
        """The position of the most probable class besides the chosen one, ``(n,)``.

        Ties go to the first class.

        Args:
            choice: position of a class, ``(n,)``; there are others.
        """
        others = self.log_probability.copy(order="K")
        others[np.arange(len(choice)), choice] = -np.inf
        found = largest(others)
        # If all others are impossible, it is the first of them.
        return np.where(found == choice, choice == 0, found)

    def log_odds(self, first: IntArray, second: IntArray) -> FloatArray:
        """log P(c | x) − log P(d | x) of two classes per row, given by position, ``(n,)`` each."""
        rows = np.arange(len(first))
        difference: FloatArray = (
            self.log_probability[rows, first] - self.log_probability[rows, second]
        )
        return difference

    def probability_of(self, positions: IntArray) -> FloatArray:
        """P(c | x) of one class per row, ``(n,)``; the classes are given by position, ``(n,)``."""
        rows = len(positions)
        flat = self.probability.T.reshape(-1)  # class by class: usually its order in memory
        probability: FloatArray = flat.take(positions * rows + np.arange(rows))
        return probability


def largest(numbers: FloatArray) -> IntArray:
    """The position of the largest number of each row of ``(n, k)``; ties go to the first."""
    first, *others = numbers.T
    if len(first) < _FEW_ROWS:
        positions: IntArray = np.argmax(numbers, axis=1)
        return positions
    most, best = first.copy(), np.zeros(len(first), np.min_scalar_type(len(others)))
    for position, column in enumerate(others, 1):
        np.maximum(best, (column > most) * best.dtype.type(position), out=best)
        np.maximum(most, column, out=most)
    return best.astype(np.intp)


def normalize(joint: FloatArray, log_prior: FloatArray) -> Posterior:
    """Posteriors from joint log-likelihoods.

    Args:
        joint: log p(x | c) + log P(c), ``(n, k)``, finite or −inf.
        log_prior: log P(c), ``(k,)``: the posterior of a row that no class can explain.

    Raises:
        PluginError: if the joint is something else, which only an estimator with a fault gives.
    """
    peak = joint.max(axis=1)
    if not (peak < np.inf).all():
        row = int(np.argmin(peak < np.inf))
        raise PluginError(
            f"the density of {np.count_nonzero(~(peak < np.inf)):,} rows is NaN or +∞, such as of "
            f"row {row} of a batch: the log_density of an estimator must be finite or −∞."
        )
    impossible = np.isneginf(peak)
    scaled = joint - np.where(impossible, 0.0, peak)[:, None]
    scaled[impossible] = log_prior
    # The sum is between 1 and k, or that of the prior, so nothing overflows.
    probability = np.exp(scaled)
    total = probability.sum(axis=1)
    log_sum = np.where(impossible, 0.0, np.log(total))
    scaled -= log_sum[:, None]
    probability /= total[:, None]
    return Posterior(scaled, probability, peak + log_sum)


def log_of(probability: Any) -> FloatArray:
    """The logs of probabilities; −∞ for 0."""
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(np.asarray(probability, dtype=np.float64))
    return logs


def log_density(joint: FloatArray) -> FloatArray:
    """log p(x), ``(n,)``, as `normalize` gives it for the same joint log-likelihoods."""
    peak = joint.max(axis=1)
    impossible = np.isneginf(peak)
    total = np.exp(joint - np.where(impossible, 0.0, peak)[:, None]).sum(axis=1)
    density: FloatArray = peak + np.log(np.where(impossible, 1.0, total))
    return density
