"""The built-in estimators as a plugin: they register through the hook that third parties use."""

from __future__ import annotations

from collections.abc import Iterable

from probclass_core.plugins.hookspecs import PROBCLASS_API, EstimatorPlugin, hookimpl

__all__ = ["PROBCLASS_API", "probclass_estimators"]


def _address(of: str) -> str:
    return f"{__package__}.{of}"


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers the built-in estimators; their modules are imported when a model needs them."""
    yield EstimatorPlugin(
        "gaussian_diagonal",
        _address("gaussian.diagonal:GaussianDiagonal"),
        "independent normal features: a mean and a variance per class and feature",
    )
    yield EstimatorPlugin(
        "gaussian_full",
        _address("gaussian.full:GaussianFull"),
        "a multivariate normal per class, with its full covariance",
    )
    yield EstimatorPlugin(
        "gaussian_shared",
        _address("gaussian.full:GaussianShared"),
        "a multivariate normal per class, with one covariance: linear",
    )
    yield EstimatorPlugin(
        "categorical",
        _address("counted.estimator:Categorical"),
        "independent categories, with pseudo-counts and unseen values",
        _address("counted.estimator:ConditionalCategorical"),
    )
    yield EstimatorPlugin(
        "categorical_joint",
        _address("counted.joint:CategoricalJoint"),
        "the joint distribution of categories, with pseudo-counts",
    )
    yield EstimatorPlugin(
        "discretized",
        _address("counted.estimator:Discretized"),
        "numbers cut into bins, by the classes or evenly",
        _address("counted.estimator:ConditionalDiscretized"),
    )
    yield EstimatorPlugin(
        "bernoulli",
        _address("counts:Bernoulli"),
        "features present or absent, such as the words of a text",
    )
    yield EstimatorPlugin(
        "multinomial",
        _address("counts:Multinomial"),
        "counts that share a total, such as the words of a text",
    )
    yield EstimatorPlugin(
        "poisson",
        _address("counts:Poisson"),
        "independent counts of events: a rate per class and column",
    )
    yield EstimatorPlugin(
        "knn_density",
        _address("knn.density:KnnDensity"),
        "density from the k nearest training points",
    )
