"""Distributions of one column for probclass: waiting times, sizes, shares, counts and angles.

positive  exponential, gamma, log_normal, and zero_inflated
others    beta, negative_binomial, von_mises
special   functions that keep their digits for narrow densities
"""

from __future__ import annotations

from collections.abc import Iterable

import probclass_core as pc
from probclass_distributions.others import Beta, NegativeBinomial, VonMises
from probclass_distributions.positive import Exponential, Gamma, LogNormal, ZeroInflated

__all__ = [
    "PROBCLASS_API",
    "Beta",
    "Exponential",
    "Gamma",
    "LogNormal",
    "NegativeBinomial",
    "VonMises",
    "ZeroInflated",
    "probclass_estimators",
]

PROBCLASS_API = 1
"""Version of the estimator contract that this plugin implements."""


@pc.hookimpl
def probclass_estimators() -> Iterable[type[pc.Estimator]]:
    """Registers the distributions, each independent for every column of its block."""
    yield from (Exponential, Gamma, LogNormal, Beta, NegativeBinomial, VonMises, ZeroInflated)
