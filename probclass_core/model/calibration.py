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
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.model.posterior import Posterior, normalize

METHODS = ("temperature_and_bias", "temperature", "isotonic")

MAX_TEMPERATURE = 1000.0
"""Largest temperature. Held-out rows on which the posterior is worse than chance reach it."""

_LOWEST_SCORE = -20.0
"""Least score in nats, relative to the best class of the row."""

_FOLDS = 5


@dataclass(frozen=True)
class HeldOut:
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


class Calibrator(Protocol):
    """A map from log posteriors to calibrated ones."""

    def rescale(self, log_probability: FloatArray) -> FloatArray:
        """Calibrated log posteriors before normalization: ``(n, k)`` to ``(n, k)``."""
        ...


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
    parts = _divided(batches, method)
    size = len(classes)
    calibrator: Softmax | IsotonicMaps
    cross_fitted: list[Calibrator]
    if method == "isotonic":
        calibrator = _fit_isotonic(parts, size, None)
        cross_fitted = [_fit_isotonic(parts, size, fold) for fold in range(_FOLDS)]
    else:
        biases = size if method == "temperature_and_bias" else 0
        calibrator = _fit_softmax(parts, biases, None)
        start = np.append(1.0 / calibrator.temperature, calibrator.bias[:biases])
        cross_fitted = [_fit_softmax(parts, biases, fold, start) for fold in range(_FOLDS)]
    weights = np.concatenate([part.weights for part in parts])
    before = np.concatenate([part.log_losses for part in parts])
    after = np.concatenate([part.calibrated_log_losses(cross_fitted) for part in parts])
    total = float(weights.sum()) or 1.0
    log_loss_before = float(weights @ before) / total
    log_loss_after = float(weights @ after) / total
    gains = np.clip(before - after, _LOWEST_SCORE, -_LOWEST_SCORE)
    error = math.sqrt(float(weights @ (gains - (weights @ gains) / total) ** 2)) / total
    applied = log_loss_before - log_loss_after > error
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
class _Part:
    """Held-out rows that a class explains.

    Attributes:
        logs: what a map of the method starts from: scores, or log posteriors, ``(n, k)``.
        log_losses: log loss of each row before calibration, ``(n,)``.
        truth: position of the true class, ``(n,)``.
        weights: ``(n,)``.
        folds: number of the fold, ``(n,)``.
    """

    logs: FloatArray
    log_losses: FloatArray
    truth: IntArray
    weights: FloatArray
    folds: IntArray

    def training_weights(self, left_out: int | None) -> FloatArray:
        """Weights that are 0 for the rows of a fold, ``(n,)``."""
        weights: FloatArray = self.weights * (self.folds != left_out)
        return weights

    def calibrated_log_losses(self, calibrators: Sequence[Calibrator]) -> FloatArray:
        """Log loss of each row, ``(n,)``, calibrated by the map of its fold."""
        losses = np.empty(len(self.truth))
        for fold, calibrator in enumerate(calibrators):
            rows = np.flatnonzero(self.folds == fold)
            logs = _normalized(calibrator.rescale(self.logs[rows])).log_probability
            losses[rows] = -logs[np.arange(len(rows)), self.truth[rows]]
        return losses


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
        with np.errstate(divide="ignore"):
            return np.log(probability)

    def table(self, method: str, classes: pa.Array) -> pa.Table:
        position = np.repeat(np.arange(len(classes)), [len(knots) for knots, _ in self.maps])
        knots, values = (np.concatenate(each) for each in zip(*self.maps, strict=True))
        return _table(method, classes.take(pa.array(position)), knots, values)


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


