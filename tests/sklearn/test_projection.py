"""`transform` projects rows on the discriminants of scikit-learn's LDA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import probclass_core as pc
from probclass_core.sklearn import ProbClassifier

SETS = ["iris", "wine", "breast_cancer"]


def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, y


def same_up_to_sign(ours: np.ndarray, theirs: np.ndarray, rtol: float = 1e-8) -> None:
    signs = np.sign((ours * theirs).sum(axis=0))
    np.testing.assert_allclose(ours * signs, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@pytest.mark.parametrize("components", [None, 1])
@pytest.mark.parametrize("name", SETS)
def test_the_axes_are_those_of_linear_discriminant_analysis(
    name: str, components: int | None
) -> None:
    x, y = bundled(name)
    ours = ProbClassifier("gaussian_shared", n_components=components).fit(x, y)
    svd = LinearDiscriminantAnalysis(solver="svd", n_components=components).fit(x, y)
    same_up_to_sign(ours.transform(x), svd.transform(x))
    eigen = LinearDiscriminantAnalysis(solver="eigen", n_components=components).fit(x, y)
    projected = eigen.transform(x)  # not centered
    same_up_to_sign(ours.transform(x), projected - projected.mean(axis=0))
    for peer in (svd, eigen):
        np.testing.assert_allclose(
            ours.explained_variance_ratio_, peer.explained_variance_ratio_, rtol=1e-9
        )


def test_dependent_columns_add_no_axis() -> None:
    """scikit-learn's singular values leave them out as well."""
    x, y = bundled("wine")
    dependent = np.column_stack([x, x[:, 0] + x[:, 3], x[:, 1] - 2.0 * x[:, 2]])
    peer = LinearDiscriminantAnalysis(solver="svd").fit(dependent, y)
    ours = ProbClassifier("gaussian_shared").fit(dependent, y)
    same_up_to_sign(ours.transform(dependent), peer.transform(dependent), rtol=1e-5)


def test_given_priors_move_the_axes_as_in_linear_discriminant_analysis() -> None:
    x, y = bundled("iris")  # classes of equal size, so the pooled covariances are the same
    prior = {"0": 0.6, "1": 0.3, "2": 0.1}
    peer = LinearDiscriminantAnalysis(priors=list(prior.values())).fit(x, y)
    ours = ProbClassifier("gaussian_shared", prior=prior).fit(x, y)
    same_up_to_sign(ours.transform(x), peer.transform(x))


def test_shrinkage_changes_the_axes_and_unit_variance_is_that_of_the_covariance() -> None:
    x, y = bundled("wine")
    ours = ProbClassifier("gaussian_shared", options={"shrinkage": 1.0}).fit(x, y)
    means = np.array([x[y == label].mean(axis=0) for label in range(3)])
    width = (x - means[y]).std(axis=0)
    # Independent features: distances of means are those of scaled columns.
    projected, scaled = ours.transform(means), means / width
    for one in range(3):
        for other in range(3):
            assert np.linalg.norm(projected[one] - projected[other]) == pytest.approx(
                np.linalg.norm(scaled[one] - scaled[other])
            )


def test_distances_to_the_means_decide_like_the_posterior() -> None:
    x, y = bundled("wine")
    ours = ProbClassifier("gaussian_shared", prior="uniform").fit(x, y)
    centers = ours.transform(np.array([x[y == label].mean(axis=0) for label in range(3)]))
    distance = np.linalg.norm(ours.transform(x)[:, None] - centers, axis=2)
    assert distance.argmin(axis=1).tolist() == ours.predict(x).tolist()


def test_several_blocks_are_independent_within_the_classes() -> None:
    x, y = bundled("iris")
    blocks = [
        pc.Block("gaussian_shared", ["x2", "x0"], name="one"),
        pc.Block("gaussian_shared", ["x3"], name="other"),
    ]
    ours = ProbClassifier(blocks).fit(x, y)
    means = np.array([x[y == label].mean(axis=0) for label in range(3)])
    within = x - means[y]
    covariance = within.T @ within / len(x)
    covariance[3, [0, 2]] = covariance[[0, 2], 3] = 0.0
    used = [0, 2, 3]
    inverse = np.linalg.inv(covariance[np.ix_(used, used)])
    projected = ours.transform(means)
    gap = (means[0] - means[1])[used]
    assert ((projected[0] - projected[1]) ** 2).sum() == pytest.approx(gap @ inverse @ gap)


