"""The options ``conjugate_prior`` and ``predictive`` of the normal families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import SpecError, nearest, one_of
from probclass_core.estimation.contract import flag_option, table_option
from probclass_core.estimation.evidence import NormalPrior
from probclass_core.estimation.families.gaussian.checks import feature_scale
from probclass_core.estimation.moments import Moments, pooled

_LARGEST = 1e100
"""Of larger numbers the squares, summed over many rows, may be beyond float64."""

_KEYS = ("count", "degrees_of_freedom", "mean", "variance")


@dataclass(frozen=True)
class ConjugatePrior:
    """A normal–inverse-Wishart prior as an option gives it.

    Attributes:
        features: names of the columns.
        count: κ₀, how many rows the prior mean is worth.
        degrees_of_freedom: ν₀, above ``size + 1``, so that the prior has a mean variance.
        mean: what is given of the prior mean, by column.
        variance: the same of the mean of the prior variance.
        size: features that share a covariance matrix: 1, or all.
    """

    features: Sequence[str]
    count: float
    degrees_of_freedom: float
    mean: Mapping[str, float]
    variance: Mapping[str, float]
    size: int

    @classmethod
    def read(cls, estimator: str, features: Sequence[str], given: Any, size: int) -> ConjugatePrior:
        """From the option's value, a table.

        Raises:
            SpecError: an unknown key or column, or a value out of range.
        """
        if not isinstance(given, Mapping):
            raise SpecError(
                f"{estimator}: conjugate_prior must be a table of {one_of(_KEYS)}, got {given!r}."
            )
        for key in given:
            if key not in _KEYS:
                raise SpecError(
                    f"{estimator}: conjugate_prior has no key {key!r}; it has {one_of(_KEYS)}."
                    + nearest(key, _KEYS)
                )

        def number(key: str, value: Any, above: float = -_LARGEST) -> float:
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (good and above < value <= _LARGEST):
                raise SpecError(
                    f"{estimator}: {key} of conjugate_prior must be a number above {above:g} and "
                    f"up to {_LARGEST:g}, got {value!r}."
                )
            return float(value)

        def by_column(key: str, above: float = -_LARGEST) -> dict[str, float]:
            values = given.get(key, {})
            if not isinstance(values, Mapping):
                return dict.fromkeys(features, number(key, values, above))
            named = table_option(estimator, f"{key} of conjugate_prior", values, features)
            return {
                column: number(f"{key} ({column!r})", value, above)
                for column, value in named.items()
            }

        return cls(
            features=features,
            count=number("count", given.get("count", 1.0), above=0.0),
            degrees_of_freedom=number(
                "degrees_of_freedom", given.get("degrees_of_freedom", size + 2.0), above=size + 1.0
            ),
            mean=by_column("mean"),
            variance=by_column("variance", above=0.0),
            size=size,
        )

    def beside(self, moments: Moments) -> NormalPrior:
        """The prior of these rows: what is not given is taken from the rows, classes pooled.

        Ψ₀ = (ν₀ − size − 1) · variance, so that the prior mean of each variance is as given.

        Args:
            moments: each feature's own, ``(k, d)``.

        Returns:
            Count and degrees of freedom are numbers, mean and scatter (a diagonal) ``(d,)``.

        Raises:
            DataError: a feature's squares are beyond float64.
        """
        scale = feature_scale(self.features, moments)
        variance = self._filled(self.variance, scale)
        return NormalPrior(
            count=np.array(self.count),
            degrees_of_freedom=np.array(self.degrees_of_freedom),
            mean=self._filled(self.mean, pooled(moments).mean),
            scatter=(self.degrees_of_freedom - self.size - 1.0) * variance,
        )

    def _filled(self, given: Mapping[str, float], otherwise: FloatArray) -> FloatArray:
        """``(d,)``: what is given, and where nothing is, the rows' own."""
        names = zip(self.features, otherwise.tolist(), strict=True)
        return np.array([given.get(name, own) for name, own in names])


def prior_notes(features: Sequence[str], prior: NormalPrior) -> dict[str, Any]:
    """A prior of these features as notes of a parameters table: scatter by its diagonal."""
    return {
        "count": float(prior.count),
        "degrees_of_freedom": float(prior.degrees_of_freedom),
        "mean": dict(zip(features, prior.mean.tolist(), strict=True)),
        "scatter": dict(zip(features, prior.scatter.tolist(), strict=True)),
    }


def read_predictive(
    estimator: str, chosen: Mapping[str, Any], defaults: Mapping[str, Any], idle: Sequence[str]
) -> bool:
    """The option ``predictive``: whether rows are scored by Student's t.

    Args:
        estimator: who refuses.
        chosen: its options.
        defaults: the same, by default.
        idle: options that have nothing to act on when parameters are integrated out.

    Raises:
        SpecError: not true or false; or true beside an idle option, unless that is 0 or its
            default.
    """
    predictive = flag_option(estimator, "predictive", chosen["predictive"])
    for option in idle:
        if predictive and chosen[option] not in (0, defaults[option]):
            raise SpecError(
                f"{estimator}: {option} has no effect with predictive=true, where the "
                f"conjugate_prior regularizes, but it is {chosen[option]!r}; leave it out."
            )
    return predictive
