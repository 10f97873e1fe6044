"""All estimator checks of scikit-learn, for every kind of block."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator

from probclass_core.sklearn import ProbClassifier

# Its message names the column and the count instead of "Negative values in data".
OF_COUNTS = {"check_positive_only_tag_during_fit"}

# These checks use fractions in spite of the tags, and a fraction is not a category.
OF_FRACTIONS = {
    "check_positive_only_tag_during_fit",
    "check_sample_weight_equivalence_on_dense_data",
    "check_classifiers_one_label_sample_weights",
}
NUMBERS = (
    *("default", "discretized"),
    *("gaussian_diagonal", "gaussian_full", "gaussian_shared", "knn_density"),
)


@pytest.mark.parametrize(
    ("estimator", "failing"),
    [
        *((name, set()) for name in NUMBERS),
        *(pytest.param(name, set(), marks=pytest.mark.nightly) for name in ("fast", "best")),
        *((name, OF_FRACTIONS) for name in ("categorical", "categorical_joint")),
        # poisson refuses fractions, which most checks use
        *((name, OF_COUNTS) for name in ("bernoulli", "multinomial")),
    ],
)
def test_the_classifier_passes_every_applicable_check(estimator: str, failing: set[str]) -> None:
    names: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}
    for result in check_estimator(ProbClassifier(estimator), on_skip=None, on_fail=None):
        names[result["status"]].add(result["check_name"])
    assert names["failed"] == failing
    # It tests the array API, and only runs in a process that sets SCIPY_ARRAY_API.
    assert names["skipped"] <= {"check_array_api_input"}
    assert len(names["passed"]) > 50
    if failing is OF_COUNTS:  # dense and sparse rows
        assert "check_sample_weight_equivalence_on_sparse_data" in names["passed"]
        assert "check_estimator_sparse_tag" in names["passed"]
