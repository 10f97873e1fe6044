"""The shares of the classes among rows without labels.

Under a label shift p(x | c) stays and only the shares of the classes change. The posterior under
shares π' then follows from that under π (Saerens, Latinne and Decaestecker, "Adjusting the outputs
of a classifier to new a priori probabilities: a simple procedure", Neural Computation 14, 2002,
eq. 2.4), and the shares of the rows are those of the largest likelihood, found by EM (eq. 2.9)::

    P'(c | x) = π'_c / π_c P(c | x) / Σ_d π'_d / π_d P(d | x)
    π'_c     ← mean over the rows of P'(c | x)

The log-likelihood Σ log Σ_c π'_c / π_c P(c | x) is concave in π', so EM finds its maximum; each
step of it is extrapolated (Varadhan and Roland, "Simple and globally convergent methods for
accelerating the convergence of any EM algorithm", Scandinavian Journal of Statistics 35, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError
from probclass_core.model.model import Model
from probclass_core.model.posterior import log_of
from probclass_core.model.prior import prior_table
from probclass_core.spec.model_spec import probabilities

MOST_CLASSES = 100
"""Most classes whose shares are estimated: with more, fewer than 26 of the rows that are used are
left for each."""

_CELLS = 2**18
"""Rows × classes up to which all rows are used."""

_LEAST_PRECISION = 4.0
"""Inverse of the largest variance of a number between 0 and 1, which a share has at most."""

_ROUNDING = 1e-3
"""Largest difference of the sum of given shares from 1: a report may have rounded them."""

_STEPS = 200
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Shares:
    """Estimated shares of ``k`` classes.

    Attributes:
        shares: ``(k,)``, they sum to 1.
        errors: their standard errors, ``(k,)``.
    """

    shares: FloatArray
    errors: FloatArray


def used_rows(rows: int, classes: int) -> slice:
    """Which of the sampled rows to use: all of them, or evenly spaced ones."""
    return slice(None, None, max(1, -(-rows * classes // _CELLS)))


def estimate_shares(probability: FloatArray, prior: FloatArray) -> Shares:
    """Shares of the classes by EM, and their standard errors by the observed information.

    Args:
        probability: P(c | x) under the prior, ``(n, k)`` with n of at least 1.
        prior: π, ``(k,)``; the share of a class with prior 0 is 0.
    """
    shares = prior.copy()
    # P(c | x) / π_c is p(x | c) up to a factor of the row; one row per class.
    joint, of_class = np.ascontiguousarray(probability.T), prior[:, None]
    ratio = np.divide(joint, of_class, out=np.zeros_like(joint), where=of_class > 0.0)

    # Partitions of few rows are frequent: plain ufuncs avoid what array methods cost around them.
    def em(density: FloatArray, shares: FloatArray) -> FloatArray:
        """One step of EM from shares under which the rows have this density."""
        stepped: FloatArray = shares * (ratio @ (1.0 / density))
        stepped /= np.add.reduce(stepped)
        return stepped

    def log_likelihood(density: FloatArray) -> float:
        return float(np.add.reduce(np.log(density)))

    for _ in range(_STEPS):
        density = shares @ ratio
        first = em(density, shares)
        step = first - shares
        if np.maximum.reduce(np.abs(step)) < _TOLERANCE:
            break
        second = em(first @ ratio, first)
        curvature = second - first - step
        size = math.sqrt(float(curvature @ curvature))
        length = max(1.0, math.sqrt(float(step @ step)) / size) if size > 0.0 else 1.0
        jump = shares + 2.0 * length * step + length**2 * curvature
        shares = second
        if length > 1.0 and np.minimum.reduce(jump) > 0.0:  # a share of 0 would stay 0
            jump /= np.add.reduce(jump)
            landing = jump @ ratio
            if log_likelihood(landing) >= log_likelihood(density):
                shares = em(landing, jump)
    return Shares(shares, _errors(ratio / (shares @ ratio)))


def source_prior(model: Model) -> FloatArray:
    """The shares of the classes under which the posteriors of a model are right, ``(k,)``.

    For a calibrated model they are the mean posterior of the rows that it was calibrated on
    (Alexandari, Kundaje and Shrikumar, "Maximum likelihood with bias-corrected calibration is
    hard-to-beat at label shift adaptation", 2020); for others, or if it is not recorded, the prior.
    """
    mean = (model.training.get("calibration") or {}).get("mean_posterior")
    if model.calibration is None or not mean or set(mean) != set(model.class_names):
        of_model: FloatArray = model.priors["prior"].to_numpy()
        return of_model
    shares = np.array([mean[name] for name in model.class_names], np.float64)
    prior: FloatArray = shares / shares.sum()
    return prior


def prior_vector(model: Model, prior: Mapping[str, float]) -> FloatArray:
    """Shares of the classes in class order, ``(k,)``.

    Raises:
        SpecError: if they are not a distribution over the model's classes.
    """
    shares = probabilities(prior, "the prior", "class")
    total = math.fsum(shares.values())
    if abs(total - 1.0) > _ROUNDING:
        raise SpecError(f"the shares of a prior must sum to 1, got {dict(prior)!r}.")
    scaled = {name: share / total for name, share in shares.items()}
    table = prior_table(model.classes, model.priors["count"].to_numpy(), scaled)
    vector: FloatArray = table["prior"].to_numpy()
    return vector


def log_ratio(model: Model, prior: Mapping[str, float]) -> FloatArray:
    """Log of shares divided by those under which the posteriors of a model are, ``(k,)``.

    Raises:
        SpecError: if they are not a distribution over the model's classes.
    """
    shares, source = prior_vector(model, prior), source_prior(model)
    return log_of(shares) - np.log(np.where(source > 0.0, source, 1.0))


def _errors(slopes: FloatArray) -> FloatArray:
    """Standard errors by the observed information Σ s sᵀ of shares that sum to 1, ``(k,)``.

    Args:
        slopes: derivative of each row's log-likelihood by each share, ``(k, n)``.
    """
    size = len(slopes)
    # An orthonormal basis of the vectors whose entries sum to 0.
    basis = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, :-1]]))[0][:, 1:]
    within = basis.T @ slopes
    information = within @ within.T + _LEAST_PRECISION * np.eye(size - 1)
    variance = np.einsum("ij,ji->i", basis, np.linalg.solve(information, basis.T))
    errors: FloatArray = np.sqrt(variance)
    return errors
