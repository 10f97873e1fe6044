"""The evidence of counts agrees with the chain rule and with integrals over the parameters."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from model_values import evidence, fitted
from scipy import integrate, stats

import probclass_core as pc

WORDS = [["a", "b", "a"], ["b"], ["c", "c", "c", "a"], [], ["b", "c"], None, ["a", "a", "d"]]
TABLE = pa.table(
    {
        "x": [0, 3, 1, None, 7, 2, 5],
        "y": [2, 0, 1, 4, 1, 1, 0],
        "words": pa.array(WORDS, pa.list_(pa.string())),
        "c": list("abaabba"),
    }
)
VOCABULARY = ["a", "b", "c", "d"]
PREDICTIVE: dict[str, pc.Block] = {
    "bernoulli": pc.Block("bernoulli", ["x", "y"], pseudo_count=0.7),
    "bernoulli of terms": pc.Block("bernoulli", ["words"], pseudo_count=0.7, vocabulary=VOCABULARY),
    "multinomial": pc.Block("multinomial", ["y"], pseudo_count=0.7, predictive=True),
    "multinomial of terms": pc.Block(
        "multinomial", ["words"], pseudo_count=0.7, vocabulary=VOCABULARY, predictive=True
    ),
    "poisson": pc.Block("poisson", ["x", "y"], pseudo_count=0.7, pseudo_rows=0.3, predictive=True),
}


@pytest.mark.parametrize("case", PREDICTIVE)
def test_evidence_grows_by_the_predictive_density_of_each_row(case: str) -> None:
    """log p(rows 1 … n+1) − log p(rows 1 … n) = log p(row n+1 | rows 1 … n), also with nulls."""
    block = PREDICTIVE[case]
    for size in range(2, TABLE.num_rows):
        model, row = fitted(TABLE[:size], "c", block), TABLE[size : size + 1]
        position = model.classes.to_pylist().index(row["c"][0].as_py())
        expected = model.log_likelihood_by_block(row)[0, position, 0]
        actual = evidence(TABLE[: size + 1], block) - evidence(TABLE[:size], block)
        assert actual == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("case", PREDICTIVE)
def test_evidence_ignores_splits_and_counts_weights_as_rows(case: str) -> None:
    block = PREDICTIVE[case]
    spec = pc.ModelSpec("c", [block], weight="w")
    counts = [2, 1, 3, 1, 0, 1, 2]
    weighted = TABLE.append_column("w", pa.array(counts, pa.float64()))
    parts = [pc.summarize(part, spec) for part in (weighted[:3], weighted[3:])]
    estimator = pc.estimators()[block.estimator](parts[0].features, block.options)
    merged = pc.merge(parts).blocks[block.estimator]
    rows = [row for row, count in enumerate(counts) for _ in range(count)]
    assert estimator.log_evidence(merged) == pytest.approx(evidence(TABLE.take(rows), block))


def test_bernoulli_evidence_is_an_integral_over_the_probability() -> None:
    present, prior = [1, 0, 1, 1], stats.beta(0.7, 0.7)
    value, _ = integrate.quad(lambda p: p**3 * (1 - p) * prior.pdf(p), 0, 1)
    table = pa.table({"x": present, "c": ["a"] * 4})
    block = pc.Block("bernoulli", ["x"], pseudo_count=0.7)
    assert evidence(table, block) == pytest.approx(math.log(value), rel=1e-7)


def test_multinomial_evidence_is_an_integral_over_the_probabilities() -> None:
    counts, prior = np.array([[2, 1], [0, 3], [4, 4]]), stats.beta(1.3, 1.3)

    def density(p: float) -> float:
        rows = stats.binom.pmf(counts[:, 0], counts.sum(axis=1), p)
        return float(rows.prod() * prior.pdf(p))

    value, _ = integrate.quad(density, 0, 1)
    table = pa.table({"x": counts[:, 0], "y": counts[:, 1], "c": ["a"] * 3})
    block = pc.Block("multinomial", ["x", "y"], pseudo_count=1.3)
    assert evidence(table, block) == pytest.approx(math.log(value), rel=1e-7)


def test_poisson_evidence_is_an_integral_over_the_rate() -> None:
    counts, prior = [3, 0, 5], stats.gamma(0.7, scale=1 / 0.3)

    def density(rate: float) -> float:
        return float(np.prod(stats.poisson.pmf(counts, rate)) * prior.pdf(rate))

    value, _ = integrate.quad(density, 0, 60)
    table = pa.table({"x": counts, "c": ["a"] * 3})
    block = pc.Block("poisson", ["x"], pseudo_count=0.7, pseudo_rows=0.3)
    assert evidence(table, block) == pytest.approx(math.log(value), rel=1e-7)


@pytest.mark.parametrize("size", [10**5, 10**9, 10**13])
def test_predictive_densities_are_precise_after_many_rows(size: int) -> None:
    """The counts are so large that two log Γ differ in their last digits only."""
    table = pa.table({"x": [3 * size, 1], "y": [size, 1], "c": ["a", "b"]})
    block = pc.Block("multinomial", ["x", "y"], predictive=True)
    actual = fitted(table, "c", block).log_likelihood_by_block({"x": [2], "y": [1]})[0, 0, 0]
    a, b = 3 * size + 1, size + 1
    exact = math.log(3 * a * (a + 1) * b) - math.log((a + b) * (a + b + 1) * (a + b + 2))
    assert actual == pytest.approx(exact, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("option", ["pseudo_count", "pseudo_rows"])
def test_a_pseudo_count_of_0_has_no_evidence(option: str) -> None:
    names = ["poisson"] if option == "pseudo_rows" else ["bernoulli", "multinomial", "poisson"]
    for name in names:
        with pytest.raises(pc.NotSupportedError, match=f"{option}=0, which is not a proper prior"):
            evidence(TABLE, pc.Block(name, ["x", "y"], **{option: 0}))


def test_multinomial_evidence_refuses_rows_with_some_nulls() -> None:
    with pytest.raises(pc.DataError, match="column 'x' is null in rows that have other counts"):
        evidence(TABLE, pc.Block("multinomial", ["x", "y"]))
    assert math.isfinite(evidence(TABLE.filter(TABLE["x"].is_valid()),
                                  pc.Block("multinomial", ["x", "y"])))  # fmt: skip
