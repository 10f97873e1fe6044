"""scikit-learn's own checks of an estimator, all of them, on every kind of block."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator

from probclass_core.sklearn import ProbClassifier

NUMBERS = [
    *("auto", "discretized", "gaussian_diagonal", "gaussian_full", "gaussian_shared"),
    "knn_density",
]
CATEGORIES = ["categorical", "categorical_joint"]

# It asks whether NumPy's array API does, and is run only in a process that sets SCIPY_ARRAY_API.
NOT_RUN = {"check_array_api_input"}

# Their rows are fractions, whatever the tags say, and a fraction is no category.
OF_FRACTIONS = {
    "check_positive_only_tag_during_fit",
    "check_sample_weight_equivalence_on_dense_data",
    "check_classifiers_one_label_sample_weights",
}


def results(classifier: ProbClassifier) -> dict[str, set[str]]:
    """Names of checks by what became of them."""
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
def test_categories_pass_every_check_whose_rows_are_categories(estimator: str) -> None:
    names = results(ProbClassifier(estimator))
    assert names["failed"] == OF_FRACTIONS
    assert names["skipped"] <= NOT_RUN
    assert len(names["passed"]) > 50
