"""Every law of the conformance kit, tried on every built-in estimator."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from samples import OPTIONS

import probclass_core as pc
from probclass_core.authoring import notes_of
from probclass_core.plugins.manager import find_estimator
from probclass_core.testing.suite import EstimatorLaws, categories, counts, numbers, words

X, Y, U, V = {"x": numbers()}, {"y": numbers()}, {"u": categories()}, {"v": categories()}
NUMBERS, CATEGORIES = X | Y, U | V
COUNTS = {"i": counts(), "j": counts()}
TERMS = {"words": words()}
FLAGS = {"i": counts(largest=1), "j": counts(largest=1)}
DOMAINS = {"domain": {"u": ["", "b", "3", "ß"], "v": ["", "b", "3", "ß"]}}
FEW_CELLS = [{"cells": 4, **options} for options in OPTIONS["discretized"]]
NULL_LEVELS = [{**options, "missing": "level"} for options in OPTIONS["categorical"]]
NULL_LEVELS.append({"shared_strength": "loo", "missing": "level"})
CUTS = [
    {"missing": "level"},
    {"cuts": {"x": [-1.5, 0, 1e6], "y": []}},
    {"cuts": {"x": [0.125]}, "missing": "level", "pseudo_count": 0.5, "cells": 4},
    {"missing": "level", "shared_strength": "loo", "cells": 4},
]
GIVEN, GIVEN_NUMBERS = {"z": categories(), "x": numbers()}, {"z": numbers(), "w": categories()}
GIVEN_OPTIONS = [
    {"cells": 4},
    {"missing": "level", "strength": "loo", "unseen": "ignore"},
    {"missing": "level", "strength": "loo", "shared_strength": "loo"},
    {"strength": 0.5, "pseudo_count": 0.1, "cells": 4},
]
NORMAL_PRIOR = {"conjugate_prior": {"mean": 0.0, "variance": 1.0}}


def every_row(model: pc.Model, values: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Every combination of the values of some columns; other columns are null."""
    cells = list(itertools.product(*values.values()))
    columns = dict(zip(values, zip(*cells, strict=True), strict=True))
    return pa.table(
        {
            field.name: pa.array(columns.get(field.name, [None] * len(cells)), field.type)
            for field in model.features
        }
    )


def categories_of(model: pc.Model) -> pa.Table | None:
    """The values of each column in the parameters."""
    block = model.spec.blocks[0]
    if block.options.get("smooth") == "zeros":
        return None  # documented: such probabilities do not sum to 1
    values = notes_of(model.parameters[block.name])["values"]
    return every_row(model, {name: known for name, known in values.items() if known})


def joint_categories_of(model: pc.Model) -> pa.Table | None:
    """The domain of each column in the notes."""
    block = model.spec.blocks[0]
    if block.options.get("smooth") == "zeros":
        return None
    return every_row(model, notes_of(model.parameters[block.name])["values"])


def bins_of(model: pc.Model) -> pa.Table | None:
    """A number from each bin of each column, and null if it has a bin."""
    block = model.spec.blocks[0]
    rows = model.parameters[block.name].to_pylist()
    bounds = {
        name: dict.fromkeys((row["lower"], row["upper"]) for row in rows if row["feature"] == name)
        for name in block.columns
    }
    return every_row(
        model, {name: [number_between(*pair) for pair in pairs] for name, pairs in bounds.items()}
    )


def number_between(lower: float | None, upper: float | None) -> float | None:
    """A number of a bin, lower ≤ x < upper; None for the bin of null."""
    if lower is None or upper is None:
        return None
    if math.isfinite(lower):
        return lower
    return math.nextafter(upper, -math.inf) if math.isfinite(upper) else 0.0


def bins_without_given(model: pc.Model) -> pa.Table | None:
    """A number from each bin of each column; the given columns are null."""
    block = model.spec.blocks[0]
    notes = notes_of(model.parameters[block.name])
    cuts = notes["cuts"]
    bounds = {
        name: itertools.pairwise([-math.inf, *cuts[name], math.inf]) for name in block.columns
    }
    numbers = {name: [number_between(*pair) for pair in pairs] for name, pairs in bounds.items()}
    nulls = {name: [None] if None in notes["values"][name] else [] for name in numbers}
    return every_row(model, {name: values + nulls[name] for name, values in numbers.items()})


