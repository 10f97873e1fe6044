"""Cases beyond scikit-learn (nulls, unseen categories, chunks), and published values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted, normal, posterior, probability
from sklearn.datasets import load_digits
from sklearn.naive_bayes import CategoricalNB, GaussianNB

import probclass_core as pc
from probclass_core.errors import DataError

NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
CATEGORIES = ["island", "sex"]


def test_a_row_of_nulls_has_the_prior_and_density_1(penguins: pa.Table) -> None:
    model = fitted(
        penguins,
        "species",
        pc.Block("gaussian_full", NUMBERS[:2]),
        pc.Block("gaussian_diagonal", NUMBERS[2:3]),
        pc.Block("knn_density", NUMBERS[3:]),
        pc.Block("categorical", CATEGORIES),
    )
    nothing = pa.table({name: pa.nulls(1) for name in [*NUMBERS, *CATEGORIES]})
    assert model.predict_proba(nothing)[0] == pytest.approx(model.priors["prior"].to_pylist())
    assert model.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-12)
    assert not model.log_likelihood_by_block(nothing).any()


def test_moments_ignore_nulls(penguins: pa.Table) -> None:
    model = fitted(penguins, "species", pc.Block("gaussian_diagonal", NUMBERS, ddof=1))
    peer = penguins.to_pandas().groupby("species")[NUMBERS].agg(["mean", "var"])
    for label, row in peer.iterrows():
        for column in NUMBERS:
            expected = row[column]["mean"], row[column]["var"]
            assert normal(model, label, column) == pytest.approx(expected, rel=1e-9)


def test_an_unseen_category_has_a_probability() -> None:
    """scikit-learn raises IndexError; here the probability is (0 + α) / (n + Σα), or by option."""
    peer = CategoricalNB().fit([[0], [1], [1]], [0, 0, 1])
    with pytest.raises(IndexError):
        peer.predict([[2]])
    table = pa.table({"x": ["a", "b", "b"], "y": [0, 0, 1]})
    joint_probability = {0: 2 / 3 * 1 / 4, 1: 1 / 3 * 1 / 3}
    expected = {
        label: value / sum(joint_probability.values()) for label, value in joint_probability.items()
    }
    assert posterior(fitted(table, "y", pc.Block("categorical", ["x"])), x="c") == pytest.approx(
        expected
    )
    ignoring = fitted(table, "y", pc.Block("categorical", ["x"], unseen="ignore"))
    assert posterior(ignoring, x="c") == pytest.approx({0: 2 / 3, 1: 1 / 3})
    refusing = fitted(table, "y", pc.Block("categorical", ["x"], unseen="error"))
    with pytest.raises(DataError, match="'c'"):
        posterior(refusing, x="c")
    declared = fitted(table, "y", pc.Block("categorical", ["x"], domain={"x": ["a", "b", "c"]}))
    assert probability(declared, 0, "x", "c") == pytest.approx(1 / 5)
    assert probability(declared, 1, "x", "c") == pytest.approx(1 / 4)


def test_the_variance_floor_is_relative_to_each_feature() -> None:
    """One feature distinguishes the classes by its spread; the other is heavy-tailed and has the
    same values in both classes. Smoothing by the largest variance hides the first one."""
    random = np.random.default_rng(18)
    noise = np.repeat(random.standard_t(1, 2000) * 1e3, 2)
    y = np.tile([0, 1], 2000)
    x = np.column_stack([random.normal(0.0, np.where(y == 0, 0.01, 0.05)), noise])
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})

    def accuracy(columns: list[str]) -> float:
        model = fitted(table, "y", pc.Block("gaussian_diagonal", columns))
        return pc.evaluate(model, table).accuracy

    assert accuracy(["a", "b"]) == accuracy(["a"]) > 0.8
    assert GaussianNB().fit(x, y).score(x, y) < 0.55
    assert GaussianNB(var_smoothing=0.0).fit(x, y).score(x, y) == accuracy(["a", "b"])


def test_a_class_that_is_constant_by_chance_has_no_spike() -> None:
    """Many pixels of handwritten digits are 0 in all training rows of some class."""
    images, digits = load_digits(return_X_y=True)
    names: list[Any] = [f"pixel_{number}" for number in range(64)]
    table = pa.table([*images.T, digits], names=[*names, "y"])
    half = len(digits) // 2
    train, test = table.slice(0, half), table.slice(half)
    blocks = [pc.Block("gaussian_diagonal", names, **o) for o in ({}, {"variance_floor": 1e-9})]
    accuracy, with_spikes = (
        pc.evaluate(fitted(train, "y", block), test).accuracy for block in blocks
    )
    peer = GaussianNB().fit(images[:half], digits[:half]).score(images[half:], digits[half:])
    assert with_spikes < peer < accuracy - 0.02


def test_many_narrow_classes_far_apart_are_not_widened_by_the_floor() -> None:
    """The floor follows the variance within the classes, not that over all classes."""
    random = np.random.default_rng(5)
    y = np.repeat(np.arange(1000), 5)
    table = pa.table({"x": y + random.normal(0.0, 0.05, len(y)), "y": y})
    model = fitted(table, "y", pc.Block("gaussian_diagonal", ["x"]))
    assert pc.evaluate(model, table).accuracy > 0.99


def test_posterior_on_iris_agrees_with_apache_madlib(iris: pa.Table) -> None:
    """MADlib's test of Gaussian naive Bayes predicts ten of the 150 flowers; number 87
    is versicolor with this posterior. MADlib divides by n − 1."""
    columns: list[Any] = iris.column_names[:4]
    model = fitted(iris, "species", pc.Block("gaussian_diagonal", columns, ddof=1))
    ten = iris.take([number - 1 for number in (1, 18, 28, 38, 86, 87, 88, 113, 136, 143)])
    assert model.predict(ten).to_pylist() == ten["species"].to_pylist()
    share = model.predict_proba(ten)[5, model.classes.to_pylist().index("iris-versicolor")]
    assert share == pytest.approx(0.797179533206787, rel=1e-9)
