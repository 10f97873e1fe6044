"""Shrinkage agrees with scikit-learn, with sums over rows, and with the parts of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_values import covariances, fitted, table_of_matrix
from sklearn import datasets
from sklearn.covariance import ledoit_wolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score

import probclass_core as pc
from probclass_core.estimation.tidy import notes_of
from probclass_core.sklearn import ProbClassifier

SETS = ["iris", "wine", "breast_cancer"]


def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, y


def normal(estimator: str, x: np.ndarray, y: np.ndarray, **options: Any) -> pa.Table:
    """The parameters of one block of all columns of x."""
    names = [f"x{position}" for position in range(x.shape[1])]
    model = fitted(table_of_matrix(x, c=y), "c", pc.Block(estimator, names, **options))
    return model.parameters[estimator]


def intensities(parameters: pa.Table) -> list[float]:
    values: list[float] = notes_of(parameters)["shrinkage"]
    return values


def centered(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows less the mean of their class."""
    return x - np.array([x[y == label].mean(axis=0) for label in np.unique(y)])[y]


@pytest.mark.parametrize("estimator", ["gaussian_full", "gaussian_shared"])
@pytest.mark.parametrize("name", SETS)
def test_covariances_are_shrunk_as_by_ledoit_wolf_of_standardized_rows(
    name: str, estimator: str
) -> None:
    """Of the rows of a class, or of all rows, about the means of their classes."""
    x, y = bundled(name)
    parameters = normal(estimator, x, y, shrinkage="ledoit_wolf")
    for label, intensity in enumerate(intensities(parameters)):
        rows = centered(x, y)
        if estimator == "gaussian_full":
            rows = rows[y == label]
        width = rows.std(axis=0)
        expected, expected_intensity = ledoit_wolf(rows / width, assume_centered=True)
        assert intensity == pytest.approx(expected_intensity, rel=1e-9)
        np.testing.assert_allclose(
            covariances(parameters)[label], expected * np.outer(width, width), rtol=1e-9
        )


@pytest.mark.parametrize("intensity", [0.1, 1.0])
@pytest.mark.parametrize("name", SETS)
def test_a_number_agrees_with_linear_discriminant_analysis_on_columns_of_unit_variance(
    name: str, intensity: float
) -> None:
    """scikit-learn's target is the mean variance: 1 if columns are scaled within the classes."""
    x, y = bundled(name)
    x = x / centered(x, y).std(axis=0)
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=intensity).fit(x, y)
    ours = ProbClassifier("gaussian_shared", options={"shrinkage": intensity}).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), peer.predict_proba(x), atol=1e-8)


def test_an_intensity_of_one_leaves_independent_features() -> None:
    x, y = bundled("wine")
    full = ProbClassifier("gaussian_full", options={"shrinkage": 1}).fit(x, y)
    diagonal = ProbClassifier("gaussian_diagonal", options={"variance_floor": 0}).fit(x, y)
    np.testing.assert_allclose(
        full.predict_joint_log_proba(x), diagonal.predict_joint_log_proba(x), rtol=1e-9
    )


def test_many_small_classes_keep_the_correlations_that_they_share() -> None:
    """Fifty classes of eight rows have one covariance of 400 rows, not fifty of eight."""
    random = np.random.default_rng(0)
    mixing, y = random.normal(size=(5, 5)), np.repeat(np.arange(50), 8)
    x = 1.5 * random.normal(size=(50, 5))[y] + 0.5 * random.normal(size=(400, 5)) @ mixing
    ours = ProbClassifier("gaussian_shared", options={"shrinkage": "ledoit_wolf"})
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    our_loss, peer_loss = (
        -cross_val_score(each, x, y, cv=4, scoring="neg_log_loss").mean() for each in (ours, peer)
    )
    assert our_loss < 0.6 * peer_loss


@pytest.mark.parametrize("estimator", ["gaussian_full", "gaussian_shared"])
def test_the_intensity_does_not_depend_on_units_or_offsets(estimator: str) -> None:
    x, y = bundled("iris")
    shifted = x * [1e-6, 1.0, 1e3, 1e9] + [7.0, 1e5, -1e6, 1e10]
    before, after = (
        intensities(normal(estimator, rows, y, shrinkage="ledoit_wolf")) for rows in (x, shifted)
    )
    assert after == pytest.approx(before, rel=1e-5)


