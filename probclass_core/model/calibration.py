"""Calibration: maps that correct posteriors, fitted on labeled rows that training did not see.

A posterior is calibrated if four in five of the rows with posterior 0.8 are predicted correctly.
Blocks that are not independent make posteriors too extreme; three kinds of map correct that. The
first two start from scores s_c = max(log P(c | x) − max_c' log P(c' | x), −20), so that a row that
the model is wrong and sure about counts, but does not decide everything:

- ``temperature_and_bias``: P(c | x) ∝ exp(s_c / T + b_c), with one temperature T and a bias b_c for
  each class (Alexandari, Kundaje and Shrikumar, "Maximum likelihood with bias-corrected calibration
  is hard-to-beat at label shift adaptation", 2020).
- ``temperature``: the same without biases, so that the most probable class stays the same (Guo,
  Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017).
- ``isotonic``: for each class, the non-decreasing map from P(c | x) to its frequency that has the
  smallest squared error, by pool-adjacent-violators, linear between its knots; then normalized
  (Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass probability
  estimates", 2002).

A calibration cannot do much harm, by three rules. T and b minimize the log loss plus
½ (1/T − 1)² + ½ Σ b², a convex function that pulls toward no change, so that few rows change
little. Isotonic maps are fitted to the rows and one more row of unknown class, 1/k of it of the
class although the model gave probability 0, the rest of another although the model gave 1, so that
no map gives exactly 0 or 1; a class without rows keeps its probability. And a map is used only if
it lowers the log loss of the held-out rows, by more than one standard error, when each fifth of
them is calibrated by a map of the other four fifths; otherwise the calibration is the ``identity``.

A calibration is stored as a table: method, class, knot, value. A temperature is a row without a
class, with T as its value and the bound −20 as its knot; a bias is a row with a class and without a
knot. Isotonic has a row for each knot of each class, with the calibrated probability as its value.
The identity has one row, with temperature 1 and without a knot.
Maps change the posterior only: likelihoods and log p(x) remain the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.model.posterior import Posterior, log_of, normalize
from probclass_core.model.weight_problem import Fit, WeightProblem

METHODS = ("temperature_and_bias", "temperature", "isotonic")

MAX_TEMPERATURE = 1000.0
"""Largest temperature. Held-out rows on which the posterior is worse than chance reach it."""

_LOWEST_SCORE = -20.0
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
class FittedCalibration:
    """A calibration and what it does to the held-out rows.

    Attributes:
        table: the calibration; see the module's docstring.
        uncalibrated_log_loss: mean log loss of the rows without calibration, in nats; it can be
            infinite.
        calibrated_log_loss: the same when each fifth of the rows is calibrated by a map that was
            fitted on the others.
        applied: whether the map lowers the log loss; otherwise the table is the identity.
        bounded: whether the temperature reached its bound.
    """

    table: pa.Table
    uncalibrated_log_loss: float
    calibrated_log_loss: float
    applied: bool
    bounded: bool


def fit_calibration(
    batches: Sequence[HeldOut], classes: pa.Array, method: str
) -> FittedCalibration:
    """Fit a calibration, and compare it with none.

    Rows that no class explains keep the prior, calibrated or not, and are left out.

    Args:
        batches: held-out rows.
        classes: classes of the model, in class order.
        method: one of `METHODS`.
    """
    rows = _counted(batches)
    calibrator = _fit(rows, method)
    before, after = rows.log_losses(rows.log_probability), np.empty(len(rows.truth))
    fold = _folds(before, rows.truth)
    for number in range(_FOLDS):
        own = rows.of(fold == number)
        cross_fitted = _fit(rows.of(fold != number), method)
        calibrated = _normalized(cross_fitted.rescale(own.log_probability))
        after[fold == number] = own.log_losses(calibrated.log_probability)
    total = float(rows.weights.sum()) or 1.0
    log_loss_before = float(rows.weights @ before) / total
    log_loss_after = float(rows.weights @ after) / total
    gains = np.clip(before - after, _LOWEST_SCORE, -_LOWEST_SCORE)
    away = gains - (rows.weights @ gains) / total
    applied = log_loss_before - log_loss_after > math.sqrt(float(rows.weights @ away**2)) / total
    return FittedCalibration(
        table=calibrator.table(method, classes) if applied else _identity_table(classes),
        uncalibrated_log_loss=log_loss_before,
        calibrated_log_loss=log_loss_after,
        applied=applied,
        bounded=isinstance(calibrator, Softmax) and calibrator.temperature > MAX_TEMPERATURE - 1,
    )


def compile_calibration(table: pa.Table, classes: pa.Array) -> Calibrator | None:
    """The map that a calibration table describes; None for the identity."""
    method = table["method"][0].as_py()
    if method == "identity":
        return None
    if method == "isotonic":
        rows = (table.filter(pc.equal(table["class"], label)) for label in classes)
        return IsotonicMaps([(each["knot"].to_numpy(), each["value"].to_numpy()) for each in rows])
    first = table.slice(0, 1).to_pylist()[0]
    bias = table["value"].to_numpy()[1:] if table.num_rows > 1 else np.zeros(len(classes))
    return Softmax(first["value"], bias, first["knot"])


def apply_calibration(posterior: Posterior, calibrator: Calibrator) -> Posterior:
    """Calibrate posteriors; a row that no class explains keeps the prior."""
    joint = calibrator.rescale(posterior.log_probability)
    unchanged = np.isneginf(posterior.log_density)
    joint[unchanged] = posterior.log_probability[unchanged]
    return replace(_normalized(joint), log_density=posterior.log_density)


@dataclass(frozen=True)
class Softmax:
    """exp(s / T + b), with biases ``(k,)`` and scores of at least ``lowest``."""

    temperature: float
    bias: FloatArray
    lowest: float = _LOWEST_SCORE

    def rescale(self, log_probability: FloatArray) -> FloatArray:
        scores = _scores(log_probability, self.lowest)
        scores /= self.temperature
        scores += self.bias
        return scores

    def table(self, method: str, classes: pa.Array) -> pa.Table:
        biases = classes if method == "temperature_and_bias" else classes.slice(0, 0)
        return _table(
            method,
            pa.concat_arrays([pa.nulls(1, classes.type), biases]),
            pa.array([self.lowest, *[None] * len(biases)], pa.float64()),
            np.array([self.temperature, *self.bias[: len(biases)]]),
        )


@dataclass(frozen=True)
class IsotonicMaps:
    """Knots and values of each class."""

    maps: Sequence[tuple[FloatArray, FloatArray]]

    def rescale(self, log_probability: FloatArray) -> FloatArray:
        probability = np.exp(log_probability)
        for column, (knots, values) in zip(probability.T, self.maps, strict=True):
            column[:] = np.interp(column, knots, values)
        return log_of(probability)

    def table(self, method: str, classes: pa.Array) -> pa.Table:
        position = np.repeat(np.arange(len(classes)), [len(knots) for knots, _ in self.maps])
        knots, values = (np.concatenate(each) for each in zip(*self.maps, strict=True))
        return _table(method, classes.take(pa.array(position)), knots, values)


Calibrator = Softmax | IsotonicMaps
"""A map from log posteriors to calibrated ones; its method ``rescale`` leaves the sum to others."""


def _identity_table(classes: pa.Array) -> pa.Table:
    return _table("identity", pa.nulls(1, classes.type), pa.nulls(1, pa.float64()), np.ones(1))


def _table(method: str, labels: pa.Array, knots: object, values: FloatArray) -> pa.Table:
    methods = pa.repeat(method, len(values))
    return pa.table({"method": methods, "class": labels, "knot": knots, "value": values})


def _scores(log_probability: FloatArray, lowest: float) -> FloatArray:
    """Log posteriors relative to the best class of each row, at least ``lowest``."""
    scores: FloatArray = log_probability - log_probability.max(axis=1)[:, None]
    np.maximum(scores, lowest, out=scores)
    return scores


def _normalized(joint: FloatArray) -> Posterior:
    fallback = np.zeros(joint.shape[1])  # never used: every row has a possible class
    return normalize(joint, fallback)


def _counted(batches: Sequence[HeldOut]) -> HeldOut:
    """The rows that count and that a class explains."""
    kept = [batch.of(batch.explained & (batch.weights > 0.0)) for batch in batches]
    return HeldOut(*map(np.concatenate, zip(*kept, strict=True)))


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


def _fit(rows: HeldOut, method: str) -> Calibrator:
    return _fit_isotonic(rows) if method == "isotonic" else _fit_softmax(rows, method)


def _fit_softmax(rows: HeldOut, method: str) -> Softmax:
    """Minimize Σ w log loss + ½ (1/T − 1)² + ½ Σ b²: a pool of one block, whose weight is 1/T."""
    scores = _scores(rows.log_probability, _LOWEST_SCORE)
    problem = WeightProblem(
        factors=np.ascontiguousarray((scores[:, 1:] - scores[:, :1]).T)[None],
        log_prior=np.zeros(scores.shape[1]),
        reference=0,
        truth=rows.truth,
        counts=rows.weights,
        pull=1.0,
        has_biases=method == "temperature_and_bias",
    )
    (sharpness,), bias = problem.solve(Fit(np.ones(1), problem.log_prior), precision=1e-15)
    return Softmax(1.0 / max(float(sharpness), 1.0 / MAX_TEMPERATURE), bias)


def _fit_isotonic(rows: HeldOut) -> IsotonicMaps:
    maps = []
    size = rows.log_probability.shape[1]
    for position, log_probability in enumerate(rows.log_probability.T):
        is_class = rows.truth == position
        if is_class.any():
            probability = np.exp(log_probability)
            maps.append(_isotonic_map(probability, is_class, rows.weights, size))
        else:
            ends = np.array([math.exp(_LOWEST_SCORE), 1.0])
            maps.append((ends, ends))
    return IsotonicMaps(maps)


def _isotonic_map(
    probability: FloatArray, is_class: np.ndarray, weights: FloatArray, size: int
) -> tuple[FloatArray, FloatArray]:
    """Knots and values by pool-adjacent-violators: the first and last knot of each level."""
    from scipy.optimize import isotonic_regression

    # One more row of unknown class: 1/k of it at probability 0, the rest at 1.
    probability = np.concatenate([probability, [0.0, 1.0]])
    weights = np.concatenate([weights, [1.0 / size, 1.0 - 1.0 / size]])
    is_class = np.concatenate([is_class, [True, False]])
    counted = weights > 0.0
    probability, weights, is_class = (each[counted] for each in (probability, weights, is_class))
    knots, index = np.unique(probability, return_inverse=True)
    weight = np.bincount(index, weights=weights)
    frequency = np.bincount(index, weights=weights * is_class) / weight
    values = isotonic_regression(frequency, weights=weight).x
    inner = np.zeros(len(knots), dtype=bool)
    inner[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return knots[~inner], values[~inner]
