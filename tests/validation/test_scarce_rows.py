"""Rows that do not suffice for every estimate: the fit succeeds with pooled ones and says so."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import probclass_core as pc
from probclass_core.model.stored import model_from_bundle

NUMBERS = ("gaussian_diagonal", "gaussian_full", "gaussian_shared", "discretized", "knn_density")
COUNTS = ("bernoulli", "multinomial", "poisson")
CATEGORIES = ("categorical", "categorical_joint")
ESTIMATORS = (*NUMBERS, *COUNTS, *CATEGORIES)
X = [1, 2, 3, 4, 5, 9]
Z = [1, 3, 3, 1, 2, 4]
SCARCE: dict[str, tuple[dict[str, list[Any]], str]] = {
    "a column without values": ({"x": X, "z": [None] * 6, "y": [*"aaabbb"]}, "column 'z' has no v"),
    "no value at all": (
        {"x": [None] * 6, "z": [None] * 6, "y": [*"aaabbb"]},
        "columns 'x', 'z' have no value in any training row: the model leaves them out.",
    ),
    "a class without rows": (
        {"x": [None, None, *X[2:]], "z": [None, None, *Z[2:]], "y": [*"aabbbb"]},
        "class 'a' has no ",
    ),
    "a class of one row": ({"x": X, "z": Z, "y": [*"abbbbb"]}, ""),
    "classes of one row": ({"x": X, "z": Z, "y": [*"abcdef"]}, ""),
    "a constant column": ({"x": [7] * 6, "z": Z, "y": [*"aaabbb"]}, ""),
    "one class": ({"x": X, "z": Z, "y": [*"aaaaaa"]}, "label 'y' has one class only, 'a'"),
    "columns of other classes": (
        {"x": [1, 2, None, None, 5, 9], "z": [None, None, 3, 1, None, None], "y": [*"aabbcc"]},
        "",
    ),
}
ROWS = {"x": [1, 2, None, 7, None], "z": [1, None, 3, 2, None]}


def typed(estimator: str, rows: dict[str, list[Any]]) -> pa.Table:
    """Rows with text in the features of estimators of categories."""
    kind = pa.string() if estimator in CATEGORIES else pa.int64()
    text = {name: [None if v is None else str(v) for v in rows[name]] for name in ("x", "z")}
    features = {
        name: pa.array(text[name] if estimator in CATEGORIES else rows[name], kind)
        for name in ("x", "z")
    }
    return pa.table({**features, **{name: rows[name] for name in rows if name not in features}})


def spec(estimator: str, **keys: Any) -> pc.ModelSpec:
    options = {"k": 2} if estimator == "knn_density" else {}
    return pc.ModelSpec("y", [pc.Block(estimator, ["x", "z"], **options)], **keys)


@pytest.mark.parametrize(
    ("estimator", "block_weights"),
    [
        *((estimator, None) for estimator in ESTIMATORS),
        *((estimator, "fit") for estimator in ("gaussian_full", "knn_density", "multinomial")),
    ],
)
@pytest.mark.parametrize("case", SCARCE)
def test_the_fit_succeeds_and_the_notes_say_what_was_missing(
    estimator: str, case: str, block_weights: str | None
) -> None:
    rows, note = SCARCE[case]
    model = pc.fit(typed(estimator, rows), spec(estimator, block_weights=block_weights))
    scored = typed(estimator, ROWS)
    posterior = model.predict_proba(scored)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.log_likelihood_by_block(scored)[-1], 0.0)
    assert any(note in sentence for sentence in model.training.get("notes", [""]))
    stored = model_from_bundle(model.to_bundle())
    assert stored.training["notes"] == model.training["notes"] if note else True
    np.testing.assert_array_equal(stored.predict_proba(scored), posterior)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_column_without_values_says_nothing(estimator: str) -> None:
    rows = typed(estimator, {"x": X, "z": [None] * 6, "y": [*"aaabbb"]})
    options = {"k": 2} if estimator == "knn_density" else {}
    alone = pc.fit(rows, pc.ModelSpec("y", [pc.Block(estimator, ["x"], **options)]))
    scored = typed(estimator, ROWS)
    np.testing.assert_allclose(
        pc.fit(rows, spec(estimator)).joint_log_likelihood(scored),
        alone.joint_log_likelihood(scored),
    )


WITHIN = (2 * np.var([2.0, 5.0]) + 3 * np.var([7.0, 7.5, 9.5])) / 5


@pytest.mark.parametrize("estimator", ["gaussian_diagonal", "gaussian_full"])
@pytest.mark.parametrize(
    ("values", "labels", "mean", "variance"),
    [
        (
            [None, None, *(of_all := [2.0, 5.0, 7.0, 7.5])],
            "aabbcc",
            np.mean(of_all),
            np.var(of_all),
        ),
        ([1.0, 2.0, 5.0, 7.0, 7.5, 9.5], "abbccc", 1.0, WITHIN),
    ],
    ids=["a class without values", "a class of one row"],
)
def test_a_scarce_class_has_the_normal_of_all_rows_or_the_variance_within_the_others(
    estimator: str, values: list[float | None], labels: str, mean: float, variance: float
) -> None:
    model = pc.fit({"x": values, "y": [*labels]}, pc.ModelSpec("y", [pc.Block(estimator, "x")]))
    logs = model.log_likelihood_by_block({"x": [1.0, 4.0]})[:, 0, 0]
    np.testing.assert_allclose(logs, stats.norm(mean, np.sqrt(variance)).logpdf([1.0, 4.0]))


@pytest.mark.parametrize(
    "block",
    [
        pc.Block("categorical", "x", pseudo_count=0),
        pc.Block("categorical", "x", given="z", pseudo_count=0),
        pc.Block("bernoulli", "x", pseudo_count=0),
        pc.Block("poisson", "x", pseudo_count=0, pseudo_rows=0),
        pc.Block("discretized", "x", pseudo_count=0),
    ],
    ids=["categorical", "given", "bernoulli", "poisson", "discretized"],
)
def test_without_a_prior_a_class_without_values_has_the_estimates_of_all_rows(
    block: pc.Block,
) -> None:
    rows = pa.table({"x": [None, None, 1, 0, 1, 1], "z": ["s"] * 6, "y": [*"aabbbc"]})
    model = pc.fit(rows, pc.ModelSpec("y", [block]))
    known = rows[2:]
    of_all = pa.concat_tables([known.set_column(2, "y", pa.array(["a"] * 4)), known])
    pooled = pc.fit(of_all, pc.ModelSpec("y", [block]))
    scored = {"x": [0, 1], "z": ["s", "s"]}
    np.testing.assert_allclose(
        model.log_likelihood_by_block(scored)[:, 0], pooled.log_likelihood_by_block(scored)[:, 0]
    )
    (note,) = model.training["notes"]
    assert note == (
        "class 'a' has no value of column 'x': the probabilities there are those of all classes "
        "together."
    )


def test_a_class_without_points_has_the_density_of_all_points() -> None:
    rows = {"x": [None, 1.0, 2.0, 4.0, 8.0], "y": [*"abbcc"]}
    model = pc.fit(rows, pc.ModelSpec("y", [pc.Block("knn_density", "x", k=2)]))
    densities = np.exp(model.log_likelihood_by_block({"x": [1.5, 5.0]})[:, :, 0])
    np.testing.assert_allclose(densities[:, 0], densities[:, 1:].mean(axis=1))


def test_the_covariance_of_a_class_of_one_row_is_that_within_the_others() -> None:
    random = np.random.default_rng(6)
    points = random.multivariate_normal([0.0, 0.0], [[2.0, 0.8], [0.8, 1.0]], 60)
    labels = ["a", *("b" if number % 2 else "c" for number in range(59))]
    rows = pa.table({"x": points[:, 0], "z": points[:, 1], "y": labels})
    model = pc.fit(rows, pc.ModelSpec("y", [pc.Block("gaussian_full", ["x", "z"])]))
    others = [points[[label == name for label in labels]] for name in "bc"]
    within = sum(len(part) * np.cov(part.T, ddof=0) for part in others) / 59
    scored = rows.slice(0, 5)
    np.testing.assert_allclose(
        model.log_likelihood_by_block(scored)[:, 0, 0],
        stats.multivariate_normal(points[0], within).logpdf(points[:5]),
    )


@pytest.mark.parametrize(
    "block",
    [
        pc.Block("discretized", "x", method="width", bins=2),
        pc.Block("categorical", "x", given="z"),
        pc.Block("categorical_joint", ["x", "z"]),
    ],
    ids=["discretized", "given", "joint"],
)
def test_with_a_pseudo_count_a_class_without_values_is_uniform(block: pc.Block) -> None:
    rows = {"x": [1, 2, None], "z": ["s", "s", "t"], "y": [*"aab"]}
    model = pc.fit(rows, pc.ModelSpec("y", [block]))
    logs = model.log_likelihood_by_block({"x": [1, 2], "z": ["s", "s"]})[:, 1, 0]
    cells = 4 if block.estimator == "categorical_joint" else 2
    np.testing.assert_allclose(np.exp(logs), 1 / cells)


def test_notes_are_logged_once_per_fit(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "probclass_core"):
        model = pc.fit(
            {"x": [1.0, None], "y": [*"ab"]},
            pc.ModelSpec("y", [pc.Block("gaussian_diagonal", "x")]),
        )
    assert [record.getMessage() for record in caplog.records] == model.training["notes"]


def test_notes_name_no_more_than_a_few_classes_and_columns() -> None:
    table = {f"x{number}": [1.0, *[None] * 99] for number in range(30)}
    rows = {**table, "y": [f"c{number}" for number in range(100)]}
    block = pc.Block("gaussian_diagonal", list(table))
    notes = pc.fit(rows, pc.ModelSpec("y", [block])).training["notes"]
    assert notes[0] == (
        "99 classes, such as 'c1', have no value of 30 columns, such as 'x0': the mean and "
        "variance there are those of all classes together."
    )
    assert sum(map(len, notes)) < 500


def test_enough_rows_need_no_notes() -> None:
    rows = {"x": X * 2, "z": Z * 2, "y": [*"aaabbb"] * 2}
    for estimator in ESTIMATORS:
        model = pc.fit(typed(estimator, rows), spec(estimator))
        assert "notes" not in model.training
        assert model.id == pc.fit(typed(estimator, rows), spec(estimator, on_scarce="pool")).id
