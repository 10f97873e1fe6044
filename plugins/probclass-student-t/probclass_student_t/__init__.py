"""Student's t for probclass: a location, a scale and heavy tails.

estimator  student_t: the estimator, with up to three passes over the rows
fitting    maximum likelihood for values with counts
"""

from __future__ import annotations

from collections.abc import Iterable

import probclass_core as pc
from probclass_student_t.estimator import StudentT

__all__ = ["PROBCLASS_API", "StudentT", "probclass_estimators"]

PROBCLASS_API = 1
"""Version of the estimator contract that this plugin implements."""


@pc.hookimpl
def probclass_estimators() -> Iterable[type[pc.Estimator]]:
    """Registers `StudentT`."""
    yield StudentT
