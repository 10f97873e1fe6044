"""The distribution of one column in every class, as its likelihood describes it.

`Levels` are probabilities: of categories, of bins of numbers, of terms. A `Curve` is the density of
numbers, or the probability of whole numbers. Drift, health and plots ask for these by `marginal`
and look neither at tables of parameters nor at names of estimators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, is_numeric_type
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError

LARGEST_WHOLE = 2.0**53
"""Largest number at which a density of counts is evaluated."""

LARGEST_NUMBER = 1e30
"""Largest number at which any other density is evaluated."""

_PRESENT = ("absent", "present")
_SMALLEST = math.ulp(0.0)


class LogLikelihood(Protocol):
    """What the distribution of a column is derived from."""

    def log_likelihood(self, rows: Rows, /) -> FloatArray:
        """log p(x_block | c) of ``n`` rows, ``(n, k)``."""
        ...


@dataclass(frozen=True)
class Levels:
    """Values of a column and their probabilities in each of ``k`` classes.

    Attributes:
        names: ``m`` values as text; None is null, if it is a value of the model.
        probability: P(value | class), ``(m, k)``.
        cuts: ascending cuts between bins of numbers, one fewer than bins; a bin contains its lower
            cut, and a null comes after the bins. None for other values.
        of: "value" of the column; "item" if each item of a row, such as a word, has one of the
            values; "presence" if each of them is in the row or not, so that they do not sum to 1.
    """

    names: Sequence[str | None]
    probability: FloatArray
    cuts: FloatArray | None = None
    of: Literal["value", "item", "presence"] = "value"

    @property
    def missing(self) -> FloatArray | None:
        """P(null | class), ``(k,)``; None if null is not a value of the model."""
        return self.probability[self.names.index(None)] if None in self.names else None

    @property
    def is_presence(self) -> bool:
        """Whether the values are "absent" and "present"."""
        return tuple(self.names) == _PRESENT

    def without_missing(self) -> Levels:
        """The other levels, of the rows in which the column is not null."""
        if self.missing is None:
            return self
        known = [number for number, name in enumerate(self.names) if name is not None]
        probability = self.probability[known]
        total = probability.sum(axis=0)
        probability = np.divide(
            probability, total, out=np.zeros_like(probability), where=total > 0.0
        )
        return Levels([self.names[number] for number in known], probability, self.cuts)


@dataclass(frozen=True)
class Curve:
    """The density of a number, or the probability of a whole number, in each of ``k`` classes.

    Attributes:
        log_density: ``(n,)`` numbers to log p(x | class), ``(n, k)``; 0 for NaN.
        whole: whether only whole numbers have a probability.
        low: end below which the density is 0, or not meant to be read.
        high: the same above.
        proper: whether the density integrates to 1, or the probabilities sum to 1.
        mean: ``(k,)``, or None if unknown; NaN for a class without a value.
        variance: ``(k,)``, or None if unknown; 0 is a point mass at the mean.
    """

    log_density: Callable[[FloatArray], FloatArray]
    whole: bool = False
    low: float = -LARGEST_NUMBER
    high: float = LARGEST_NUMBER
    proper: bool = True
    mean: FloatArray | None = None
    variance: FloatArray | None = None


Marginal = Levels | Curve


def bins(cuts: FloatArray, probability: FloatArray, missing: FloatArray | None = None) -> Levels:
    """Bins of numbers.

    Args:
        cuts: ``m − 1`` ascending cuts.
        probability: P(bin | class), ``(m, k)``.
        missing: P(null | class), ``(k,)``; None if null is not a value.
    """
    edges = [-math.inf, *np.asarray(cuts).tolist(), math.inf]
    names: list[str | None] = [bin_name(*bounds) for bounds in pairwise(edges)]
    if missing is not None:
        names, probability = [*names, None], np.concatenate([probability, missing[None]])
    return Levels(names, probability, np.asarray(cuts, np.float64))


def presence(probability: FloatArray) -> Levels:
    """Whether a count is above 0, from P(present | class), ``(k,)``."""
    both = np.stack([1.0 - probability, probability])
    return Levels(_PRESENT, both, np.array([_SMALLEST]))


def bin_name(lower: float, upper: float) -> str:
    """A bin as text; it includes its lower bound and excludes its upper one."""
    if math.isinf(lower):
        return "any" if math.isinf(upper) else f"below {upper:g}"
    return f"from {lower:g}" if math.isinf(upper) else f"{lower:g} to {upper:g}"


def marginal(likelihood: LogLikelihood, features: pa.Schema, column: str) -> Marginal | None:
    """The distribution of one column of a block.

    Args:
        likelihood: likelihood of the block.
        features: the columns that it reads, with their types.
        column: one of them.

    Returns:
        What the likelihood answers (see `MarginalLikelihood`). Of one without an answer, the curve
        of a column of numbers that follows from its log-likelihoods. None if there is none.
    """
    answer = getattr(likelihood, "marginal", None)
    if answer is not None:
        own: Marginal | None = answer(column)
        return own
    if not is_numeric_type(features.field(column).type):
        return None
    return derive(likelihood, column, features)


def rows_with(features: pa.Schema, values: Mapping[str, FloatArray]) -> Rows:
    """Rows with the values of some columns of numbers, NaN for null; the others are null.

    Args:
        features: the columns of the rows, with their types.
        values: ``(n,)`` each, by column.
    """
    size = len(next(iter(values.values())))
    arrays = [
        pa.array(values[name], from_pandas=True) if name in values else pa.nulls(size, kind)
        for name, kind in zip(features.names, features.types, strict=True)
    ]
    return Rows(pa.record_batch(arrays, names=features.names))


def derive(
    likelihood: LogLikelihood,
    column: str,
    features: pa.Schema | None = None,
    *,
    mean: FloatArray | None = None,
    variance: FloatArray | None = None,
) -> Curve | None:
    """The curve of a column of numbers: the other columns are null, and therefore marginalized.

    Args:
        likelihood: likelihood of the block, or of this column alone.
        column: column of numbers.
        features: the columns that the likelihood reads, with their types; None if no other.
        mean: of the column in each class, ``(k,)``, if it is known.
        variance: likewise.

    Returns:
        The curve; None if the likelihood says nothing about the column.
    """
    features = features or pa.schema([(column, pa.float64())])

    def log_density(values: FloatArray) -> FloatArray:
        return likelihood.log_likelihood(rows_with(features, {column: values}))

    def accepts(value: float) -> bool:
        try:
            log_density(np.array([value]))
        except DataError:
            return False
        return True

    if not log_density(np.array([1.0, 2.0, 2.0**40])).any():
        return None
    largest = LARGEST_NUMBER if accepts(LARGEST_NUMBER) else LARGEST_WHOLE
    return Curve(
        log_density,
        # Estimators of counts refuse fractions and negative numbers.
        whole=not accepts(0.5),
        low=-largest if accepts(-1.0) else 0.0,
        high=largest,
        mean=mean,
        variance=variance,
    )
