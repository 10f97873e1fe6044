"""All estimator checks of scikit-learn, for every kind of block."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator

from probclass_core.sklearn import ProbClassifier

NUMBERS = [
    *("default", "fast", pytest.param("best", marks=pytest.mark.nightly), "auto"),
    *("discretized", "gaussian_diagonal", "gaussian_full", "gaussian_shared", "knn_density"),
]
COUNTS = ["bernoulli", "multinomial"]  # poisson refuses fractions, which most checks use
CATEGORIES = ["categorical", "categorical_joint"]

# It tests the array API, and only runs in a process that sets SCIPY_ARRAY_API.
NOT_RUN = {"check_array_api_input"}

# These checks use fractions in spite of the tags, and a fraction is not a category.
CHECKS_WITH_FRACTIONS = {
    "check_positive_only_tag_during_fit",
    "check_sample_weight_equivalence_on_dense_data",
    "check_classifiers_one_label_sample_weights",
}


def results(classifier: ProbClassifier) -> dict[str, set[str]]:
    """Names of checks by their result."""
    names: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for result in check_estimator(classifier, on_skip=None, on_fail=None):
        names[result["status"]].add(result["check_name"])
    return names


@pytest.mark.parametrize("estimator", NUMBERS)
def test_numbers_pass_every_check(estimator: str) -> None:
    names = results(ProbClassifier(estimator))
    assert names["failed"] == set()
    assert names["skipped"] <= NOT_RUN
    assert len(names["passed"]) > 50


@pytest.mark.parametrize("estimator", CATEGORIES)
def test_classifiers_of_categories_pass_applicable_checks(estimator: str) -> None:
    names = results(ProbClassifier(estimator))
    assert names["failed"] == CHECKS_WITH_FRACTIONS
    assert names["skipped"] <= NOT_RUN
    assert len(names["passed"]) > 50


@pytest.mark.parametrize("estimator", COUNTS)
def test_classifiers_of_counts_pass_checks_with_dense_and_sparse_rows(estimator: str) -> None:
    names = results(ProbClassifier(estimator))
    # Its message names the column and the count instead of "Negative values in data".
    assert names["failed"] == {"check_positive_only_tag_during_fit"}
    assert names["skipped"] <= NOT_RUN
    assert "check_sample_weight_equivalence_on_sparse_data" in names["passed"]
    assert "check_estimator_sparse_tag" in names["passed"]
