"""Printed examples of naive Bayes on words, and a lecture's formulas with corrections.

Manning, Raghavan and Schütze, *Introduction to Information Retrieval* (2008), Examples 13.1 and
13.2.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from model_values import fitted, joint, likelihood, predicted, rounds_to

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


def test_lecture_multinomial_with_corrected_formula() -> None:
    """The lecture prints x_j! / Π x_j! · Π p_j for (Σ x_j)! / Π x_j! · Π p_j^x_j."""
    model = fitted(NEWS, "china", pc.Block("multinomial", ["words"]))
    p = probabilities(model)
    for label, actual in likelihood(model, words=FIFTH).items():
        chinese, tokyo, japan = (p[label, word] for word in ("Chinese", "Tokyo", "Japan"))
        expected = math.factorial(5) / math.factorial(3) * chinese**3 * tokyo * japan
        assert actual == pytest.approx(expected, rel=1e-12)


def test_lecture_linear_decision() -> None:
    """The lecture remarks that naive Bayes is linear: the decision is a sign of weights · x + b."""
    model = fitted(NEWS, "china", pc.Block("multinomial", ["words"]))
    form = model.linear_form().to_pylist()
    no, yes = ([cell["weight"] for cell in form if cell["class"] == c] for c in ("no", "yes"))
    names = [cell["feature"] for cell in form[: len(no)]]
    weights = dict(zip(names, np.subtract(yes, no), strict=True))
    for words in (FIFTH, ["Tokyo"], ["Macao", "Japan"], ["Chinese"] * 2, []):
        decision = sum(weights[word] for word in words) + weights[None]
        assert predicted(model, words=words) == ("yes" if decision > 0 else "no")
