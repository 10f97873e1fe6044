"""Posteriors under given shares of the classes, which differ from those of the training.

Under a label shift p(x | c) stays and only the shares of the classes change. The posterior under
shares π' then follows from that under π (Saerens, Latinne and Decaestecker, "Adjusting the outputs
of a classifier to new a priori probabilities: a simple procedure", Neural Computation 14, 2002,
eq. 2.4)::

    P'(c | x) = π'_c / π_c P(c | x) / Σ_d π'_d / π_d P(d | x)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError
from probclass_core.model.model import Model
from probclass_core.model.posterior import log_of
from probclass_core.model.prior import prior_table
from probclass_core.spec.model_spec import probabilities

_ROUNDING = 1e-3
"""Largest difference of the sum of given shares from 1: a report may have rounded them."""


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
