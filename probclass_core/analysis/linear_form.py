"""Models whose log odds are linear in the features, as tables of weights."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from probclass_core.errors import NotSupportedError, one_of
from probclass_core.estimation.contract import LinearLikelihood
from probclass_core.estimation.tidy import tidy_table
from probclass_core.model.model import Model


def linear_form(model: Model) -> pa.Table:
    """log p(x, c) as a linear function of the features, up to a term common to all classes.

    It applies to rows without nulls and includes neither block weights nor a calibration.

    Returns:
        class, feature, weight: for each class one row per feature, and one row with a null
        feature for the intercept, which includes log P(c).

    Raises:
        NotSupportedError: if a block is not linear in its features.
    """
    linear = {
        name: likelihood
        for name, likelihood in model.likelihoods.items()
        if isinstance(likelihood, LinearLikelihood)
    }
    for block in model.spec.blocks:
        if block.name not in linear:
            raise NotSupportedError(
                f"block {block.name!r} ({block.estimator}) is not linear in its features; "
                f"the linear blocks of this model: {one_of(linear)}."
            )
    forms = [linear[str(block.name)].linear_form() for block in model.spec.blocks]
    features = [*(name for names, _, _ in forms for name in names), None]
    intercept = model.log_prior + sum(intercept for _, _, intercept in forms)
    weights = np.column_stack([*(weights for _, weights, _ in forms), intercept])
    cells = {"feature": pa.array(features, pa.string())}
    return tidy_table(model.classes, cells, {"weight": weights})
