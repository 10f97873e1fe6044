"""Posteriors put right by labeled rows that training did not see.

A posterior is calibrated when, of the rows told 0.8, four in five are right. Independence that does
not hold makes posteriors too extreme; two maps mend it after the fact:

- ``temperature``: P(c | x)^(1/T), normalized, with the one T of the least log loss on the held-out
  rows (Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017). It
  changes no decision of the largest posterior.
- ``isotonic``: for each class, the non-decreasing map from P(c | x) to its frequency that has the
  least squared error, by pool-adjacent-violators, linear between its knots and constant beyond;
  then normalized (Zadrozny and Elkan, "Transforming classifier scores into accurate multiclass
  probability estimates", 2002). It may well give 0 or 1, and so an infinite log loss on new rows.

A calibration is a table: method, class, knot, value. Temperature has one row, T its value; isotonic
has a row for each knot of each class, the calibrated probability its value. Maps act on the
posterior alone: likelihoods and log p(x) stay what they are.
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

_BOUND = 1000.0
"""A temperature lies between 1/1000 and 1000, where held-out rows that are all right, or no better
than chance, would have it 0 or infinite."""


@dataclass(frozen=True)
class HeldOut:
    """Labeled rows that a calibration is fitted on.

    Attributes:
        posterior: of the rows, not calibrated.
        truth: the true class of each, as a position, ``(n,)``.
        weights: ``(n,)``.
    """

    posterior: Posterior
    truth: IntArray
    weights: FloatArray


class Calibrator(Protocol):
    """A map from posteriors to calibrated ones."""

    def rescaled(self, log_probability: FloatArray) -> FloatArray:
        """Log posteriors, not yet normalized: ``(n, k)`` to ``(n, k)``."""
        ...


def fit_calibration(parts: Sequence[HeldOut], classes: pa.Array, method: str) -> pa.Table:
    """The table of a calibration.

    Args:
        parts: held-out rows; together at least one.
        classes: in class order.
        method: one of `METHODS`.

    Raises:
        DataError: isotonic, and a class has no rows; or temperature, and the true class has
            probability 0 in all.
    """
    found: list[tuple[object, FloatArray, FloatArray]]
    if method == "isotonic":
        found = _isotonic(parts, classes)
    else:
        found = [(None, np.array([np.nan]), np.array([_temperature(parts)]))]
    knots = np.concatenate([knots for _, knots, _ in found])
    return pa.table(
        {
            "method": pa.repeat(method, len(knots)),
            "class": pa.array([label for label, at, _ in found for _ in at], classes.type),
            "knot": pa.array(knots, from_pandas=True),
            "value": np.concatenate([values for _, _, values in found]),
        }
    )


def calibrator(table: pa.Table, classes: pa.Array) -> Calibrator:
    """The map that a table describes."""
    if table["method"][0].as_py() == "temperature":
        return _Temperature(table["value"][0].as_py())
    maps = []
    for label in classes:
        rows = table.filter(pc.equal(table["class"], label))
        maps.append((rows["knot"].to_numpy(), rows["value"].to_numpy()))
    return _Isotonic(maps)


def calibrated(posterior: Posterior, by: Calibrator) -> Posterior:
    """The posterior, calibrated.

    A row that no class explains keeps the prior; one to which the map leaves no probability at all,
    as isotonic maps can, keeps its posterior as it was.
    """
    joint = by.rescaled(posterior.log_probability)
    kept = np.isneginf(posterior.log_density) | np.isneginf(joint.max(axis=1))
    joint[kept] = posterior.log_probability[kept]
    never_needed = np.zeros(joint.shape[1])  # every row has a class that is possible
    return replace(posterior, log_probability=normalize(joint, never_needed).log_probability)


@dataclass(frozen=True)
class _Temperature:
    temperature: float

    def rescaled(self, log_probability: FloatArray) -> FloatArray:
        return log_probability / self.temperature


@dataclass(frozen=True)
class _Isotonic:
    maps: Sequence[tuple[FloatArray, FloatArray]]

    def rescaled(self, log_probability: FloatArray) -> FloatArray:
        probability = np.exp(log_probability)
        for column, (knots, values) in zip(probability.T, self.maps, strict=True):
            column[:] = np.interp(column, knots, values)
        with np.errstate(divide="ignore"):
            return np.log(probability)


def _temperature(parts: Sequence[HeldOut]) -> float:
    """The T of the least mean log loss; rows that no T can change are left out."""
    from scipy.optimize import brentq

    rows = [_informative(part) for part in parts]
    if not sum(len(truth) for _, truth, _ in rows):
        raise DataError(
            "no temperature can mend the posterior: in every held-out row the true class has "
            "probability 0, or no class explains the row; smooth the model's estimators."
        )

    def slope(log_sharpness: float) -> float:
        """d log loss / d(1/T): Σ w (E[log P(c | x)] − log P(true | x)), which grows with 1/T."""
        return float(sum(_slope(*part, np.exp(log_sharpness)) for part in rows))

    most = np.log(_BOUND)
    if slope(-most) >= 0.0:
        return _BOUND
    if slope(most) <= 0.0:
        return 1.0 / _BOUND
    return float(np.exp(-brentq(slope, -most, most, xtol=1e-13)))


def _informative(part: HeldOut) -> tuple[FloatArray, IntArray, FloatArray]:
    scores = part.posterior.log_probability
    true = scores[np.arange(len(scores)), part.truth]
    rows = np.isfinite(true) & np.isfinite(part.posterior.log_density) & (part.weights > 0.0)
    return scores[rows], part.truth[rows], part.weights[rows]


def _slope(scores: FloatArray, truth: IntArray, weights: FloatArray, sharpness: float) -> float:
    probability = normalize(sharpness * scores, np.zeros(scores.shape[1])).probability
    # 0 times −∞ is 0 here: what is impossible adds nothing to a mean.
    expected = np.where(probability > 0.0, probability * np.maximum(scores, -1e300), 0.0).sum(
        axis=1
    )
    return float(weights @ (expected - scores[np.arange(len(scores)), truth]))


def _isotonic(
    parts: Sequence[HeldOut], classes: pa.Array
) -> list[tuple[object, FloatArray, FloatArray]]:
    truth = np.concatenate([part.truth for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    explained = np.concatenate([np.isfinite(part.posterior.log_density) for part in parts])
    rows = explained & (weights > 0.0)
    found = []
    for place, label in enumerate(classes.to_pylist()):
        came_true = truth[rows] == place
        if not came_true.any():
            raise DataError(
                f"isotonic calibration needs held-out rows of every class, and {label!r} has none; "
                "take more rows, or calibrate by temperature."
            )
        column = [np.exp(part.posterior.log_probability[:, place]) for part in parts]
        knots, values = _pooled(np.concatenate(column)[rows], came_true, weights[rows])
        found.append((label, knots, values))
    return found


def _pooled(
    probability: FloatArray, came_true: np.ndarray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Pool adjacent violators: the first and last knot of each level."""
    from scipy.optimize import isotonic_regression

    knots, place = np.unique(probability, return_inverse=True)
    weight = np.bincount(place, weights=weights)
    frequency = np.bincount(place, weights=weights * came_true) / weight
    values = np.clip(isotonic_regression(frequency, weights=weight).x, 0.0, 1.0)
    inner = np.zeros(len(knots), dtype=bool)
    inner[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return knots[~inner], values[~inner]
