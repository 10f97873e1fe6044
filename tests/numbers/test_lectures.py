"""The worked numbers of two sets of lecture notes: "Bayes Classifiers" and "Naive Bayes".

Where a printed number is wrong, the test says what is printed and why.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from model_values import (
    fitted,
    joint,
    normal,
    posterior,
    predicted,
    probability,
    rounds_to,
    rows,
)

import probclass_core as pc

PLAY_TENNIS = rows(
    ["outlook", "temperature", "humidity", "wind", "play"],
    [
        ("Sunny", "Hot", "High", "Weak", "No"),
        ("Sunny", "Hot", "High", "Strong", "No"),
        ("Overcast", "Hot", "High", "Weak", "Yes"),
        ("Rain", "Mild", "High", "Weak", "Yes"),
        ("Rain", "Cool", "Normal", "Weak", "Yes"),
        ("Rain", "Cool", "Normal", "Strong", "No"),
        ("Overcast", "Cool", "Normal", "Strong", "Yes"),
        ("Sunny", "Mild", "High", "Weak", "No"),
        ("Sunny", "Cool", "Normal", "Weak", "Yes"),
        ("Rain", "Mild", "Normal", "Weak", "Yes"),
        ("Sunny", "Mild", "Normal", "Strong", "Yes"),
        ("Overcast", "Mild", "High", "Strong", "Yes"),
        ("Overcast", "Hot", "Normal", "Weak", "Yes"),
        ("Rain", "Hot", "High", "Strong", "No"),
    ],
)
"""Example 3 of "Bayes Classifiers". Day 14 is printed Hot; in Mitchell's table it is Mild. No
number of the example depends on it."""

PLAY_SPEC = pc.ModelSpec(
    label="play",
    blocks=[pc.Block("categorical", PLAY_TENNIS.column_names[:4], pseudo_count=0.0)],
)

GENDER = rows(
    ["height", "weight", "gender"],
    [
        (1.72, 68, 1),
        (1.83, 79, 1),
        (1.71, 65, 0),
        (1.95, 83, 1),
        (1.68, 60, 0),
        (1.81, 76, 1),
        (1.75, 69, 0),
        (1.67, 57, 0),
    ],
)
"""Numerical example 2 of "Naive Bayes"."""


def test_bayes_classifiers_example_3_play_tennis() -> None:
    model = pc.fit(PLAY_TENNIS, PLAY_SPEC)
    assert model.priors["prior"].to_pylist() == pytest.approx([5 / 14, 9 / 14])
    assert probability(model, "Yes", "wind", "Strong") == pytest.approx(3 / 9)
    assert probability(model, "No", "wind", "Strong") == pytest.approx(3 / 5)
    x = {"outlook": "Sunny", "temperature": "Cool", "humidity": "High", "wind": "Strong"}
    joint_probability = joint(model, **x)
    assert rounds_to(joint_probability["Yes"], "0.0053")
    assert rounds_to(joint_probability["No"], "0.0206")
    # The notes divide 0.206 by 0.206 + 0.053: misplaced decimal points, the same share.
    assert rounds_to(posterior(model, **x)["No"], "0.795")
    assert predicted(model, **x) == "No"


def test_naive_bayes_example_1_tennis_without_smoothing() -> None:
    """The notes label the probabilities of humidity x₂; they are those of x₃."""
    table = rows(
        ["outlook", "temperature", "humidity", "play"],
        [
            ("Sunny", "Hot", "High", "No"),
            ("Cloudy", "Hot", "High", "Yes"),
            ("Rain", "Mild", "High", "Yes"),
            ("Rain", "Cool", "Normal", "No"),
            ("Cloudy", "Mild", "High", "Yes"),
            ("Sunny", "Cool", "Normal", "Yes"),
            ("Rain", "Mild", "High", "No"),
            ("Sunny", "Mild", "High", "No"),
        ],
    )
    model = fitted(table, "play", pc.Block("categorical", table.column_names[:3], pseudo_count=0.0))
    shares: dict[tuple[str, str], tuple[float, float]] = {
        ("outlook", "Sunny"): (1 / 4, 2 / 4),
        ("outlook", "Cloudy"): (2 / 4, 0.0),
        ("outlook", "Rain"): (1 / 4, 2 / 4),
        ("temperature", "Hot"): (1 / 4, 1 / 4),
        ("temperature", "Mild"): (2 / 4, 2 / 4),
        ("temperature", "Cool"): (1 / 4, 1 / 4),
        ("humidity", "High"): (3 / 4, 3 / 4),
        ("humidity", "Normal"): (1 / 4, 1 / 4),
    }
    for (feature, value), (yes, no) in shares.items():
        assert probability(model, "Yes", feature, value) == pytest.approx(yes)
        assert probability(model, "No", feature, value) == pytest.approx(no)
    x = {"outlook": "Sunny", "temperature": "Mild", "humidity": "Normal"}
    joint_probability = joint(model, **x)
    assert rounds_to(math.log(joint_probability["Yes"]), "-4.159")
    assert rounds_to(math.log(joint_probability["No"]), "-3.466")
    assert predicted(model, **x) == "No"
    # There is tennis on every cloudy day: without smoothing a zero count excludes the class.
    assert posterior(model, **{**x, "outlook": "Cloudy"}) == {"No": 0.0, "Yes": 1.0}


def test_naive_bayes_example_2_variances_divide_by_n_minus_1() -> None:
    model = gender()
    printed = {
        (0, "height"): ("1.7025", "0.0012917"),
        (1, "height"): ("1.8275", "0.0089583"),
        (0, "weight"): ("62.75", "28.25"),
        (1, "weight"): ("76.50", "40.3333"),
    }
    for (label, feature), (mean, variance) in printed.items():
        assert all(map(rounds_to, normal(model, label, feature), (mean, variance)))


def test_naive_bayes_example_2_densities_and_decision() -> None:
    # The notes print 8.2721 and 2.4799, from variances rounded to 0.0013 and 0.0090; then 0.0622,
    # −1.356 = log(½ · 8.2721 · 0.06226), both cut off; and −3.920, from the density 0.0160.
    model = pc.fit(
        GENDER,
        pc.ModelSpec(
            label="gender",
            blocks=[pc.Block("gaussian_diagonal", [name], ddof=1) for name in ("height", "weight")],
        ),
    )
    x = pa.table({"height": [1.73], "weight": [66]})
    (height_0, weight_0), (height_1, weight_1) = np.exp(model.log_likelihood_by_block(x)[0])
    assert rounds_to(height_0, "8.2832")
    assert rounds_to(weight_0, "0.06226")
    assert rounds_to(height_1, "2.4795")
    assert rounds_to(weight_1, "0.016014")
    female, male = model.joint_log_likelihood(x)[0]
    assert rounds_to(female, "-1.3553")
    assert rounds_to(male, "-3.9193")
    assert predicted(gender(), height=1.73, weight=66) == 0


def gender() -> pc.Model:
    return fitted(GENDER, "gender", pc.Block("gaussian_diagonal", ["height", "weight"], ddof=1))
