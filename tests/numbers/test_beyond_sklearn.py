"""Cases beyond scikit-learn (nulls, unseen categories, chunks), and published values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from model_values import fitted
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import probclass_core as pc


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
