"""The built-in estimators as a plugin: they register through the hook that third parties use."""

from __future__ import annotations

from collections.abc import Iterable

from probclass_core.estimation.families.categorical.independent import Categorical
from probclass_core.estimation.families.categorical.joint import CategoricalJoint
from probclass_core.estimation.families.counts.bernoulli import Bernoulli
from probclass_core.estimation.families.counts.multinomial import Multinomial
from probclass_core.estimation.families.counts.poisson import Poisson
from probclass_core.estimation.families.discretized.bins import Discretized
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.families.gaussian.full import GaussianFull, GaussianShared
from probclass_core.estimation.families.knn.density import KnnDensity
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "probclass_estimators"]


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers the built-in estimators."""
    yield EstimatorPlugin(
        name=GaussianDiagonal.name,
        factory=GaussianDiagonal,
        summary="independent normal features: a mean and a variance per class and feature",
        traits=Traits(factorizes=True, has_evidence=True),
    )
    yield EstimatorPlugin(
        name=GaussianFull.name,
        factory=GaussianFull,
        summary="a multivariate normal per class, with its full covariance",
        traits=Traits(has_evidence=True),
    )
    yield EstimatorPlugin(
        name=GaussianShared.name,
        factory=GaussianShared,
        summary="a multivariate normal per class, with one covariance for all: linear",
        traits=Traits(has_evidence=True),
    )
    yield EstimatorPlugin(
        name=Categorical.name,
        factory=Categorical,
        summary="independent categories with pseudo-counts, domains and a policy for unseen values",
        traits=Traits(factorizes=True, has_evidence=True),
    )
    yield EstimatorPlugin(
        name=CategoricalJoint.name,
        factory=CategoricalJoint,
        summary="the joint distribution of categories, including combinations never seen",
        traits=Traits(has_evidence=True),
    )
    yield EstimatorPlugin(
        name=Discretized.name,
        factory=Discretized,
        summary="numbers cut into bins, by the classes or evenly, with pseudo-counts",
        traits=Traits(factorizes=True),
    )
    yield EstimatorPlugin(
        name=Bernoulli.name,
        factory=Bernoulli,
        summary="features present or absent, such as the words of a text",
        traits=Traits(factorizes=True, has_evidence=True),
    )
    yield EstimatorPlugin(
        name=Multinomial.name,
        factory=Multinomial,
        summary="counts that share a total, such as the words of a text",
        traits=Traits(has_evidence=True),
    )
    yield EstimatorPlugin(
        name=Poisson.name,
        factory=Poisson,
        summary="independent counts of events: a rate per class and column",
        traits=Traits(factorizes=True, has_evidence=True),
    )
    yield EstimatorPlugin(
        name=KnnDensity.name,
        factory=KnnDensity,
        summary="density from the k nearest training points, exact, in any metric",
        traits=Traits(state_grows=True),
    )
