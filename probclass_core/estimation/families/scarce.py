"""Columns and classes with too few values for an estimate: the sentences on other estimates.

`Estimator.annotate` records them as ``scarce``, or refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import one_of
from probclass_core.estimation.formulas import Formula


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

    def formula(self) -> Formula:
        return Formula([])


def without_values(empty: Sequence[str], lack: str = "in any training row") -> list[str]:
    """A sentence about columns without any value, if there are such columns.

    Args:
        empty: the columns.
        lack: which value they have not.
    """
    if not empty:
        return []
    one = len(empty) == 1
    columns, has, them = ("column", "has", "it") if one else ("columns", "have", "them")
    names = repr(empty[0]) if one else one_of(empty)
    return [f"{columns} {names} {has} no value {lack}: the model leaves {them} out."]


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
    columns = np.flatnonzero(mask.any(axis=0))
    if not len(columns):
        return []
    where = f"column {features[columns[0]]!r}"
    if len(columns) > 1:
        where = f"{len(columns):,} columns, such as {features[columns[0]]!r}"
    some: BoolArray = np.asarray(mask.any(axis=1))
    return [f"{classes_have(classes, some)} {found} of {where}: {instead}."]


def classes_have(classes: pa.Array, mask: BoolArray) -> str:
    """The beginning of a sentence about some classes, of which there is at least one."""
    rows = np.flatnonzero(mask)
    label = repr(classes[int(rows[0])].as_py())
    return (
        f"class {label} has" if len(rows) == 1 else f"{len(rows):,} classes, such as {label}, have"
    )


def pooled_unless(
    prior: float, features: Sequence[str], classes: pa.Array, mask: BoolArray
) -> list[str]:
    """The sentence of `pooled` on classes without a value: their probabilities are the prior's.

    If there is no prior, because all pseudo-counts are 0, they are those of all classes together.
    """
    return pooled("no value", features, classes, mask, probabilities_of(prior > 0.0))


def probabilities_of(prior: bool) -> str:
    """The estimate of a class without counts: that of the prior, or of all classes together."""
    whose = "the prior" if prior else "all classes together"
    return f"the probabilities there are those of {whose}"
