"""Invalid options, estimators and priors are errors before a row is read."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc

ROWS = pa.table(
    {
        "c": ["a", "b"] * 3,
        "x": [1.0, 2, 3, 4, 5, 6],
        "u": ["p", "q"] * 3,
        "t": [date(2024, 1, 1)] * 6,
    }
)


OPTIONS: list[tuple[pc.Block, str]] = [
    (pc.Block("gaussian_diagonal", ["x"], ddof=-1), "ddof must be a number of at least 0, got -1"),
    (
        pc.Block("gaussian_diagonal", ["x"], variance_floor="no"),
        "variance_floor must be .*got 'no'",
    ),
    (
        pc.Block("gaussian_full", ["x"], ridge=True),
        "ridge must be a number of at least 0, got True",
    ),
    (
        pc.Block("gaussian_full", ["x"], on_singular="drop"),
        "on_singular must be one of 'error', 'ridge', got 'drop'",
    ),
    (
        pc.Block("gaussian_full", ["x"], shrinkage="auto"),
        "shrinkage must be 'ledoit_wolf', a number from 0 to 1, or None, got 'auto'",
    ),
    (
        pc.Block("gaussian_shared", ["x"], shrinkage=1.5),
        "shrinkage must be 'ledoit_wolf', a number from 0 to 1, or None, got 1.5",
    ),
    (
        pc.Block("gaussian_full", ["x"], shrinkage=-0.1),
        "shrinkage must be 'ledoit_wolf', a number from 0 to 1, or None, got -0.1",
    ),
    (
        pc.Block("gaussian_full", ["x"], shrinkage=True),
        "shrinkage must be 'ledoit_wolf', a number from 0 to 1, or None, got True",
    ),
    (
        pc.Block("gaussian_shared", ["x"], predictive=True, shrinkage="ledoit_wolf"),
        "shrinkage has no effect with predictive=true, .* it is 'ledoit_wolf'; leave it out",
    ),
    (
        pc.Block("gaussian_full", ["x"], shrinkage=0.1, shrinkage_target="mean"),
        "shrinkage_target must be one of 'diagonal', 'pooled', got 'mean'",
    ),
    (
        pc.Block("gaussian_full", ["x"], shrinkage_target="pooled"),
        "shrinkage_target has no effect without shrinkage; set shrinkage to",
    ),
    (
        pc.Block("gaussian_shared", ["x"], shrinkage=0.1, shrinkage_target="pooled"),
        "gaussian_shared: its one covariance .* must be 'diagonal', got 'pooled'; leave it out",
    ),
    (pc.Block("gaussian_full", ["x"], predictive=1), "predictive must be true or false, got 1"),
    (
        pc.Block("gaussian_full", ["x"], predictive=True, ridge=0.1),
        "ridge has no effect with predictive=true, .* it is 0.1; leave it out",
    ),
    (
        pc.Block("gaussian_shared", ["x"], predictive=True, ddof=1),
        "ddof has no effect with predictive=true",
    ),
    (
        pc.Block("gaussian_diagonal", ["x"], predictive=True, variance_floor=0.1),
        "variance_floor has no effect with predictive=true",
    ),
    (
        pc.Block("gaussian_full", ["x"], conjugate_prior=3),
        "conjugate_prior must be a table of 'count', 'degrees_of_freedom', 'mean', 'variance', got",
    ),
    (
        pc.Block("gaussian_full", ["x"], conjugate_prior={"counts": 3}),
        r"conjugate_prior has no key 'counts'; .* Did you mean 'count'\?",
    ),
    (
        pc.Block("gaussian_full", ["x"], conjugate_prior={"count": 0}),
        r"count of conjugate_prior must be a number above 0 and up to 1e\+100, got 0",
    ),
    (
        pc.Block("gaussian_diagonal", ["x"], conjugate_prior={"degrees_of_freedom": 2}),
        "degrees_of_freedom of conjugate_prior must be a number above 2 and .*, got 2",
    ),
    (
        pc.Block("gaussian_shared", ["x"], conjugate_prior={"mean": "high"}),
        "mean of conjugate_prior must be a number above .*, got 'high'",
    ),
    (
        pc.Block("gaussian_full", ["x"], conjugate_prior={"mean": 1e200}),
        r"mean of conjugate_prior must be .* up to 1e\+100, got 1e\+200",
    ),
    (
        pc.Block("gaussian_diagonal", ["x"], conjugate_prior={"mean": {"u": 1}}),
        "mean of conjugate_prior names column 'u', which is not in the block; it has 'x'",
    ),
    (
        pc.Block("gaussian_full", ["x"], conjugate_prior={"variance": {"x": -1}}),
        r"variance \('x'\) of conjugate_prior must be a number above 0 and .*, got -1",
    ),
    (
        pc.Block("categorical", ["u"], pseudo_count=-0.5),
        "pseudo_count must be .*at least 0, got -0.5",
    ),
    (
        pc.Block("categorical", ["u"], pseudo_count={"u": -1}),
        "pseudo_count of 'u' must be .*got -1",
    ),
    (
        pc.Block("categorical", ["u"], pseudo_count={"u": {"p": 1, "q": -2}}),
        r"pseudo_count of 'u' \('q'\) must be .*got -2",
    ),
    (
        pc.Block("categorical", ["u"], pseudo_count={"u": {}}),
        "pseudo_count of 'u' must be a number",
    ),
    (
        pc.Block("categorical", ["u"], pseudo_count={"v": 1}),
        "pseudo_count names column 'v', which is not in the block; it has 'u'",
    ),
    (
        pc.Block("categorical", ["u"], domain={"v": ["p"]}),
        "domain names column 'v', which is not in",
    ),
    (pc.Block("categorical", ["u"], domain=["p"]), "domain must be a table keyed by column"),
    (pc.Block("categorical", ["u"], domain={"u": "pq"}), "domain of 'u' must be a list of values"),
    (pc.Block("categorical", ["u"], domain={"u": []}), "domain of 'u' must be a list of values"),
    (pc.Block("categorical", ["u"], domain={"u": ["p", "p"]}), "domain of 'u' lists a value twice"),
    (
        pc.Block("categorical", ["u"], domain={"u": ["p", "q"]}, pseudo_count={"u": {"p": 1}}),
        "domain of 'u' has value 'q', pseudo_count has not; give both the same values",
    ),
    (
        pc.Block("categorical", ["u"], domain={"u": ["p"]}, pseudo_count={"u": {"p": 1, "z": 1}}),
        "pseudo_count of 'u' has value 'z', domain has not; give both the same values",
    ),
    (pc.Block("categorical", ["u"], unseen="skip"), "unseen must be one of 'error', 'ignore', "),
    (
        pc.Block("categorical", ["u"], smooth="none"),
        "smooth must be one of 'all', 'zeros', got 'none'",
    ),
    (pc.Block("knn_density", ["x"], k=0), "k must be a whole number of at least 1, got 0"),
    (pc.Block("knn_density", ["x"], k=2.5), "k must be a whole number of at least 1, got 2.5"),
    (pc.Block("knn_density", ["x"], points=-1), "points must be a whole number of at least 0"),
    (pc.Block("knn_density", ["x"], pseudo_count=-1), "pseudo_count must be a number of at least"),
    (pc.Block("knn_density", ["x"], standardize=1), "standardize must be true or false, got 1"),
    (
        pc.Block("knn_density", ["x"], missing="zero"),
        "missing must be one of 'marginalize', 'mean'",
    ),
    (pc.Block("knn_density", ["x"], p=0.5), "p must be a number of at least 1, got 0.5"),
    (
        pc.Block("knn_density", ["x"], metric="euclidian"),
        r"unknown metric 'euclidian'; use 'euclidean', .* Did you mean 'euclidean'\?",
    ),
    (
        pc.Block("knn_density", ["x"], metric="mahalanobis"),
        "metric 'mahalanobis' depends on a scale",
    ),
    (
        pc.Block("gaussian_full", ["u"]),
        "column 'u' is string, but it models numbers; choose another",
    ),
    (pc.Block("knn_density", ["u"]), "column 'u' is string, but it models numbers"),
    (
        pc.Block("categorical", ["t"]),
        r"column 't' is date32.* but it models categories \(text, bool, ",
    ),
]


UNKNOWN: list[tuple[str, dict[str, object], str]] = [
    ("gaussian_diagonal", {"dof": 1}, r"has no option 'dof'; it has .*'ddof', .* mean 'ddof'"),
    ("gaussian_shared", {"rigde": 1}, r"gaussian_shared has no option 'rigde'.* mean 'ridge'\?"),
    ("categorical_joint", {"psuedo_count": 1}, "'psuedo_count'.* mean 'pseudo_count'"),
    ("discretized", {"bin": 5}, r"no option 'bin'; it has .* Did you mean 'bins'\?"),
    ("categorical", {"given": "v", "smooth": "zeros"}, "categorical has no option 'smooth'"),
    ("gaussian_full", {"given": "v", "rigde": 1}, "gaussian_full has no option 'rigde'"),
]


@pytest.mark.parametrize(("estimator", "options", "message"), UNKNOWN)
def test_an_unknown_option_is_refused_before_there_is_data(
    estimator: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(pc.SpecError, match=message):
        pc.Block(estimator, "x", **options)  # type: ignore[arg-type]  # options may be anything


def test_a_spec_of_an_estimator_that_is_not_installed_can_be_read() -> None:
    values = {"label": "c", "blocks": [{"estimator": "tweedie", "columns": ["x"], "power": 1.5}]}
    assert pc.ModelSpec.from_dict(values).to_dict()["blocks"][0]["power"] == 1.5


@pytest.mark.parametrize(("block", "message"), OPTIONS)
def test_an_invalid_option_is_refused(block: pc.Block, message: str) -> None:
    with pytest.raises(pc.SpecError, match=message) as error_info:
        pc.fit(ROWS, pc.ModelSpec("c", [block]))
    assert str(error_info.value).startswith(block.estimator)
    assert "\n" not in str(error_info.value)


def test_an_unknown_estimator_is_refused() -> None:
    spec = pc.ModelSpec("c", [pc.Block("gausian_ful", ["x"])])
    with pytest.raises(
        pc.PluginError, match=r"'gausian_ful'.*Did you mean 'gaussian_full'\?"
    ) as error_info:
        pc.fit(ROWS, spec)
    assert ", ".join(map(repr, sorted(pc.estimators()))) in str(error_info.value)


PRIORS = [
    ({"a": 0.5, "z": 0.5}, "the prior names class 'z'; training saw 'a', 'b'"),
    ({"a": 1.0}, "the prior leaves out class 'b'; training saw 'a', 'b'"),
]


@pytest.mark.parametrize(("prior", "message"), PRIORS)
def test_a_prior_of_other_classes_is_refused(prior: dict[str, float], message: str) -> None:
    block = pc.Block("gaussian_diagonal", ["x"])
    with pytest.raises(pc.SpecError, match=message):
        pc.fit(ROWS, pc.ModelSpec("c", [block], prior=prior))
    with pytest.raises(pc.SpecError, match=message):
        pc.fit(ROWS, pc.ModelSpec("c", [block])).with_prior(prior)


def test_a_class_with_prior_zero_is_never_predicted() -> None:
    block = pc.Block("gaussian_diagonal", ["x"])
    model = pc.fit(ROWS, pc.ModelSpec("c", [block], prior={"a": 0.0, "b": 1}))
    assert set(model.predict(ROWS).to_pylist()) == {"b"}
    np.testing.assert_array_equal(model.predict_proba(ROWS)[:, 0], 0.0)
    assert (model.predict_log_proba(ROWS)[:, 0] == -np.inf).all()