def flags_of(model: pc.Model) -> pa.Table | None:
    return every_row(model, {name: [0.0, 1.0] for name in model.spec.blocks[0].columns})


def terms_of(model: pc.Model) -> list[str]:
    return list(dict.fromkeys(model.parameters[model.spec.blocks[0].name]["feature"].to_pylist()))


def documents_of(model: pc.Model) -> pa.Table | None:
    """Every set of terms."""
    terms = terms_of(model)
    sizes = range(len(terms) + 1)
    sets = [list(chosen) for size in sizes for chosen in itertools.combinations(terms, size)]
    return every_row(model, {"words": sets}) if terms else None


def documents_of_two_words(model: pc.Model) -> pa.Table | None:
    terms = terms_of(model)
    pairs = [list(pair) for pair in itertools.combinations_with_replacement(terms, 2)]
    return every_row(model, {"words": pairs}) if terms else None


def counts_of_total_3(model: pc.Model) -> pa.Table | None:
    return pa.table({"i": [0.0, 1.0, 2.0, 3.0], "j": [3.0, 2.0, 1.0, 0.0]})


class Laws(EstimatorLaws):
    examples = 10


class TestGaussianDiagonal(Laws):
    estimator = find_estimator("gaussian_diagonal").estimator
    columns = NUMBERS
    options = OPTIONS["gaussian_diagonal"]
    declared_prior = NORMAL_PRIOR


class TestGaussianFull(Laws):
    estimator = find_estimator("gaussian_full").estimator
    columns = NUMBERS
    options = OPTIONS["gaussian_full"]
    declared_prior = NORMAL_PRIOR


class TestGaussianShared(Laws):
    estimator = find_estimator("gaussian_shared").estimator
    columns = NUMBERS
    options = OPTIONS["gaussian_shared"]
    declared_prior = NORMAL_PRIOR
    evidence_adds_up = False  # classes share one covariance


class TestCategorical(Laws):
    estimator = find_estimator("categorical").estimator
    columns = CATEGORIES
    options = OPTIONS["categorical"]
    declared_prior = DOMAINS
    outcomes = categories_of


class TestCategoricalWithNulls(TestCategorical):
    options = NULL_LEVELS


class TestCategoricalJoint(Laws):
    estimator = find_estimator("categorical_joint").estimator
    columns = CATEGORIES
    options = OPTIONS["categorical_joint"]
    declared_prior = DOMAINS
    outcomes = joint_categories_of


class TestDiscretized(Laws):
    estimator = find_estimator("discretized").estimator
    columns = NUMBERS
    options = FEW_CELLS
    outcomes = bins_of


class TestDiscretizedWithNulls(TestDiscretized):
    options = CUTS


class TestBernoulli(Laws):
    estimator = find_estimator("bernoulli").estimator
    columns = FLAGS
    options = OPTIONS["bernoulli"]
    outcomes = flags_of


class TestBernoulliOfTerms(Laws):
    estimator = find_estimator("bernoulli").estimator
    columns = TERMS
    options = OPTIONS["bernoulli_of_terms"]
    outcomes = documents_of


class TestMultinomial(Laws):
    estimator = find_estimator("multinomial").estimator
    columns = COUNTS
    options = OPTIONS["multinomial"]
    outcomes = counts_of_total_3


class TestMultinomialOfTerms(Laws):
    estimator = find_estimator("multinomial").estimator
    columns = TERMS
    options = OPTIONS["multinomial_of_terms"]
    outcomes = documents_of_two_words


class TestPoisson(Laws):
    estimator = find_estimator("poisson").estimator
    columns = COUNTS
    options = OPTIONS["poisson"]


class TestPoissonOfTerms(Laws):
    estimator = find_estimator("poisson").estimator
    columns = TERMS
    options = OPTIONS["poisson_of_terms"]


class TestKnnDensity(Laws):
    estimator = find_estimator("knn_density").estimator
    columns = NUMBERS
    options = OPTIONS["knn_density"]


class TestCategoricalGiven(Laws):
    estimator = find_estimator("categorical").estimator
    columns = CATEGORIES
    given = GIVEN
    options = GIVEN_OPTIONS


class TestDiscretizedGiven(Laws):
    estimator = find_estimator("discretized").estimator
    columns = NUMBERS
    given = GIVEN_NUMBERS
    options = GIVEN_OPTIONS
    outcomes = bins_without_given
