"""Columns and classes with too few values for an estimate: errors, and notes on pooled estimates.

The functions ``require_…`` raise an error, which is what ``on_scarce="error"`` asks for. The others
write the sentences that `Estimator.annotate` records as ``scarce``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, one_of
from probclass_core.estimation.formulas import Formula

OF_PRIOR = "the probabilities there are those of the prior"
"""The estimates of a class without any value of a column, if pseudo-counts are positive."""

OF_ALL = "the probabilities there are those of all classes together"
"""The estimates of a class without any value of a column, if pseudo-counts are 0."""


class NoLikelihood:
    """The likelihood of a block of which no column had a value in training: log p(x | c) is 0.

    Args:
        classes: number of classes.
    """

    normalized = True

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def log_likelihood(self, rows: Rows) -> FloatArray:
        return np.zeros((len(rows), self.classes))

    def marginal(self, column: str) -> None:
        """None: it says nothing about any column."""

    def formula(self, missing: Sequence[str] = ()) -> Formula:
        return Formula([])


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


def without_values(features: Sequence[str], counts: Iterable[float]) -> list[str]:
    """A sentence about columns without any value, if there are such columns.

    Args:
        features: ``d`` names.
        counts: ``d`` numbers that are 0 for a column without any value.
    """
    empty = [name for name, count in zip(features, counts, strict=True) if not count]
    if not empty:
        return []
    if len(empty) == 1:
        return [f"column {empty[0]!r} has no value in any training row: the model leaves it out."]
    return [
        f"columns {one_of(empty)} have no value in any training row: the model leaves them out."
    ]


def pooled_counts(
    on_scarce: str, feature: str, classes: pa.Array, counts: FloatArray, prior: float
) -> tuple[FloatArray, BoolArray]:
    """Counts of a feature's values, with those of all classes for a class without any value.

    The latter only if there is no prior: with one, the class gets the prior's probabilities.

    Args:
        on_scarce: see `ModelSpec.on_scarce`.
        feature: name of the feature.
        classes: ``k`` labels.
        counts: ``(k, m)``.
        prior: sum of the pseudo-counts.

    Returns:
        Counts ``(k, m)``, and whether a class has no value, ``(k,)``.

    Raises:
        DataError: if the prior is 0 and ``on_scarce`` is ``"error"``, or no class has a value.
    """
    none = counts.sum(axis=1) == 0.0
    if not prior and on_scarce == "pool":
        counts = np.where(none[:, None], counts.sum(axis=0), counts)
    require_counts([feature], classes, counts.sum(axis=1, keepdims=True) + prior)
    return counts, none


def of_other_rows(
    features: Sequence[str], classes: pa.Array, masks: Sequence[BoolArray], prior: float
) -> list[str]:
    """A sentence about classes without any value of a column, if there are such classes.

    Args:
        features: ``m`` names.
        classes: ``k`` labels.
        masks: for each feature whether a class has no value, ``(k,)``.
        prior: 0 if the counts of all classes were taken, see `pooled_counts`.
    """
    if not masks:
        return []
    instead = OF_PRIOR if prior else OF_ALL
    return pooled("no value", features, classes, np.column_stack(masks), instead)


def pooled(
    found: str, features: Sequence[str], classes: pa.Array, mask: BoolArray, instead: str
) -> list[str]:
    """A sentence about classes whose estimates are not their own, if there are such classes.

    Args:
        found: what the classes have, such as ``"no value"``.
        features: ``m`` names.
        classes: ``k`` labels.
        mask: classes and columns without an estimate of their own, ``(k, m)``.
        instead: the estimate that is used.
    """
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return []
    label, feature = repr(classes[int(rows[0])].as_py()), repr(features[columns[0]])
    subject = f"class {label} has"
    if len(rows) > 1:
        subject = f"{len(rows):,} classes, such as {label}, have"
    where = f"column {feature}"
    if len(columns) > 1:
        where = f"{len(columns):,} columns, such as {feature}"
    return [f"{subject} {found} of {where}: {instead}."]
