"""Kernel densities for probclass: densities of any shape, from the training rows themselves.

estimator  kde: the estimator
bandwidth  rules for the width of the kernels
"""

from __future__ import annotations

from collections.abc import Iterable

import probclass_core as pc
from probclass_kde.estimator import KernelDensity

__all__ = ["PROBCLASS_API", "KernelDensity", "probclass_estimators"]

PROBCLASS_API = 1
"""Version of the estimator contract that this plugin implements."""


@pc.hookimpl
def probclass_estimators() -> Iterable[type[pc.Estimator]]:
    """Registers `KernelDensity`."""
    yield KernelDensity
