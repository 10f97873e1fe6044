"""The evidence of counts beside the chain rule, and beside integrals over their parameters."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from readings import fitted
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


def evidence(table: pa.Table, block: pc.Block) -> float:
    statistics = pc.summarize(table, pc.ModelSpec("c", [block]))
    estimator = pc.estimators()[block.estimator](statistics.features, block.options)
    return estimator.log_evidence(statistics.blocks[block.estimator])


@pytest.mark.parametrize("case", PREDICTIVE)
def test_evidence_grows_by_the_predictive_density_of_each_row(case: str) -> None:
    """log p(rows 1 … n+1) − log p(rows 1 … n) = log p(row n+1 | rows 1 … n), nulls and all."""
    block = PREDICTIVE[case]
    for size in range(2, TABLE.num_rows):
        model, row = fitted(TABLE[:size], "c", block), TABLE[size : size + 1]
        place = model.classes.to_pylist().index(row["c"][0].as_py())
        expected = model.log_likelihood_by_block(row)[0, place, 0]
        found = evidence(TABLE[: size + 1], block) - evidence(TABLE[:size], block)
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("case", PREDICTIVE)
def test_evidence_does_not_depend_on_the_split_and_takes_weights_for_rows(case: str) -> None:
    block = PREDICTIVE[case]
    spec = pc.ModelSpec("c", [block], weight="w")
    times = [2, 1, 3, 1, 0, 1, 2]
    weighted = TABLE.append_column("w", pa.array(times, pa.float64()))
    parts = [pc.summarize(part, spec) for part in (weighted[:3], weighted[3:])]
    estimator = pc.estimators()[block.estimator](parts[0].features, block.options)
    whole = pc.merge(parts).blocks[block.estimator]
    rows = [row for row, count in enumerate(times) for _ in range(count)]
    assert estimator.log_evidence(whole) == pytest.approx(evidence(TABLE.take(rows), block))


def test_evidence_of_bernoulli_is_the_integral_over_its_probability() -> None:
    present, prior = [1, 0, 1, 1], stats.beta(0.7, 0.7)
    value, _ = integrate.quad(lambda p: p**3 * (1 - p) * prior.pdf(p), 0, 1)
    table = pa.table({"x": present, "c": ["a"] * 4})
    block = pc.Block("bernoulli", ["x"], pseudo_count=0.7)
    assert evidence(table, block) == pytest.approx(math.log(value), rel=1e-7)


def test_evidence_of_multinomial_is_the_integral_over_its_probabilities() -> None:
    counts, prior = np.array([[2, 1], [0, 3], [4, 4]]), stats.beta(1.3, 1.3)

    def density(p: float) -> float:
        rows = stats.binom.pmf(counts[:, 0], counts.sum(axis=1), p)
        return float(rows.prod() * prior.pdf(p))

    value, _ = integrate.quad(density, 0, 1)
    table = pa.table({"x": counts[:, 0], "y": counts[:, 1], "c": ["a"] * 3})
    block = pc.Block("multinomial", ["x", "y"], pseudo_count=1.3)
    assert evidence(table, block) == pytest.approx(math.log(value), rel=1e-7)


def test_evidence_of_poisson_is_the_integral_over_its_rate() -> None:
    counts, prior = [3, 0, 5], stats.gamma(0.7, scale=1 / 0.3)

    def density(rate: float) -> float:
        return float(np.prod(stats.poisson.pmf(counts, rate)) * prior.pdf(rate))

    value, _ = integrate.quad(density, 0, 60)
    table = pa.table({"x": counts, "c": ["a"] * 3})
    block = pc.Block("poisson", ["x"], pseudo_count=0.7, pseudo_rows=0.3)
    assert evidence(table, block) == pytest.approx(math.log(value), rel=1e-7)


@pytest.mark.parametrize("size", [10**5, 10**9, 10**13])
def test_predictive_densities_keep_their_digits_beside_many_rows(size: int) -> None:
    """Counts so large that two log Γ differ in their last digits only."""
    table = pa.table({"x": [3 * size, 1], "y": [size, 1], "c": ["a", "b"]})
    block = pc.Block("multinomial", ["x", "y"], predictive=True)
    found = fitted(table, "c", block).log_likelihood_by_block({"x": [2], "y": [1]})[0, 0, 0]
    a, b = 3 * size + 1, size + 1
    exact = math.log(3 * a * (a + 1) * b) - math.log((a + b) * (a + b + 1) * (a + b + 2))
    assert found == pytest.approx(exact, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("option", ["pseudo_count", "pseudo_rows"])
def test_a_pseudo_count_of_0_is_no_prior(option: str) -> None:
    names = ["poisson"] if option == "pseudo_rows" else ["bernoulli", "multinomial", "poisson"]
    for name in names:
        with pytest.raises(pc.NotSupportedError, match=f"{option}=0, which is no proper prior"):
            evidence(TABLE, pc.Block(name, ["x", "y"], **{option: 0}))


def test_multinomial_evidence_needs_whole_rows() -> None:
    with pytest.raises(pc.DataError, match="column 'x' is null in rows that have other counts"):
        evidence(TABLE, pc.Block("multinomial", ["x", "y"]))
    assert math.isfinite(evidence(TABLE.filter(TABLE["x"].is_valid()),
                                  pc.Block("multinomial", ["x", "y"])))  # fmt: skip
