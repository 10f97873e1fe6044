"""Kernel densities as a likelihood of probclass: any shape, from the rows themselves.

`estimator` has the four verbs, `bandwidth` the rules for how wide a kernel is.
"""

from __future__ import annotations

from collections.abc import Iterable

import probclass_core as pc
from probclass_kde.estimator import KernelDensity

__all__ = ["PROBCLASS_API", "KernelDensity", "probclass_estimators"]

PROBCLASS_API = 1
"""The version of the contract that this module follows."""


@pc.hookimpl
def probclass_estimators() -> Iterable[pc.EstimatorPlugin]:
    """Registers `KernelDensity`."""
    yield pc.EstimatorPlugin(
        name=KernelDensity.name,
        factory=KernelDensity,
        summary="a normal kernel at every training row, feature by feature",
        traits=pc.Traits(state_grows=True, factorizes=True),
    )
