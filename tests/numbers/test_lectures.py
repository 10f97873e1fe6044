"""The worked numbers of two sets of lecture notes: "Bayes Classifiers" and "Naive Bayes".

Where a printed number is wrong, the test says what is printed and why.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from model_values import (
    fitted,
    joint,
    likelihood,
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


def diagnosis(prior: dict[str, float], sensitivity: float, false_alarm: float) -> pc.Model:
    """A medical test as a model: its rates are weights, the share of the ill is the prior."""
    table = rows(
        ["state", "test", "rate"],
        [
            ("ill", "+", sensitivity),
            ("ill", "-", 1.0 - sensitivity),
            ("well", "+", false_alarm),
            ("well", "-", 1.0 - false_alarm),
        ],
    )
    block = pc.Block("categorical", ["test"], pseudo_count=0.0)
    return fitted(table, "state", block, prior=prior, weight="rate")


CANCER = diagnosis({"ill": 0.008, "well": 0.992}, sensitivity=0.98, false_alarm=0.03)


def test_bayes_classifiers_example_1_a_jar_of_stones() -> None:
    stones = [("A", "gray")] * 2 + [("A", "black")] * 2 + [("B", "gray")] + [("B", "black")] * 2
    model = fitted(
        rows(["bucket", "color"], stones),
        "bucket",
        pc.Block("categorical", ["color"], pseudo_count=0.0),
    )
    assert probability(model, "A", "color", "gray") == pytest.approx(2 / 4)
    assert probability(model, "B", "color", "gray") == pytest.approx(1 / 3)
    gray = pa.table({"color": ["gray"]})
    assert np.exp(model.score_samples(gray))[0] == pytest.approx(3 / 7)
    assert joint(model, color="gray")["B"] == pytest.approx(1 / 7)


def test_bayes_classifiers_example_2_map_and_maximum_likelihood_disagree() -> None:
    """The notes show the formula of maximum likelihood, but decide by MAP."""
    joint_probability = joint(CANCER, test="+")
    assert rounds_to(joint_probability["ill"], "0.0078")
    assert rounds_to(joint_probability["well"], "0.0298")
    assert predicted(CANCER, test="+") == "well"
    assert rounds_to(posterior(CANCER, test="+")["ill"], "0.2085")
    assert math.fsum(posterior(CANCER, test="+").values()) == pytest.approx(1.0, rel=1e-15)
    assert predicted(CANCER.with_prior("uniform"), test="+") == "ill"
    assert likelihood(CANCER, test="+") == pytest.approx({"ill": 0.98, "well": 0.03})


def test_bayes_classifiers_example_2_from_a_population_of_a_hundred_thousand() -> None:
    """With so many people in the table, the empirical prior equals the given one."""
    table = rows(
        ["state", "test", "people"],
        [("ill", "+", 784), ("ill", "-", 16), ("well", "+", 2976), ("well", "-", 96224)],
    )
    block = pc.Block("categorical", ["test"], pseudo_count=0.0)
    model = fitted(table, "state", block, weight="people")
    assert model.priors["prior"].to_pylist() == pytest.approx([0.008, 0.992], rel=1e-15)
    assert posterior(model, test="+") == pytest.approx(posterior(CANCER, test="+"))


def test_bayes_classifiers_the_first_posterior_is_the_prior_of_the_second_test() -> None:
    """Two positive tests at once, or one after the other."""
    twice = rows(
        ["state", "first", "second", "rate"],
        [
            ("ill", "+", "+", 0.98),
            ("ill", "-", "-", 0.02),
            ("well", "+", "+", 0.03),
            ("well", "-", "-", 0.97),
        ],
    )
    block = pc.Block("categorical", ["first", "second"], pseudo_count=0.0)
    prior = {"ill": 0.008, "well": 0.992}
    at_once = posterior(
        fitted(twice, "state", block, prior=prior, weight="rate"), first="+", second="+"
    )
    updated = CANCER.with_prior(posterior(CANCER, test="+"))
    assert posterior(updated, test="+") == pytest.approx(at_once, rel=1e-12)


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


@pytest.mark.parametrize(
    ("pregnant", "printed"), [("0.20", "0.942"), ("0.25", "0.9561"), ("0.10", "0.8789")]
)
def test_naive_bayes_pregnancy_test_under_three_priors(pregnant: str, printed: str) -> None:
    """The text says 25 of 100, prints p(y = 1) = 0.10, and computes 0.942 with 0.20."""
    prior = {"ill": float(pregnant), "well": 1.0 - float(pregnant)}
    model = diagnosis(prior, sensitivity=0.98, false_alarm=0.015)
    assert rounds_to(posterior(model, test="+")["ill"], printed)


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


@pytest.mark.parametrize("label", [0, 1])
def test_naive_bayes_log_trick_keeps_two_thousand_features(label: int) -> None:
    """Σ log p where Π p is 0: pairs of features cancel out, and one feature decides."""
    names = [f"x{position}" for position in range(2001)]
    # N(0, 1) and N(1, 1) in every feature: exactly the moments of −1, 1 and of 0, 2.
    columns = {name: [-1.0, 1.0, 0.0, 2.0] for name in names}
    table = pa.table({**columns, "c": [0, 0, 1, 1]})
    model = fitted(table, "c", pc.Block("gaussian_diagonal", names))
    x = {name: float(position % 2) for position, name in enumerate(names)} | {"x2000": float(label)}
    assert likelihood(model, **x) == {0: 0.0, 1: 0.0}, "the product itself underflows"
    expected = 1.0 / (1.0 + math.exp(-0.5))
    assert posterior(model, **x)[label] == pytest.approx(expected, rel=1e-10)
    squares = 1000 * (0.0 + 0.5), 1000 * (0.0 + 0.5) + 0.5
    logs = [-2001 * 0.5 * math.log(2 * math.pi) - square + math.log(0.5) for square in squares]
    evidence = model.score_samples(pa.table({name: [value] for name, value in x.items()}))
    assert evidence[0] == pytest.approx(np.logaddexp(*logs), rel=1e-12)


def test_naive_bayes_log_trick_keeps_two_thousand_categories() -> None:
    names = [f"x{position}" for position in range(2001)]
    columns = {name: ["u", "u", "v", "u", "v", "v"] for name in names}
    table = pa.table({**columns, "c": [False] * 3 + [True] * 3})
    model = fitted(table, "c", pc.Block("categorical", names, pseudo_count=0.0))
    x = {name: "uv"[position % 2] for position, name in enumerate(names)}
    assert likelihood(model, **x) == {False: 0.0, True: 0.0}, "the product itself underflows"
    assert posterior(model, **x) == pytest.approx({False: 2 / 3, True: 1 / 3}, rel=1e-10)


FLOWERS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


@pytest.mark.parametrize(
    ("estimator", "options", "table", "label", "columns"),
    [
        ("categorical", {}, "play", "play", PLAY_TENNIS.column_names[:4]),
        ("gaussian_diagonal", {}, "iris", "species", FLOWERS),
        ("gaussian_full", {"ddof": 1}, "iris", "species", FLOWERS),
        ("knn_density", {"k": 7}, "iris", "species", FLOWERS),
    ],
)
def test_bayes_classifiers_two_merged_batches_equal_one(
    estimator: str,
    options: dict[str, Any],
    table: str,
    label: str,
    columns: list[str],
    iris: pa.Table,
) -> None:
    table_of_all_rows = PLAY_TENNIS if table == "play" else iris
    spec = pc.ModelSpec(label=label, blocks=[pc.Block(estimator, columns, **options)])
    expected = pc.fit(table_of_all_rows, spec)
    # The rows are sorted by class: the first batch lacks classes of the second.
    for cut in (1, table_of_all_rows.num_rows // 3, table_of_all_rows.num_rows - 1):
        batches = table_of_all_rows.slice(0, cut), table_of_all_rows.slice(cut)
        model = pc.finalize(pc.merge([pc.summarize(batch, spec) for batch in batches]))
        assert model.priors.equals(expected.priors)
        assert model.predict_log_proba(table_of_all_rows) == pytest.approx(
            expected.predict_log_proba(table_of_all_rows), rel=1e-9, abs=1e-12
        )