def test_a_far_mean_costs_no_digits() -> None:
    """About a mean of 2²⁶, E[x⁴] − … would lose all digits; here the sums are exact."""
    x, y = bundled("iris")
    x = np.round(x * 10)
    moved = normal("gaussian_full", x + 2.0**26, y, shrinkage="ledoit_wolf")
    assert intensities(moved) == pytest.approx(
        intensities(normal("gaussian_full", x, y, shrinkage="ledoit_wolf")), rel=1e-12
    )


@given(data=st.data())
def test_sums_of_parts_far_from_each_other_equal_those_of_all_rows(data: st.DataObject) -> None:
    """The drift from part to part is much wider than the parts, and some cells are null."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size, parts = 60, data.draw(st.integers(1, 6))
    part = np.sort(random.integers(0, parts, size))
    x = random.normal(size=(size, 3)) + 1000.0 * part[:, None] * [1.0, 0.0, -1.0]
    missing = random.random(x.shape) < data.draw(st.sampled_from([0.0, 0.3]))
    weight = random.integers(1, 4, size).astype(float)
    rows = table_of_matrix(np.where(missing, np.nan, x), c=np.arange(size) % 2, w=weight)
    names = ["x0", "x1", "x2"]
    spec = pc.ModelSpec(
        "c", [pc.Block("gaussian_full", names, shrinkage="ledoit_wolf")], weight="w"
    )
    split = [pc.summarize(rows.filter(pa.array(part == each)), spec) for each in np.unique(part)]
    merged = pc.merge(split[::-1]).blocks["gaussian_full"]
    for label, row in enumerate(merged.to_pylist()):
        for field in ("square", "third", "fourth"):
            for i in range(3):
                for j in range(3):
                    both = (np.arange(size) % 2 == label) & ~missing[:, i] & ~missing[:, j]
                    pair, share = x[both][:, [i, j]], weight[both]
                    if not len(pair):
                        continue
                    u, v = (pair - np.average(pair, axis=0, weights=share)).T
                    powers = {"square": u * u, "third": u * u * v, "fourth": u * u * v * v}
                    exact = (share * powers[field]).sum()
                    largest = (share * np.abs(powers[field])).sum()
                    assert row[field][3 * i + j] == pytest.approx(
                        exact, rel=1e-9, abs=1e-9 * largest
                    )


def test_rows_far_from_a_pair_that_lack_one_of_it_cost_no_digits() -> None:
    """The rows that have both columns are close to each other, the others a million away."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3)) * [1.0, 2.0, 3.0] + [5.0, -3.0, 0.0]
    x[100:200, 0], x[100:200, 1] = np.nan, 1e6
    x[200:, 1], x[200:, 0] = np.nan, 1e6
    rows = table_of_matrix(np.concatenate([x, x]), c=np.repeat([0, 1], 300))
    block = pc.Block("gaussian_full", ["x0", "x1", "x2"], shrinkage="ledoit_wolf")
    statistics = pc.summarize(rows, pc.ModelSpec("c", [block])).blocks["gaussian_full"]
    u, v = (x[:100, :2] - x[:100, :2].mean(axis=0)).T
    exact = {"square": (u * u).sum(), "third": (u * u * v).sum(), "fourth": (u * u * v * v).sum()}
    for field, value in exact.items():
        assert statistics[field][0].as_py()[1] == pytest.approx(value, rel=1e-9), field


def test_with_nulls_each_pair_counts_the_rows_that_have_both() -> None:
    """The formula of the module, pair by pair."""
    x, y = bundled("iris")
    random = np.random.default_rng(4)
    x = np.where(random.random(x.shape) < 0.2, np.nan, x)
    parameters = normal("gaussian_full", x, y, shrinkage="ledoit_wolf")
    for label, intensity in enumerate(intensities(parameters)):
        rows = x[y == label]
        width = np.nanstd(rows, axis=0)
        chance = distance = 0.0
        for i in range(4):
            for j in range(4):
                pair = rows[:, [i, j]]
                pair = pair[~np.isnan(pair).any(axis=1)]
                products = ((pair - pair.mean(axis=0)) / width[[i, j]]).prod(axis=1)
                chance += products.var() / len(pair)
                distance += (products.mean() - (i == j)) ** 2
        assert intensity == pytest.approx(min(chance / distance, 1.0), rel=1e-9)


def test_constant_and_single_columns_need_no_shrinkage() -> None:
    x, y = bundled("iris")
    constant = np.column_stack([x, np.full(len(y), 0.1)])
    with_constant, without = (
        normal("gaussian_full", rows, y, shrinkage="ledoit_wolf") for rows in (constant, x)
    )
    assert intensities(with_constant) == pytest.approx(intensities(without), rel=1e-9)
    assert intensities(normal("gaussian_full", x[:, :1], y, shrinkage="ledoit_wolf")) == [0.0] * 3