def test_a_row_with_a_null_has_no_coordinates() -> None:
    x, y = bundled("iris")
    gaps = x.copy()
    gaps[3, 1] = np.nan
    ours = ProbClassifier("gaussian_shared").fit(gaps, y)
    projected = ours.transform(gaps)
    assert np.isnan(projected[3]).all()
    assert np.isfinite(np.delete(projected, 3, axis=0)).all()


def test_partial_fits_give_the_same_axes() -> None:
    x, y = bundled("wine")
    parts = ProbClassifier("gaussian_shared")
    for rows in np.array_split(np.random.default_rng(0).permutation(len(y)), 5):
        parts.partial_fit(x[rows], y[rows], classes=[0, 1, 2])
    at_once = ProbClassifier("gaussian_shared").fit(x, y)
    np.testing.assert_allclose(parts.transform(x), at_once.transform(x), rtol=1e-7, atol=1e-9)


def test_it_is_a_step_of_a_pipeline_that_a_search_can_tune() -> None:
    x, y = bundled("wine")
    steps = make_pipeline(ProbClassifier("gaussian_shared"), KNeighborsClassifier())
    grid = {
        "probclassifier__n_components": [1, 2],
        "probclassifier__gaussian_shared__shrinkage": [None, "ledoit_wolf"],
    }
    search = GridSearchCV(steps, grid, error_score="raise").fit(x, y)
    assert search.best_score_ > 0.95
    assert search.best_params_["probclassifier__n_components"] == 2


def test_frames_come_out_where_they_are_asked_for() -> None:
    x, y = bundled("iris")
    frame = pd.DataFrame(x, columns=list("abcd"), index=np.arange(len(y)) + 7)
    ours = ProbClassifier({"gaussian_shared": ["d", "b"]}).set_output(transform="pandas")
    projected = ours.fit_transform(frame, y)
    assert projected.columns.tolist() == ["probclassifier0", "probclassifier1"]
    assert projected.columns.tolist() == ours.get_feature_names_out().tolist()
    assert projected.index.equals(frame.index)


@pytest.mark.parametrize(
    "estimator",
    ["auto", "gaussian_full", {"gaussian_shared": ["x0"], "categorical": ["x1"]}, 3, ["auto"]],
)
def test_only_blocks_with_a_shared_covariance_are_transformers(estimator: Any) -> None:
    for name in ("transform", "fit_transform", "get_feature_names_out", "set_output"):
        assert not hasattr(ProbClassifier(estimator), name)
    assert hasattr(ProbClassifier({"gaussian_shared": ["x0"]}), "transform")
    assert hasattr(
        ProbClassifier([{"estimator": "gaussian_shared", "columns": ["x0"]}]), "fit_transform"
    )


@pytest.mark.parametrize("components", [0, 3, -1, 1.0, True, "all"])
def test_a_number_of_components_out_of_bounds_is_refused_by_fit(components: Any) -> None:
    x, y = bundled("iris")
    with pytest.raises(
        pc.SpecError, match=r"n_components must be a whole number from 1 to 2, .*got"
    ):
        ProbClassifier("gaussian_shared", n_components=components).fit(x, y)


def test_one_class_has_no_axes() -> None:
    x, y = bundled("iris")
    assert ProbClassifier("gaussian_shared").fit(x, y * 0).transform(x).shape == (150, 0)
    with pytest.raises(pc.SpecError, match="1 class has no axes to project on; fit rows of at"):
        ProbClassifier("gaussian_shared", n_components=1).fit(x, y * 0)


def test_densities_without_a_shared_covariance_are_not_projected() -> None:
    x, y = bundled("iris")
    predictive = ProbClassifier("gaussian_shared", options={"predictive": True}).fit(x, y)
    with pytest.raises(
        pc.NotSupportedError, match=r"'gaussian_shared' .* has no shared covariance"
    ):
        predictive.transform(x)
    given = ProbClassifier([pc.Block("gaussian_shared", ["x0"], given=["x1"])]).fit(x, y)
    with pytest.raises(pc.NotSupportedError, match="without predictive and given"):
        given.transform(x)


def test_nothing_is_projected_before_fit() -> None:
    unfitted = clone(ProbClassifier("gaussian_shared"))
    with pytest.raises(NotFittedError):
        unfitted.transform([[1.0]])
    assert not hasattr(unfitted, "explained_variance_ratio_")
    assert not hasattr(
        ProbClassifier("gaussian_full").fit(*bundled("iris")), "explained_variance_ratio_"
    )
