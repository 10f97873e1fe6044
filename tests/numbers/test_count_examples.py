"""Printed examples of naive Bayes on words, and a lecture's formulas with corrections.

Manning, Raghavan and Schütze, *Introduction to Information Retrieval* (2008), Examples 13.1 and
13.2.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from model_values import fitted, joint, predicted, rounds_to

import probclass_core as pc

NEWS = pa.table(
    {
        "words": [
            ["Chinese", "Beijing", "Chinese"],
            ["Chinese", "Chinese", "Shanghai"],
            ["Chinese", "Macao"],
            ["Tokyo", "Japan", "Chinese"],
        ],
        "china": ["yes", "yes", "yes", "no"],
    }
)
FIFTH = ["Chinese", "Chinese", "Chinese", "Tokyo", "Japan"]
COEFFICIENT = math.factorial(5) / math.factorial(3)
"""The coefficient of the fifth document; the book omits it, as it is the same in all classes."""


def probabilities(model: pc.Model) -> dict[tuple[str, str], float]:
    (parameters,) = model.parameters.values()
    return {
        (cell["class"], cell["feature"]): math.exp(cell["log_probability"])
        for cell in parameters.to_pylist()
    }


def test_example_13_1_multinomial() -> None:
    model = fitted(NEWS, "china", pc.Block("multinomial", ["words"]))
    p = probabilities(model)
    printed = {
        ("yes", "Chinese"): Fraction(6, 14),
        ("yes", "Tokyo"): Fraction(1, 14),
        ("yes", "Japan"): Fraction(1, 14),
        ("no", "Chinese"): Fraction(2, 9),
        ("no", "Tokyo"): Fraction(2, 9),
        ("no", "Japan"): Fraction(2, 9),
    }
    assert {key: p[key] for key in printed} == pytest.approx(printed, rel=1e-12)
    joint_probability = joint(model, words=FIFTH)
    assert rounds_to(joint_probability["yes"] / COEFFICIENT, "0.0003")
    assert rounds_to(joint_probability["no"] / COEFFICIENT, "0.0001")
    assert predicted(model, words=FIFTH) == "yes"


def test_example_13_2_bernoulli() -> None:
    model = fitted(NEWS, "china", pc.Block("bernoulli", ["words"]))
    p = probabilities(model)
    printed = {
        ("yes", "Chinese"): Fraction(4, 5),
        ("yes", "Japan"): Fraction(1, 5),
        ("yes", "Tokyo"): Fraction(1, 5),
        ("yes", "Beijing"): Fraction(2, 5),
        ("yes", "Macao"): Fraction(2, 5),
        ("yes", "Shanghai"): Fraction(2, 5),
        ("no", "Chinese"): Fraction(2, 3),
        ("no", "Japan"): Fraction(2, 3),
        ("no", "Tokyo"): Fraction(2, 3),
        ("no", "Beijing"): Fraction(1, 3),
        ("no", "Macao"): Fraction(1, 3),
        ("no", "Shanghai"): Fraction(1, 3),
    }
    assert p == pytest.approx(printed, rel=1e-12)
    joint_probability = joint(model, words=FIFTH)
    assert rounds_to(joint_probability["yes"], "0.005")
    assert rounds_to(joint_probability["no"], "0.022")
    assert predicted(model, words=FIFTH) == "no"


def test_lecture_estimates_without_smoothing() -> None:
    """N_jc / N_c of words, and the share of documents with the word; a zero excludes a class."""
    multinomial, bernoulli = (
        fitted(NEWS, "china", pc.Block(name, ["words"], pseudo_count=0))
        for name in ("multinomial", "bernoulli")
    )
    p, q = probabilities(multinomial), probabilities(bernoulli)
    assert (p["yes", "Chinese"], p["no", "Chinese"]) == pytest.approx((5 / 8, 1 / 3))
    assert (q["yes", "Chinese"], q["yes", "Macao"], q["no", "Tokyo"]) == pytest.approx(
        (1, 1 / 3, 1)
    )
    assert joint(multinomial, words=FIFTH)["yes"] == 0.0
    assert predicted(multinomial, words=FIFTH) == "no"