def test_statistics_without_the_option_are_unchanged() -> None:
    x, y = bundled("iris")
    names = ["x0", "x1"]
    for shrinkage, extra in ((None, []), (0.2, []), ("ledoit_wolf", ["square", "third", "fourth"])):
        spec = pc.ModelSpec("c", [pc.Block("gaussian_full", names, shrinkage=shrinkage)])
        statistics = pc.summarize(table_of_matrix(x, c=y), spec).blocks["gaussian_full"]
        assert statistics.column_names == ["class", "count", "mean", "scatter", *extra]


POOLED = {"shrinkage": "ledoit_wolf", "shrinkage_target": "pooled"}


@pytest.mark.parametrize("name", SETS)
def test_towards_the_pooled_covariance_lies_between_two_families(name: str) -> None:
    x, y = bundled(name)
    for share, family in ((0.0, "gaussian_full"), (1.0, "gaussian_shared")):
        options = {"shrinkage": share, "shrinkage_target": "pooled"}
        ours = ProbClassifier("gaussian_full", options=options).fit(x, y)
        same = ProbClassifier(family).fit(x, y)
        np.testing.assert_allclose(
            ours.predict_joint_log_proba(x), same.predict_joint_log_proba(x), rtol=1e-7
        )


@pytest.mark.parametrize("name", SETS)
def test_the_share_of_the_pooled_covariance_is_that_of_chance_in_the_distance(name: str) -> None:
    """Schäfer and Strimmer's eq. 6, row by row: the variance of each product of deviations."""
    x, y = bundled(name)
    rows = centered(x, y)
    rows = rows / rows.std(axis=0)
    target = rows.T @ rows / len(y)
    shares = intensities(normal("gaussian_full", x, y, **POOLED))
    for label, share in enumerate(shares):
        of_class = rows[y == label]
        products = of_class[:, :, None] * of_class[:, None, :]
        chance = products.var(axis=0).sum() / len(of_class) * (y != label).mean()
        distance = ((products.mean(axis=0) - target) ** 2).sum()
        assert share == pytest.approx(min(chance / distance, 1.0), rel=1e-8)


def test_classes_that_share_a_covariance_are_pooled_and_others_are_not() -> None:
    random = np.random.default_rng(1)
    y = np.repeat([0, 1], 400)
    alike = random.normal(size=(800, 5)) @ random.normal(size=(5, 5))
    assert min(intensities(normal("gaussian_full", alike, y, **POOLED))) > 0.4
    unlike = alike * np.where(y == 0, 1.0, 3.0)[:, None]
    assert max(intensities(normal("gaussian_full", unlike, y, **POOLED))) < 0.1


@pytest.mark.parametrize("rows", [1, 2])
def test_a_class_of_few_rows_takes_the_pooled_covariance(rows: int) -> None:
    x, y = bundled("iris")
    few = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:rows]])
    parameters = normal("gaussian_full", x[few], y[few], **POOLED)
    shared = normal("gaussian_shared", x[few], y[few])
    np.testing.assert_allclose(covariances(parameters)[2], covariances(shared)[2], rtol=1e-9)


def test_a_class_without_a_column_is_shrunk_as_well() -> None:
    x, y = bundled("iris")
    x = np.where((y == 1)[:, None] & (np.arange(4) == 2), np.nan, x)
    for target in ("diagonal", "pooled"):
        options = {"shrinkage": "ledoit_wolf", "shrinkage_target": target}
        parameters = normal("gaussian_full", x, y, **options)
        assert (np.linalg.eigvalsh(covariances(parameters)) > 0.0).all()


@pytest.mark.nightly
def test_many_features_of_many_classes_are_better_pooled() -> None:
    """scikit-learn's quadratic discriminant has only the diagonal to shrink towards."""
    x, y = datasets.load_digits(return_X_y=True)
    x = x[:, x.std(axis=0) > 0.0][:900]
    ours = ProbClassifier("gaussian_full", options=POOLED)
    loss = -cross_val_score(ours, x, y[:900], cv=3, scoring="neg_log_loss").mean()
    plain = ProbClassifier("gaussian_full", options={"ridge": 1e-3})
    plain_loss = -cross_val_score(plain, x, y[:900], cv=3, scoring="neg_log_loss").mean()
    assert loss < 0.6 * plain_loss
