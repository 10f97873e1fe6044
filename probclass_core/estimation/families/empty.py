"""Errors for empty columns and classes, shared by the families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError


def require_values(features: Sequence[str], counts: Iterable[float], hint: str = "") -> None:
    """Refuse a column without any value.

    Args:
        features: ``d`` names.
        counts: ``d`` numbers that are 0 for a column without any value.
        hint: another way to fix it, in addition to leaving the column out.

    Raises:
        DataError: naming the column.
    """
    for feature, count in zip(features, counts, strict=True):
        if not count:
            raise DataError(
                f"column {feature!r} has no value in any training row; leave it out of the "
                f"block{hint}."
            )


def require_counts(features: Sequence[str], classes: pa.Array, total: FloatArray) -> None:
    """Refuse a class without any value of a column if its pseudo-counts are 0.

    Args:
        features: ``m`` names.
        classes: ``k`` labels.
        total: counts with pseudo-counts, ``(k, m)``.

    Raises:
        DataError: naming the class and the column.
    """
    for row, column in np.argwhere(total == 0.0)[:1]:
        raise DataError(
            f"class {classes[int(row)].as_py()!r} has no value of column {features[column]!r} and "
            "its pseudo-counts are 0; give it a pseudo_count, or leave the column out."
        )
