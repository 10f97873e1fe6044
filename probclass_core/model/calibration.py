"""Calibration: a map that corrects posteriors, fitted on labeled rows that training did not see.

A posterior is calibrated if four in five of the rows with posterior 0.8 are predicted correctly.
Blocks that are not independent make posteriors too extreme, and rows of another time have other
classes; one temperature T and a bias b_c for each class correct both (Alexandari, Kundaje and
Shrikumar, "Maximum likelihood with bias-corrected calibration is hard-to-beat at label shift
adaptation", 2020)::

    P(c | x) ∝ exp(s_c / T + b_c),  s_c = max(log P(c | x) − max_c' log P(c' | x), −20)

A row that the model is wrong and sure about counts, but does not decide everything.

A calibration cannot do much harm, by two rules. T and b minimize the log loss plus
½ (1/T − 1)² + ½ Σ b², a convex function that pulls toward no change, so that few rows change
little. And the map is used only if it lowers the log loss of the held-out rows, by more than one
standard error, when each fifth of them is calibrated by a map of the other four fifths.

A calibration is stored as a table: class, value. The first row has no class, and T as its value;
the others have the bias of each class. It changes the posterior only: likelihoods and log p(x)
remain the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.model.posterior import Posterior, normalize
from probclass_core.model.weight_problem import Fit, WeightProblem

MAX_TEMPERATURE = 1000.0
"""Largest temperature. Held-out rows on which the posterior is worse than chance reach it."""

LOWEST_SCORE = -20.0
"""Least score in nats, relative to the best class of the row."""

_FOLDS = 5


class HeldOut(NamedTuple):
    """Labeled rows to fit a calibration on.

    Attributes:
        log_probability: uncalibrated log P(c | x) of ``n`` rows, ``(n, k)``.
        explained: whether a class explains the row, ``(n,)``; other rows keep the prior.
        truth: position of the true class of each row, ``(n,)``.
        weights: weight of each row, ``(n,)``.
    """

    log_probability: FloatArray
    explained: BoolArray
    truth: IntArray
    weights: FloatArray

    def of(self, rows: BoolArray) -> HeldOut:
        """Some of the rows, by mask."""
        logs, explained = self.log_probability[rows], self.explained[rows]
        return HeldOut(logs, explained, self.truth[rows], self.weights[rows])

    def log_losses(self, log_probability: FloatArray) -> FloatArray:
        """Log loss of each row, ``(n,)``, under some log posteriors ``(n, k)``."""
        losses: FloatArray = -log_probability[np.arange(len(self.truth)), self.truth]
        return losses


@dataclass(frozen=True)
class Calibration:
    """exp(s / T + b), normalized.

    Attributes:
        temperature: T.
        bias: b of each class, ``(k,)``.
    """

    temperature: float
    bias: FloatArray

    @classmethod
    def from_table(cls, table: pa.Table) -> Calibration:
        """The inverse of `table`."""
        temperature, *bias = table["value"].to_pylist()
        return cls(temperature, np.array(bias))

    def table(self, classes: pa.Array) -> pa.Table:
        """The stored table; see the module's docstring."""
        labels = pa.concat_arrays([pa.nulls(1, classes.type), classes])
        return pa.table({"class": labels, "value": np.append(self.temperature, self.bias)})

    @classmethod
    def fit(cls, rows: HeldOut) -> Calibration:
        """Minimize Σ w log loss + ½ (1/T − 1)² + ½ Σ b²: a pool of one block of weight 1/T."""
        scores = _scores(rows.log_probability)
        problem = WeightProblem(
            factors=np.ascontiguousarray((scores[:, 1:] - scores[:, :1]).T)[None],
            log_prior=np.zeros(scores.shape[1]),
            reference=0,
            truth=rows.truth,
            counts=rows.weights,
            pull=1.0,
        )
        (sharpness,), bias = problem.solve(Fit(np.ones(1), problem.log_prior), precision=1e-15)
        return cls(1.0 / max(float(sharpness), 1.0 / MAX_TEMPERATURE), bias)

    def apply(self, posterior: Posterior) -> Posterior:
        """Calibrate posteriors; a row that no class explains keeps the prior."""
        calibrated = self._joint(posterior.log_probability)
        unchanged = np.isneginf(posterior.log_density)
        calibrated[unchanged] = posterior.log_probability[unchanged]
        return replace(_normalized(calibrated), log_density=posterior.log_density)

    def log_losses(self, rows: HeldOut) -> FloatArray:
        """Log loss of each row, ``(n,)``."""
        return rows.log_losses(_normalized(self._joint(rows.log_probability)).log_probability)

    def _joint(self, log_probability: FloatArray) -> FloatArray:
        joint = _scores(log_probability)
        joint /= self.temperature
        joint += self.bias
        return joint


def fit_calibration(batches: Sequence[HeldOut]) -> tuple[Calibration | None, float, float]:
    """Fit a calibration, and compare it with none.

    Rows that no class explains keep the prior, calibrated or not, and are left out.

    Returns:
        The map, None if it does not lower the log loss; the mean log loss of the rows without
        calibration, in nats, which can be infinite; and the same when each fifth of the rows is
        calibrated by a map that was fitted on the others.
    """
    kept = [batch.of(batch.explained & (batch.weights > 0.0)) for batch in batches]
    rows = HeldOut(*map(np.concatenate, zip(*kept, strict=True)))
    before, after = rows.log_losses(rows.log_probability), np.empty(len(rows.truth))
    fold = _folds(before, rows.truth)
    for number in range(_FOLDS):
        own = fold == number
        after[own] = Calibration.fit(rows.of(~own)).log_losses(rows.of(own))
    total = float(rows.weights.sum()) or 1.0
    log_loss_before = float(rows.weights @ before) / total
    log_loss_after = float(rows.weights @ after) / total
    gains = np.clip(before - after, LOWEST_SCORE, -LOWEST_SCORE)
    away = gains - (rows.weights @ gains) / total
    helps = log_loss_before - log_loss_after > math.sqrt(float(rows.weights @ away**2)) / total
    return Calibration.fit(rows) if helps else None, log_loss_before, log_loss_after


def _scores(log_probability: FloatArray) -> FloatArray:
    """Log posteriors relative to the best class of each row, at least `LOWEST_SCORE`."""
    scores: FloatArray = log_probability - log_probability.max(axis=1)[:, None]
    np.maximum(scores, LOWEST_SCORE, out=scores)
    return scores


def _normalized(joint: FloatArray) -> Posterior:
    fallback = np.zeros(joint.shape[1])  # never used: every row has a possible class
    return normalize(joint, fallback)


def _folds(log_losses: FloatArray, truth: IntArray) -> IntArray:
    """The number of the fold of each row, ``(n,)``.

    Folds are drawn for the rows in order of their class and its posterior, so they do not depend on
    the order in which the rows were read, except for rows that are equal in both.
    """
    order = np.lexsort([log_losses, truth])
    folds = np.empty(len(order), dtype=np.intp)
    # The raw stream of a bit generator is the same in all releases of NumPy.
    folds[order] = np.random.PCG64(0).random_raw(len(order)) % _FOLDS
    return folds
