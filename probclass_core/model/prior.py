"""The class prior: shares of the training rows, equal shares, or given ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, one_of
from probclass_core.spec.model_spec import Prior, category_text


def prior_table(classes: pa.Array, counts: FloatArray, prior: Prior) -> pa.Table:
    """The prior of each class: a table with class, count (Σ w) and prior.

    Raises:
        SpecError: if a given prior is not a distribution over the classes.
    """
    if prior == "empirical":
        values = counts / counts.sum()
    elif prior == "uniform":
        values = np.full(len(classes), 1.0 / len(classes))
    else:
        assert isinstance(prior, Mapping)
        names = [category_text(value) for value in classes.to_pylist()]
        unknown = [name for name in prior if name not in names]
        missing = [name for name in names if name not in prior]
        if unknown or missing:
            problem = (
                f"names class {unknown[0]!r}" if unknown else f"leaves out class {missing[0]!r}"
            )
            raise SpecError(f"the prior {problem}; training saw {one_of(names)}.")
        values = np.array([prior[name] for name in names], dtype=np.float64)
    return pa.table({"class": classes, "count": counts, "prior": values})