def _divided(batches: Sequence[HeldOut], method: str) -> list[_Part]:
    """The rows that a class explains, divided into folds.

    Folds are drawn for the rows in order of their class and its posterior, so they do not depend on
    the order in which the rows were read, except for rows that are equal in both.
    """
    kept = []
    for batch in batches:
        rows = np.flatnonzero(batch.explained & (batch.weights > 0.0))
        logs, truth = batch.log_probability[rows], batch.truth[rows]
        losses = -logs[np.arange(len(rows)), truth]
        logs = logs if method == "isotonic" else _scores(logs, _LOWEST_SCORE)
        kept.append((logs, losses, truth, batch.weights[rows]))
    ends = np.cumsum([len(truth) for _, _, truth, _ in kept])
    order = np.lexsort([np.concatenate([part[column] for part in kept]) for column in (1, 2)])
    folds = np.empty(len(order), dtype=np.intp)
    # The raw stream of a bit generator is the same in all releases of NumPy.
    folds[order] = np.random.PCG64(0).random_raw(len(order)) % _FOLDS
    of_parts = np.split(folds, ends[:-1])
    return [_Part(*part, each) for part, each in zip(kept, of_parts, strict=True)]


def _fit_softmax(
    parts: Sequence[_Part], biases: int, left_out: int | None, start: FloatArray | None = None
) -> Softmax:
    """Minimize Σ w log loss + ½ (1/T − 1)² + ½ Σ b², a convex function of 1/T and b.

    Args:
        parts: held-out rows.
        biases: number of classes, or 0 to fit no biases.
        left_out: fold to leave out.
        start: 1/T and biases to start from; by default those of the identity.
    """
    from scipy.optimize import minimize

    weighted = [(part, part.training_weights(left_out)) for part in parts]
    identity = np.concatenate([np.ones(1), np.zeros(biases)])
    start = identity if start is None else start
    # In units of about one standard error, the curvature is similar in all directions.
    information = sum(_derivatives(*each, start)[2] for each in weighted)
    unit = 1.0 / np.sqrt(1.0 + information)

    def objective(steps: FloatArray) -> tuple[float, FloatArray]:
        parameters = start + unit * steps
        away = parameters - identity
        value, gradient = 0.5 * float(away @ away), away
        for each in weighted:
            loss, slope, _ = _derivatives(*each, parameters)
            value += loss
            gradient = gradient + slope
        return value, gradient * unit

    found = minimize(
        objective,
        np.zeros(1 + biases),
        jac=True,
        method="L-BFGS-B",
        bounds=[((1.0 / MAX_TEMPERATURE - start[0]) / unit[0], None)] + [(None, None)] * biases,
        options={"maxiter": 1000, "maxfun": 10_000, "maxcor": 20, "ftol": 1e-15, "gtol": 1e-6},
    ).x
    parameters = start + unit * found
    sharpness = max(float(parameters[0]), 1.0 / MAX_TEMPERATURE)
    size = parts[0].logs.shape[1]
    return Softmax(1.0 / sharpness, parameters[1:] if biases else np.zeros(size))


def _derivatives(
    part: _Part, weights: FloatArray, parameters: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Σ w log loss of some rows, its gradient by 1/T and biases, and Σ w of each row's squared."""
    rows, bias = np.arange(len(weights)), parameters[1:]
    excess = parameters[0] * part.logs
    if len(bias):
        excess += bias
    excess -= excess.max(axis=1)[:, None]
    own = excess[rows, part.truth]
    np.exp(excess, out=excess)
    total = excess.sum(axis=1)
    loss = float(weights @ (np.log(total) - own))
    excess /= total[:, None]
    excess[rows, part.truth] -= 1.0
    by_sharpness = np.einsum("ij,ij->i", excess, part.logs)
    by_bias = excess[:, : len(bias)]
    gradient = np.append(weights @ by_sharpness, weights @ by_bias)
    squares = np.append(weights @ by_sharpness**2, weights @ by_bias**2)
    return loss, gradient, squares


def _fit_isotonic(parts: Sequence[_Part], size: int, left_out: int | None) -> IsotonicMaps:
    truth = np.concatenate([part.truth for part in parts])
    weights = np.concatenate([part.training_weights(left_out) for part in parts])
    rows = weights > 0.0
    maps = []
    for position in range(size):
        is_class = truth[rows] == position
        if is_class.any():
            logs = np.concatenate([part.logs[:, position] for part in parts])
            maps.append(_isotonic_map(np.exp(logs[rows]), is_class, weights[rows], size))
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
