"""Student's t as a likelihood of probclass: a location, a scale, and how heavy the tails are.

`estimator` has the four verbs and the second pass, `fitting` the maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable

import probclass_core as pc
from probclass_student_t.estimator import StudentT

__all__ = ["PROBCLASS_API", "StudentT", "probclass_estimators"]

PROBCLASS_API = 1
"""The version of the contract that this module follows."""


@pc.hookimpl
def probclass_estimators() -> Iterable[pc.EstimatorPlugin]:
    """Registers `StudentT`."""
    yield pc.EstimatorPlugin(
        name=StudentT.name,
        factory=StudentT,
        summary="Student's t per feature, for numbers with heavy tails and outliers",
        traits=pc.Traits(factorizes=True, passes=3),
    )
