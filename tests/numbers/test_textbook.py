"""The worked numbers of the textbook's chapter on probabilistic classification.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18: "the book" is the printed chapter, "the
draft" an earlier one of the same authors. Notes to the chapter restate its formulas without new
numbers. Where a printed number is wrong, the test says what is printed and why.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pytest
from model_values import (
    count,
    covariance,
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

SEPAL = ["sepal_length", "sepal_width"]
X = {"sepal_length": 6.75, "sepal_width": 4.25}
"""The test point of the book, a white square in its figures."""

LENGTHS = ["very short", "short", "long", "very long"]
WIDTHS = ["short", "medium", "long"]
DOMAIN = {"sepal_length": LENGTHS, "sepal_width": WIDTHS}
LONG = {"sepal_length": "long", "sepal_width": "long"}
SHORT = {"sepal_length": "short", "sepal_width": "medium"}


@pytest.fixture(scope="module")
def sepals(iris: pa.Table) -> pa.Table:
    """The two-dimensional Iris data of the book: c1 is iris-setosa, c2 the rest."""
    setosa = compute.equal(iris["species"], "iris-setosa")
    return iris.select(SEPAL).append_column("c", compute.if_else(setosa, "c1", "c2"))


@pytest.fixture(scope="module")
def binned(sepals: pa.Table) -> pa.Table:
    """Table 18.1: sepal length and width cut into intervals that are closed on the right."""
    length = np.searchsorted([5.2, 6.1, 7.0], sepals["sepal_length"], side="left")
    width = np.searchsorted([2.8, 3.6], sepals["sepal_width"], side="left")
    return pa.table(
        {
            "sepal_length": np.array(LENGTHS)[length],
            "sepal_width": np.array(WIDTHS)[width],
            "c": sepals["c"],
        }
    )


@pytest.fixture(scope="module")
def full(sepals: pa.Table) -> pc.Model:
    return fitted(sepals, "c", pc.Block("gaussian_full", SEPAL))


@pytest.fixture(scope="module")
def naive(sepals: pa.Table) -> pc.Model:
    return fitted(sepals, "c", pc.Block("gaussian_diagonal", SEPAL))


def test_example_18_1_priors_are_shares_of_the_rows(full: pc.Model) -> None:
    assert full.priors["count"].to_pylist() == [50.0, 100.0]
    assert full.priors["prior"].to_pylist() == pytest.approx([50 / 150, 100 / 150], rel=1e-15)


def test_example_18_1_means_and_covariances(full: pc.Model) -> None:
    means = full.parameters["gaussian_full"]["mean"].to_pylist()
    printed = [("5.006", "3.418"), ("6.262", "2.872")]
    for mean, figures in zip(means, printed, strict=True):
        assert all(map(rounds_to, mean, figures))
    one, two = covariance(full, "c1"), covariance(full, "c2")
    assert all(map(rounds_to, one[np.triu_indices(2)], ("0.1218", "0.0983", "0.1423")))
    assert all(map(rounds_to, two[np.triu_indices(2)], ("0.4350", "0.1209", "0.1096")))
    assert np.array_equal(one, one.T)
    assert np.array_equal(two, two.T)


JOINT = pc.Block("categorical_joint", SEPAL, domain=DOMAIN)
UNSMOOTHED = pc.Block("categorical_joint", SEPAL, domain=DOMAIN, pseudo_count=0)
SMOOTH_ZEROS = pc.Block("categorical", SEPAL, domain=DOMAIN, smooth="zeros")
PRINTED = {
    "18.1": (
        pc.Block("gaussian_full", SEPAL),
        X,
        ("4.914e-7", "2.589e-5"),
        ("1.622e-7", "1.735e-5"),
    ),
    "18.2, a cell with rows": (UNSMOOTHED, SHORT, ("0.06", "0.15"), ("0.0198", "0.1005")),
    "18.2, an empty cell": (JOINT, LONG, ("1.61e-2", "8.93e-3"), ("5.32e-3", "5.98e-3")),
    # The book prints 3.99e-7 for c1, truncated instead of rounded.
    "18.3": (
        pc.Block("gaussian_diagonal", SEPAL),
        X,
        ("3.998e-7", "9.597e-5"),
        ("1.32e-7", "6.43e-5"),
    ),
    "18.4": (SMOOTH_ZEROS, LONG, ("4.815e-3", "8.60e-3"), ("1.59e-3", "5.76e-3")),
}
"""Of each example a block, a row, f(x | c) of both classes, and the same times the prior."""


@pytest.mark.parametrize("example", PRINTED)
def test_densities_times_priors_of_the_examples(
    sepals: pa.Table, binned: pa.Table, example: str
) -> None:
    """The book multiplies by priors that are rounded to 0.33 and 0.67."""
    block, x, densities, products = PRINTED[example]
    model = fitted(sepals if x is X else binned, "c", block)
    assert all(map(rounds_to, likelihood(model, **x).values(), densities))
    rounded = joint(model.with_prior({"c1": 0.33, "c2": 0.67}), **x)
    assert all(map(rounds_to, rounded.values(), products))
    assert predicted(model, **x) == "c2"


def test_a_cell_that_is_empty_in_both_classes_leaves_the_prior(binned: pa.Table) -> None:
    model = fitted(binned, "c", UNSMOOTHED)
    assert likelihood(model, **LONG) == {"c1": 0.0, "c2": 0.0}
    assert posterior(model, **LONG) == pytest.approx({"c1": 1 / 3, "c2": 2 / 3})


def test_example_18_4_smooths_the_empty_cell_only(binned: pa.Table) -> None:
    model = fitted(binned, "c", SMOOTH_ZEROS)
    printed = {"c1": (1 / 54, 13 / 50), "c2": (43 / 100, 2 / 100)}
    for label, shares in printed.items():
        for column, share in zip(SEPAL, shares, strict=True):
            assert probability(model, label, column, "long") == pytest.approx(share)


def test_example_18_2_marginal_counts_of_table_18_2(binned: pa.Table) -> None:
    # The book prints 13/50 for the short sepals of c1, but the cells 0, 3 and 8 add up to 11.
    model = fitted(binned, "c", pc.Block("categorical", SEPAL, domain=DOMAIN))
    counts = {
        (label, column): [count(model, label, column, value) for value in values]
        for label in ("c1", "c2")
        for column, values in DOMAIN.items()
    }
    assert counts == {
        ("c1", "sepal_length"): [39, 11, 0, 0],
        ("c1", "sepal_width"): [1, 36, 13],
        ("c2", "sepal_length"): [6, 39, 43, 12],
        ("c2", "sepal_width"): [46, 52, 2],
    }


def test_example_18_2_joint_counts_of_table_18_2(binned: pa.Table) -> None:
    model = fitted(binned, "c", pc.Block("categorical_joint", SEPAL, domain=DOMAIN))
    table = {label: np.zeros((4, 3)) for label in ("c1", "c2")}
    for cell in model.parameters["categorical_joint"].to_pylist():
        position = LENGTHS.index(cell["sepal_length"]), WIDTHS.index(cell["sepal_width"])
        table[cell["class"]][position] = cell["count"]
    assert table["c1"].tolist() == [[1, 33, 5], [0, 3, 8], [0, 0, 0], [0, 0, 0]]
    assert table["c2"].tolist() == [[6, 0, 0], [24, 15, 0], [13, 30, 0], [3, 7, 2]]


def test_example_18_3_variances_are_the_diagonal_of_the_covariance(
    naive: pc.Model, full: pc.Model
) -> None:
    for label, figures in (("c1", ("0.122", "0.142")), ("c2", ("0.435", "0.110"))):
        for position, (column, printed) in enumerate(zip(SEPAL, figures, strict=True)):
            mean, variance = normal(naive, label, column)
            assert rounds_to(variance, printed)
            assert variance == pytest.approx(covariance(full, label)[position, position], rel=1e-12)
            means = full.parameters["gaussian_full"]["mean"].to_pylist()
            assert mean == pytest.approx(means[label == "c2"][position], rel=1e-15)


def test_example_18_5_five_nearest_neighbors(sepals: pa.Table) -> None:
    # The flower (6.7, 3.3) occurs twice. Counting both, the fifth neighbor is (5.8, 4.0) at 0.982.
    model = fitted(sepals, "c", pc.Block("knn_density", SEPAL, k=5))
    assert posterior(model, **X) == pytest.approx({"c1": 1 / 5, "c2": 4 / 5})
    assert predicted(model, **X) == "c2"
    radius = math.hypot(6.75 - 5.8, 4.25 - 4.0)
    assert rounds_to(radius, "0.982")
    volume = math.pi * radius**2
    assert likelihood(model, **X) == pytest.approx({"c1": 1 / 50 / volume, "c2": 4 / 100 / volume})


def test_example_18_5_among_distinct_points_as_the_book_counts(sepals: pa.Table) -> None:
    # The book prints the radius 1.012, to (6.2, 3.4): the fifth of the distinct points.
    distinct = sepals.group_by(sepals.column_names).aggregate([])
    model = fitted(distinct, "c", pc.Block("knn_density", SEPAL, k=5))
    volume = math.pi * 1.025
    assert rounds_to(math.sqrt(1.025), "1.012")
    size = dict(zip(("c1", "c2"), model.priors["count"].to_pylist(), strict=True))
    assert likelihood(model, **X) == pytest.approx(
        {"c1": 1 / size["c1"] / volume, "c2": 4 / size["c2"] / volume}
    )
    assert posterior(model, **X) == pytest.approx({"c1": 1 / 5, "c2": 4 / 5})


CARS = rows(
    ["age", "car", "risk"],
    [
        (25, "sports", "L"),
        (20, "vintage", "H"),
        (25, "sports", "L"),
        (45, "suv", "H"),
        (20, "sports", "H"),
        (25, "suv", "H"),
    ],
)
"""Table 18.1 of the draft, Table 18.3 of the book."""


def cars(**options: float) -> pc.Model:
    domain = {"car": ["sports", "vintage", "suv", "truck"]}
    return fitted(
        CARS,
        "risk",
        pc.Block("gaussian_diagonal", ["age"], **options),
        pc.Block("categorical", ["car"], domain=domain),
    )


def test_draft_table_18_1_age_of_high_risk_drivers() -> None:
    mean, variance = normal(cars(), "H", "age")
    assert mean == 27.5
    assert rounds_to(math.sqrt(variance), "10.31")
    by_block = cars().log_likelihood_by_block(pa.table({"age": [23], "car": ["truck"]}))
    # With the deviation rounded to 10.31 it is 0.03518; the draft prints 0.035.
    assert rounds_to(np.exp(by_block[0, 0, 0]), "0.035185")
    assert rounds_to(np.exp(by_block[0, 0, 0]), "0.035")


def test_draft_table_18_1_car_with_laplace_correction() -> None:
    makes = ["sports", "vintage", "suv", "truck"]
    probabilities = {
        label: [probability(cars(), label, "car", make) for make in makes] for label in "HL"
    }
    assert probabilities["H"] == pytest.approx([2 / 8, 2 / 8, 3 / 8, 1 / 8])
    assert probabilities["L"] == pytest.approx([3 / 6, 1 / 6, 1 / 6, 1 / 6])


def test_draft_table_18_1_and_exercise_q1_a_truck_driver_of_23() -> None:
    """L has two drivers of the same age: without a floor, deviation and likelihood are 0."""
    model, x = cars(variance_floor=0.0), {"age": 23, "car": "truck"}
    assert normal(model, "L", "age") == (25.0, 0.0)
    assert rounds_to(likelihood(model, **x)["H"], "0.004398")
    assert likelihood(model, **x)["L"] == 0.0
    evidence = np.exp(model.score_samples(pa.table({"age": [23], "car": ["truck"]})))
    assert rounds_to(evidence[0], "0.002932")
    assert posterior(model, **x) == {"H": 1.0, "L": 0.0}
    assert predicted(model, **x) == "H"


def test_draft_equation_18_18_a_prior_count_for_each_value() -> None:
    """P(v | c) = (n_v + P_v) / (|D_c| + Σ P_v)."""
    given = {"sports": 0.4, "vintage": 0.1, "suv": 0.3, "truck": 0.2}
    model = fitted(CARS, "risk", pc.Block("categorical", ["car"], pseudo_count={"car": given}))
    counts = {"H": {"sports": 1, "vintage": 1, "suv": 2, "truck": 0}, "L": {"sports": 2}}
    for label, size in (("H", 4), ("L", 2)):
        for make, prior_count in given.items():
            expected = (counts[label].get(make, 0) + prior_count) / (size + 1.0)
            assert probability(model, label, "car", make) == pytest.approx(expected)


def test_exercise_q2_by_hand() -> None:
    """Table 18.4: two boolean features and a number. The book gives no answer."""
    table = rows(
        ["a1", "a2", "a3", "class"],
        [
            (True, True, 5.0, "Y"),
            (True, True, 7.0, "Y"),
            (True, False, 8.0, "N"),
            (False, False, 3.0, "Y"),
            (False, True, 7.0, "N"),
            (False, True, 4.0, "N"),
            (False, False, 5.0, "N"),
            (True, False, 6.0, "Y"),
            (False, True, 1.0, "N"),
        ],
    )
    model = fitted(
        table,
        "class",
        pc.Block("categorical", ["a1", "a2"], pseudo_count=0.0),
        pc.Block("gaussian_diagonal", ["a3"]),
    )
    # Y: 5, 7, 3, 6 has mean 5.25 and variance 2.1875; N: 8, 7, 4, 5, 1 has mean 5 and variance 6.
    yes = math.exp(-((1.0 - 5.25) ** 2) / (2 * 2.1875)) / math.sqrt(2 * math.pi * 2.1875)
    no = math.exp(-((1.0 - 5.0) ** 2) / (2 * 6.0)) / math.sqrt(2 * math.pi * 6.0)
    expected = {"N": 5 / 9 * (1 / 5) * (2 / 5) * no, "Y": 4 / 9 * (3 / 4) * (2 / 4) * yes}
    x = {"a1": True, "a2": False, "a3": 1.0}
    assert joint(model, **x) == pytest.approx(expected)
    assert predicted(model, **x) == max(expected, key=expected.__getitem__) == "N"


def test_exercise_q3_given_means_and_covariances() -> None:
    """The four points μ ± √2 Lⱼ, with L Lᵀ = Σ, have the mean μ and the covariance Σ exactly."""
    moments = {
        "c1": (np.array([1.0, 3.0]), np.array([[5.0, 3.0], [3.0, 2.0]])),
        "c2": (np.array([5.0, 5.0]), np.array([[2.0, 0.0], [0.0, 1.0]])),
    }
    points = []
    for label, (mean, sigma) in moments.items():
        for step in math.sqrt(2.0) * np.linalg.cholesky(sigma).T:
            points += [(*(mean + step), label), (*(mean - step), label)]
    model = fitted(rows(["x1", "x2", "c"], points), "c", pc.Block("gaussian_full", ["x1", "x2"]))
    for label, (_, sigma) in moments.items():
        assert covariance(model, label) == pytest.approx(sigma)
    assert model.priors["prior"].to_pylist() == [0.5, 0.5]
    density = likelihood(model, x1=3.0, x2=4.0)
    assert rounds_to(density["c1"], "0.096532")
    assert rounds_to(density["c2"], "0.025111")
    assert predicted(model, x1=3.0, x2=4.0) == "c1"
