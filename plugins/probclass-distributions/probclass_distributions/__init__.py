"""Distributions of one column for probclass: waiting times, sizes, shares, counts and angles.

base      the estimator that they share: moments of each class and column, pooled if scarce
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

_SUMMARIES = {
    Exponential: "waiting times: numbers of at least 0 whose density falls from 0 on",
    Gamma: "amounts above 0, skewed to the right",
    LogNormal: "sizes above 0 whose logarithms are normal",
    Beta: "shares between 0 and 1",
    NegativeBinomial: "counts that vary more than a Poisson distribution",
    VonMises: "angles, directions and hours of the day: numbers with a period",
    ZeroInflated: "amounts that are often exactly 0, such as rain",
}


@pc.hookimpl
def probclass_estimators() -> Iterable[pc.EstimatorPlugin]:
    """Registers the distributions, each independent for every column of its block."""
    for estimator, summary in _SUMMARIES.items():
        yield pc.EstimatorPlugin(
            estimator.name, estimator, summary, traits=pc.Traits(factorizes=True)
        )
