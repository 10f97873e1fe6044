"""A multivariate normal per class with one covariance for all: linear discriminant analysis.

Hastie, Tibshirani and Friedman, *The Elements of Statistical Learning*, section 4.3: the log
likelihoods of two classes differ by a linear function of the features, because the quadratic term
is common to all classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray
from probclass_core.estimation.families.gaussian.densities import GaussianFullLikelihood
from probclass_core.estimation.families.gaussian.full import GaussianFull
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "GaussianShared", "probclass_estimators"]


class GaussianSharedLikelihood(GaussianFullLikelihood):
    """log N(x; μ_c, Σ): a quadratic that all classes share, and a linear form of each."""

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """w_c = Σ⁻¹ μ_c and b_c = −½ μ_cᵀ Σ⁻¹ μ_c, through Σ = L Lᵀ."""
        whiten, _ = self._whitened(np.arange(len(self.features)))
        centers = np.einsum("kij,kj->ki", whiten, self.mean)
        weights = np.einsum("kij,ki->kj", whiten, centers)
        return self.features, weights, -0.5 * np.einsum("ki,ki->k", centers, centers)


class GaussianShared(GaussianFull):
    """A multivariate normal per class, with one covariance pooled within the classes.

    Σ = Σ_c scatter_c / (Σ_c count_c − ddof · k), over the rows that have both features. A class of
    one row is fine, for it needs no covariance of its own. Unless ``predictive``, the likelihood
    has a linear form.

    Options:
        ddof: taken off the count in the divisor, once for each class.
        ridge: as `GaussianFull`, added to the one covariance.
        on_singular: the same.
        conjugate_prior: as `GaussianFull`: inverse Wishart for the one Σ, and given Σ a normal mean
            for each class.
        predictive: as `GaussianFull`; the degrees of freedom gather the rows of all classes.

    Statistics and parameters are those of `GaussianFull`, the covariance repeated for every class.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "gaussian_shared"
    density: ClassVar[type[GaussianFullLikelihood]] = GaussianSharedLikelihood

    def _sharing(self, values: FloatArray) -> FloatArray:
        return values[None]

    def _owners(self, classes: pa.Array) -> list[str]:
        return ["the pooled sample"]


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `GaussianShared`."""
    yield EstimatorPlugin(
        name=GaussianShared.name,
        factory=GaussianShared,
        summary="a multivariate normal per class, with one covariance for all: linear",
        traits=Traits(has_evidence=True),
    )
