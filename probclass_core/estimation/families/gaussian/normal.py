"""What all normal families share: options, the conjugate prior, scales of features, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray
from probclass_core.errors import DataError, check_known, one_of
from probclass_core.estimation import options
from probclass_core.estimation.evidence import NormalPrior
from probclass_core.estimation.families import scarce
from probclass_core.estimation.moments import Moments, own_scale, pooled

_LARGEST = 1e100
"""The squares of larger numbers, summed over many rows, could exceed float64."""

_PRIOR_KEYS = ("count", "degrees_of_freedom", "mean", "variance")


class NormalOptions(options.EstimatorOptions):
    """Options of every normal family."""

    ddof: float = options.number(
        0,
        doc="Subtracted from the count in the divisor of the variance: 0 is maximum likelihood, "
        "1 the unbiased estimate.",
    )


def conjugate_prior(*, joint: bool, doc: str) -> Any:
    """Declare the option ``conjugate_prior``.

    Args:
        joint: whether the features share a covariance matrix.
        doc: what the option does.
    """

    def parse(path: options.OptionPath, value: Any) -> ConjugatePrior:
        return ConjugatePrior.parse(path, value, len(path.columns) if joint else 1)

    return options.option({}, parse, expected=f"a table of {one_of(_PRIOR_KEYS)}", doc=doc)


@dataclass(frozen=True)
class ConjugatePrior:
    """A normal–inverse-Wishart prior as an option specifies it.

    Attributes:
        count: κ₀, the number of rows that the prior mean is worth.
        degrees_of_freedom: ν₀, above ``size + 1``, so that the prior has a mean variance.
        mean: prior mean by column, for the columns that specify one.
        variance: mean of the prior variance by column, for the columns that specify one.
        size: number of features that share a covariance matrix: 1, or all.
    """

    count: float
    degrees_of_freedom: float
    mean: Mapping[str, float]
    variance: Mapping[str, float]
    size: int

    @classmethod
    def parse(cls, path: options.OptionPath, value: Any, size: int) -> ConjugatePrior:
        """The prior from the option's value, a table.

        Raises:
            SpecError: if a key or column is unknown, or a value is out of bounds.
        """
        if not isinstance(value, Mapping):
            raise path.error(f"a table of {one_of(_PRIOR_KEYS)}", value)
        check_known(value, _PRIOR_KEYS, f"{path.estimator}: {path.option} has no key")

        def bounded(key: str, value: Any, above: float = -_LARGEST) -> float:
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (is_number and above < value <= _LARGEST):
                raise path.part(f"{key} of {path.option}").error(
                    f"a number above {above:g} and up to {_LARGEST:g}", value
                )
            return float(value)

        def by_column(key: str, above: float = -_LARGEST) -> dict[str, float]:
            values = value.get(key, {})
            if not isinstance(values, Mapping):
                return dict.fromkeys(path.columns, bounded(key, values, above))
            table = options.parse_table(path.part(f"{key} of {path.option}"), values)
            return {
                column: bounded(f"{key} ({column!r})", item, above)
                for column, item in table.items()
            }

        return cls(
            count=bounded("count", value.get("count", 1.0), above=0.0),
            degrees_of_freedom=bounded(
                "degrees_of_freedom", value.get("degrees_of_freedom", size + 2.0), above=size + 1.0
            ),
            mean=by_column("mean"),
            variance=by_column("variance", above=0.0),
            size=size,
        )

    def complete(self, moments: Moments, features: Sequence[str]) -> NormalPrior:
        """The prior for these rows: what is not specified is taken from them, classes pooled.

        Ψ₀ = (ν₀ − size − 1) · variance, so that the prior mean of each variance is as specified.

        Args:
            moments: of single features, ``(k, d)``.
            features: their ``d`` names.

        Returns:
            Count and degrees of freedom as numbers, mean and scatter (a diagonal) as ``(d,)``.

        Raises:
            DataError: if a feature's squares are beyond float64.
        """
        scale = feature_scale(features, moments)
        variance = self._fill(self.variance, features, scale)
        return NormalPrior(
            count=np.array(self.count),
            degrees_of_freedom=np.array(self.degrees_of_freedom),
            mean=self._fill(self.mean, features, pooled(moments).mean),
            scatter=(self.degrees_of_freedom - self.size - 1.0) * variance,
        )

    def _fill(
        self, specified: Mapping[str, float], features: Sequence[str], pooled: FloatArray
    ) -> FloatArray:
        """``(d,)``: the specified values, and those of the rows for the other columns."""
        defaults = zip(features, pooled.tolist(), strict=True)
        return np.array([specified.get(name, default) for name, default in defaults])


def modeled_columns(names: Sequence[str], moments: Moments) -> tuple[list[str], Moments, list[str]]:
    """The columns that have values, their moments ``(k, d)``, and notes about the others."""
    has = moments.count.max(axis=0) > 0.0
    columns = moments.map(lambda values: values[:, has])
    modeled = [name for name, some in zip(names, has, strict=True) if some]
    return modeled, columns, scarce.without_values([name for name in names if name not in modeled])


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
        *scarce.pooled("no value", features, classes, none, of_all),
        *scarce.pooled("too few values for a variance", features, classes, alone, of_others),
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
