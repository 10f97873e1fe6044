"""The built-in estimators as a plugin: they register through the hook that third parties use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from probclass_core.estimation.contract import LikelihoodEstimator
from probclass_core.estimation.families.categorical.independent import (
    SPARSE_VERSION,
    Categorical,
)
from probclass_core.estimation.families.categorical.joint import CategoricalJoint
from probclass_core.estimation.families.conditional.counts import (
    ConditionalCategorical,
    ConditionalDiscretized,
)
from probclass_core.estimation.families.conditional.joint import JointConditional
from probclass_core.estimation.families.counts.bernoulli import Bernoulli
from probclass_core.estimation.families.counts.multinomial import Multinomial
from probclass_core.estimation.families.counts.poisson import Poisson
from probclass_core.estimation.families.discretized.bins import Discretized
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.families.gaussian.full import GaussianFull, GaussianShared
from probclass_core.estimation.families.knn.density import KnnDensity
from probclass_core.plugins.descriptors import (
    PROBCLASS_API,
    Conditional,
    ConditionalFactory,
    EstimatorPlugin,
    Traits,
)
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "probclass_estimators"]

_INDEPENDENT = Traits(factorizes=True, has_evidence=True)
_JOINT = Traits(has_evidence=True)

_ESTIMATORS = (
    (
        GaussianDiagonal,
        "independent normal features: a mean and a variance per class and feature",
        _INDEPENDENT,
    ),
    (GaussianFull, "a multivariate normal per class, with its full covariance", _JOINT),
    (GaussianShared, "a multivariate normal per class, with one covariance: linear", _JOINT),
    (Categorical, "independent categories, with pseudo-counts and unseen values", _INDEPENDENT),
    (CategoricalJoint, "the joint distribution of categories, with pseudo-counts", _JOINT),
    (Discretized, "numbers cut into bins, by the classes or evenly", Traits(factorizes=True)),
    (Bernoulli, "features present or absent, such as the words of a text", _INDEPENDENT),
    (Multinomial, "counts that share a total, such as the words of a text", _JOINT),
    (Poisson, "independent counts of events: a rate per class and column", _INDEPENDENT),
    (
        KnnDensity,
        "density from the k nearest training points",
        Traits(state_grows=True, proper=False),
    ),
)


def _divided(joint: type[LikelihoodEstimator]) -> ConditionalFactory:
    """A joint estimator divided by its density of the given columns, with the same options."""
    factory = partial(JointConditional, joint)
    vars(factory)["Options"] = joint.Options  # a block checks their names
    return factory


_COUNTS = Traits(factorizes=True, has_evidence=True, passes=2)
_CONDITIONALS = {
    **{
        joint.name: Conditional(_divided(joint))
        for joint in (GaussianFull, GaussianShared, CategoricalJoint)
    },
    **{
        counts.name: Conditional(counts, _COUNTS)
        for counts in (ConditionalCategorical, ConditionalDiscretized)
    },
}


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers the built-in estimators."""
    for estimator, summary, traits in _ESTIMATORS:
        name, conditional = estimator.name, _CONDITIONALS.get(estimator.name)
        yield EstimatorPlugin(
            name,
            estimator,
            summary,
            traits=traits,
            conditional=conditional,
            reads=(SPARSE_VERSION,) if estimator is Categorical else (),
        )
