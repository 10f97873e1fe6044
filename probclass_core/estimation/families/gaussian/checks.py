"""Errors for statistics that do not suffice for a normal model, by column, class and count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.errors import DataError
from probclass_core.estimation.families.scarce import pooled, without_values
from probclass_core.estimation.moments import Moments, own_scale

_ROUNDING = 1e-9
"""More than the relative difference of sums of the same weights in different orders."""


def modeled_columns(names: Sequence[str], moments: Moments) -> tuple[list[str], Moments, list[str]]:
    """The columns that have values, their moments ``(k, d)``, and notes about the others."""
    has = moments.count.max(axis=0) > 0.0
    columns = moments.map(lambda values: values[:, has])
    modeled = [name for name, some in zip(names, has, strict=True) if some]
    return modeled, columns, without_values([name for name in names if name not in modeled])


def notes_on_classes(
    features: Sequence[str], classes: pa.Array, none: BoolArray, alone: BoolArray
) -> list[str]:
    """Sentences about classes without values, and with too few for a variance.

    Args:
        features: ``d`` names.
        classes: ``k`` labels.
        none: cells without a value, ``(k, d)``.
        alone: cells with too few values for a variance, ``(k, d)``.
    """
    of_all = "the mean and variance there are those of all classes together"
    of_others = "the variance there is pooled over the classes"
    return [
        *pooled("no value", features, classes, none, of_all),
        *pooled("too few values for a variance", features, classes, alone, of_others),
    ]


def feature_scale(features: Sequence[str], moments: Moments) -> FloatArray:
    """The scale of each feature (see `moments.own_scale`): ``(d,)``, positive and finite.

    Raises:
        DataError: if a feature's squares are too large or too small for float64.
    """
    scale = own_scale(moments)
    for feature, value in zip(features, scale, strict=True):
        if not np.isfinite(value):
            raise DataError(
                f"column {feature!r} has values too large to square (beyond 1e154); "
                "divide it by a power of ten."
            )
        if value == 0.0:
            raise DataError(
                f"column {feature!r} has values too small to square (within 1e-152); multiply it "
                "by a power of ten, or leave it out."
            )
    return scale


def check_complete(
    estimator: str, features: Sequence[str], classes: pa.Array, count: FloatArray
) -> None:
    """Refuse rows with only some of their features: their integrals have no closed form.

    Args:
        estimator: name of the estimator, for messages.
        features: ``d`` names.
        classes: ``k`` labels.
        count: ``(k, d, d)`` weighted counts of rows that have both features.

    Raises:
        DataError: naming the columns, the class and the counts.
    """
    for label, pairs in zip(classes.to_pylist(), count, strict=True):
        most = pairs.max()
        if pairs.min() >= most * (1.0 - _ROUNDING):
            continue
        # If a single column is the least complete one, it is so in all its pairs.
        other = np.where(np.eye(len(pairs), dtype=bool), np.inf, pairs)
        first, second = sorted(map(int, np.unravel_index(np.argmin(other), pairs.shape)))
        raise DataError(
            f"{estimator}: class {label!r} has {pairs[first, first]:g} values of column "
            f"{features[first]!r}, {pairs[second, second]:g} of {features[second]!r} and "
            f"{pairs[first, second]:g} rows with both; with nulls the evidence has no closed "
            "form: use gaussian_diagonal, or drop the rows with nulls."
        )
