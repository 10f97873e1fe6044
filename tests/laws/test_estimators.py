"""Every law of the conformance kit, tried on every built-in estimator."""

from __future__ import annotations

from samples import OPTIONS

from probclass_core.plugins.manager import find_estimator
from probclass_core.testing.generators import categories, counts, numbers, words
from probclass_core.testing.suite import EstimatorLaws

X, Y, U, V = {"x": numbers()}, {"y": numbers()}, {"u": categories()}, {"v": categories()}
NUMBERS, CATEGORIES = X | Y, U | V
COUNTS = {"i": counts(), "j": counts()}
TERMS = {"words": words()}
FLAGS = {"i": counts(largest=1), "j": counts(largest=1)}
DOMAINS = {"domain": {"u": ["", "b", "3", "ß"], "v": ["", "b", "3", "ß"]}}
VOCABULARY = {"vocabulary": ["", "b", "3", "ß"]}
FEW_CELLS = [{"cells": 4, **options} for options in OPTIONS["discretized"]]
NULL_LEVELS = [{**options, "missing": "level"} for options in OPTIONS["categorical"]]
CUTS = [
    {"missing": "level"},
    {"cuts": {"x": [-1.5, 0, 1e6], "y": []}},
    {"cuts": {"x": [0.125]}, "missing": "level", "pseudo_count": 0.5, "cells": 4},
]
GIVEN, GIVEN_NUMBERS = {"z": categories(), "x": numbers()}, {"z": numbers(), "w": categories()}
GIVEN_OPTIONS = [
    {"cells": 4},
    {"missing": "level", "strength": "loo", "unseen": "ignore"},
    {"strength": 0.5, "pseudo_count": 0.1, "back_off": "uniform", "cells": 4},
]
DIRICHLET = {"back_off": "uniform", "strength": 2}
NORMAL_PRIOR = {"conjugate_prior": {"mean": 0.0, "variance": 1.0}}


class Laws(EstimatorLaws):
    examples = 10


class TestGaussianDiagonal(Laws):
    plugin = find_estimator("gaussian_diagonal")
    columns = NUMBERS
    options = OPTIONS["gaussian_diagonal"]
    declared_prior = NORMAL_PRIOR


class TestGaussianFull(Laws):
    plugin = find_estimator("gaussian_full")
    columns = NUMBERS
    options = OPTIONS["gaussian_full"]
    declared_prior = NORMAL_PRIOR


class TestGaussianShared(Laws):
    plugin = find_estimator("gaussian_shared")
    columns = NUMBERS
    options = OPTIONS["gaussian_shared"]
    declared_prior = NORMAL_PRIOR
    evidence_adds_up = False  # classes share one covariance


class TestCategorical(Laws):
    plugin = find_estimator("categorical")
    columns = CATEGORIES
    options = OPTIONS["categorical"]
    declared_prior = DOMAINS


class TestCategoricalWithNulls(Laws):
    plugin = find_estimator("categorical")
    columns = CATEGORIES
    options = NULL_LEVELS
    declared_prior = DOMAINS


class TestCategoricalJoint(Laws):
    plugin = find_estimator("categorical_joint")
    columns = CATEGORIES
    options = OPTIONS["categorical_joint"]
    declared_prior = DOMAINS


class TestDiscretized(Laws):
    plugin = find_estimator("discretized")
    columns = NUMBERS
    options = FEW_CELLS


class TestDiscretizedWithNulls(Laws):
    plugin = find_estimator("discretized")
    columns = NUMBERS
    options = CUTS


class TestBernoulli(Laws):
    plugin = find_estimator("bernoulli")
    columns = FLAGS  # its linear form is a function of presence, not of counts
    options = OPTIONS["bernoulli"]


class TestBernoulliOfTerms(Laws):
    plugin = find_estimator("bernoulli")
    columns = TERMS
    options = OPTIONS["bernoulli_of_terms"]
    declared_prior = VOCABULARY


class TestMultinomial(Laws):
    plugin = find_estimator("multinomial")
    columns = COUNTS
    options = OPTIONS["multinomial"]


class TestMultinomialOfTerms(Laws):
    plugin = find_estimator("multinomial")
    columns = TERMS
    options = OPTIONS["multinomial_of_terms"]
    declared_prior = VOCABULARY


class TestPoisson(Laws):
    plugin = find_estimator("poisson")
    columns = COUNTS
    options = OPTIONS["poisson"]


class TestPoissonOfTerms(Laws):
    plugin = find_estimator("poisson")
    columns = TERMS
    options = OPTIONS["poisson_of_terms"]
    declared_prior = VOCABULARY


class TestKnnDensity(Laws):
    plugin = find_estimator("knn_density")
    columns = NUMBERS
    options = OPTIONS["knn_density"]


class TestGaussianFullGiven(Laws):
    plugin = find_estimator("gaussian_full")
    columns = X
    given = Y
    options = OPTIONS["gaussian_full"]


class TestCategoricalJointGiven(Laws):
    plugin = find_estimator("categorical_joint")
    columns = U
    given = V


class TestCategoricalGiven(Laws):
    plugin = find_estimator("categorical")
    columns = CATEGORIES
    given = GIVEN
    options = GIVEN_OPTIONS
    declared_prior = DIRICHLET | DOMAINS | {"cuts": {"x": [0.0]}}


class TestDiscretizedGiven(Laws):
    plugin = find_estimator("discretized")
    columns = NUMBERS
    given = GIVEN_NUMBERS
    options = GIVEN_OPTIONS
    declared_prior = DIRICHLET | {"cuts": {"x": [0.0], "y": [], "z": [-1, 1.5]}}
