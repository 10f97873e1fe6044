"""Calibration: maps that correct posteriors, fitted on labeled rows that training did not see.

A posterior is calibrated if four in five of the rows with posterior 0.8 are predicted correctly.
Blocks that are not independent make posteriors too extreme; two kinds of map correct that:

- ``temperature``: P(c | x)^(1/T), normalized, with the T of the smallest log loss on the held-out
  rows (Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017). It
  never changes which class is most probable.
- ``isotonic``: for each class, the non-decreasing map from P(c | x) to its frequency that has the
  smallest squared error, by pool-adjacent-violators, linear between its knots and constant beyond;
  then normalized (Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass
  probability estimates", 2002). It can give a class 0 or 1, and so new rows an infinite log loss.

A calibration is stored as a table: method, class, knot, value. Temperature has one row, with T as
its value; isotonic has a row for each knot of each class, with the calibrated probability as its
value. Maps change the posterior only: likelihoods and log p(x) remain the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.errors import DataError
from probclass_core.model.posterior import Posterior, normalize

METHODS = ("temperature", "isotonic")

_MAX_TEMPERATURE = 1000.0
"""Temperatures are limited to 1/1000 … 1000: held-out rows that are all predicted correctly, or no
better than by chance, would make them 0 or infinite."""


@dataclass(frozen=True)
class HeldOut:
    """Labeled rows to fit a calibration on.

    Attributes:
        posterior: uncalibrated posteriors of ``n`` rows.
        truth: position of the true class of each row, ``(n,)``.
        weights: weight of each row, ``(n,)``.
    """

    posterior: Posterior
    truth: IntArray
    weights: FloatArray


class Calibrator(Protocol):
    """A map from log posteriors to calibrated ones."""

    def rescale(self, log_probability: FloatArray) -> FloatArray:
        """Calibrated log posteriors before normalization: ``(n, k)`` to ``(n, k)``."""
        ...


def fit_calibration(batches: Sequence[HeldOut], classes: pa.Array, method: str) -> pa.Table:
    """Fit a calibration.

    Args:
        batches: held-out rows, at least one in total.
        classes: classes of the model, in class order.
        method: one of `METHODS`.

    Returns:
        The calibration as a table; see the module's docstring.

    Raises:
        DataError: if a class has no rows (isotonic), or the true class has probability 0 in every
            row (temperature).
    """
    maps: list[tuple[object, FloatArray, FloatArray]]
    if method == "isotonic":
        maps = _fit_isotonic(batches, classes)
    else:
        maps = [(None, np.array([np.nan]), np.array([_fit_temperature(batches)]))]
    knots = np.concatenate([knots for _, knots, _ in maps])
    return pa.table(
        {
            "method": pa.repeat(method, len(knots)),
            "class": pa.array([label for label, knots, _ in maps for _ in knots], classes.type),
            "knot": pa.array(knots, from_pandas=True),
            "value": np.concatenate([values for _, _, values in maps]),
        }
    )


def compile_calibration(table: pa.Table, classes: pa.Array) -> Calibrator:
    """The map that a calibration table describes."""
    if table["method"][0].as_py() == "temperature":
        return _Temperature(table["value"][0].as_py())
    maps = []
    for label in classes:
        rows = table.filter(pc.equal(table["class"], label))
        maps.append((rows["knot"].to_numpy(), rows["value"].to_numpy()))
    return _Isotonic(maps)


def apply_calibration(posterior: Posterior, calibrator: Calibrator) -> Posterior:
    """Calibrate posteriors.

    A row that no class explains keeps the prior. A row for which the map gives every class
    probability 0, as isotonic maps can, keeps its uncalibrated posterior.
    """
    joint = calibrator.rescale(posterior.log_probability)
    unchanged = np.isneginf(posterior.log_density) | np.isneginf(joint.max(axis=1))
    joint[unchanged] = posterior.log_probability[unchanged]
    fallback = np.zeros(joint.shape[1])  # never used: every row has a possible class
    return replace(posterior, log_probability=normalize(joint, fallback).log_probability)


@dataclass(frozen=True)
class _Temperature:
    temperature: float

    def rescale(self, log_probability: FloatArray) -> FloatArray:
        return log_probability / self.temperature


@dataclass(frozen=True)
class _Isotonic:
    maps: Sequence[tuple[FloatArray, FloatArray]]

    def rescale(self, log_probability: FloatArray) -> FloatArray:
        probability = np.exp(log_probability)
        for column, (knots, values) in zip(probability.T, self.maps, strict=True):
            column[:] = np.interp(column, knots, values)
        with np.errstate(divide="ignore"):
            return np.log(probability)


def _fit_temperature(batches: Sequence[HeldOut]) -> float:
    """The T of the smallest mean log loss, over the rows whose loss depends on T."""
    from scipy.optimize import brentq

    informative = [_informative_rows(batch) for batch in batches]
    if not sum(len(truth) for _, truth, _ in informative):
        raise DataError(
            "no temperature can correct the posterior: in every held-out row the true class has "
            "probability 0, or no class explains the row; smooth the model's estimators."
        )

    def slope(log_sharpness: float) -> float:
        """d log loss / d(1/T): Σ w (E[log P(c | x)] − log P(true | x)), which grows with 1/T."""
        return float(sum(_loss_slope(*rows, np.exp(log_sharpness)) for rows in informative))

    limit = np.log(_MAX_TEMPERATURE)
    if slope(-limit) >= 0.0:
        return _MAX_TEMPERATURE
    if slope(limit) <= 0.0:
        return 1.0 / _MAX_TEMPERATURE
    return float(np.exp(-brentq(slope, -limit, limit, xtol=1e-13)))


def _informative_rows(batch: HeldOut) -> tuple[FloatArray, IntArray, FloatArray]:
    """Log posteriors, true classes and weights of the rows whose loss depends on T."""
    scores = batch.posterior.log_probability
    true_scores = scores[np.arange(len(scores)), batch.truth]
    possible = np.isfinite(true_scores) & np.isfinite(batch.posterior.log_density)
    rows = possible & (batch.weights > 0.0)
    return scores[rows], batch.truth[rows], batch.weights[rows]


def _loss_slope(
    scores: FloatArray, truth: IntArray, weights: FloatArray, sharpness: float
) -> float:
    probability = normalize(sharpness * scores, np.zeros(scores.shape[1])).probability
    # 0 times −∞ is 0 here: an impossible class adds nothing to the mean.
    expected = np.where(probability > 0.0, probability * np.maximum(scores, -1e300), 0.0).sum(
        axis=1
    )
    return float(weights @ (expected - scores[np.arange(len(scores)), truth]))


def _fit_isotonic(
    batches: Sequence[HeldOut], classes: pa.Array
) -> list[tuple[object, FloatArray, FloatArray]]:
    """The map of each class: class, knots, values."""
    truth = np.concatenate([batch.truth for batch in batches])
    weights = np.concatenate([batch.weights for batch in batches])
    explained = np.concatenate([np.isfinite(batch.posterior.log_density) for batch in batches])
    rows = explained & (weights > 0.0)
    maps = []
    for position, label in enumerate(classes.to_pylist()):
        is_class = truth[rows] == position
        if not is_class.any():
            raise DataError(
                f"isotonic calibration needs held-out rows of every class, and {label!r} has none; "
                "take more rows, or calibrate by temperature."
            )
        columns = [np.exp(batch.posterior.log_probability[:, position]) for batch in batches]
        knots, values = _isotonic_map(np.concatenate(columns)[rows], is_class, weights[rows])
        maps.append((label, knots, values))
    return maps


def _isotonic_map(
    probability: FloatArray, is_class: np.ndarray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Knots and values by pool-adjacent-violators: the first and last knot of each level."""
    from scipy.optimize import isotonic_regression

    knots, index = np.unique(probability, return_inverse=True)
    weight = np.bincount(index, weights=weights)
    frequency = np.bincount(index, weights=weights * is_class) / weight
    values = np.clip(isotonic_regression(frequency, weights=weight).x, 0.0, 1.0)
    inner = np.zeros(len(knots), dtype=bool)
    inner[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return knots[~inner], values[~inner]
