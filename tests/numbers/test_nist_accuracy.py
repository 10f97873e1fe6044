"""NIST's reference data for univariate statistics, for any split of the rows.

NIST StRD, NumAcc1 to NumAcc4: mean and standard deviation (divisor n − 1) are certified, for data
on which a one-pass E[x²] − m² loses all digits. The certified values are decimal, the data the
nearest doubles, whose own deviation agrees with them to 14, 9 and 8 digits in sets 2 to 4.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_values import covariance, normal

import probclass_core as pc
from probclass_core.estimation.statistics import Statistics


@dataclass(frozen=True)
class Certified:
    """A data set, its certified values, and the digits of its deviation in double precision."""

    values: list[float]
    mean: float
    deviation: float
    digits: float


def alternating(first: float, low: float, high: float) -> list[float]:
    return [first, *[low, high] * 500]


NIST = {
    "NumAcc1": Certified([10000001.0, 10000003.0, 10000002.0], 10000002.0, 1.0, 15.0),
    "NumAcc2": Certified(alternating(1.2, 1.1, 1.3), 1.2, 0.1, 14.0),
    "NumAcc3": Certified(alternating(1000000.2, 1000000.1, 1000000.3), 1000000.2, 0.1, 9.0),
    "NumAcc4": Certified(alternating(10000000.2, 10000000.1, 10000000.3), 10000000.2, 0.1, 8.0),
}
OTHER = [-1.0, 0.0, 1.0]
"""Values of a second class, which a classifier needs."""

SPEC = pc.ModelSpec(
    label="set",
    blocks=[
        pc.Block("gaussian_diagonal", ["x"], ddof=1, variance_floor=0.0),
        pc.Block("gaussian_full", ["u", "v"], ddof=1),
    ],
    weight="weight",
)
"""Both estimators model the same numbers, as x and as u; v gives the covariance full rank."""


def table(values: Sequence[float], weights: Sequence[float] | None = None) -> pa.Table:
    x = np.array([*values, *OTHER])
    weight = [*([1.0] * len(values) if weights is None else weights), 1.0, 1.0, 1.0]
    labels = ["nist"] * len(values) + ["other"] * len(OTHER)
    v = np.resize([1.0, 2.0, 4.0], len(x))
    return pa.table({"set": labels, "x": x, "u": x, "v": v, "weight": weight})


def digits(value: float, certified: float) -> float:
    """The number of equal digits, as NIST's log relative error; at most 15."""
    error = abs(value - certified) / abs(certified)
    return 15.0 if error < 1e-15 else -math.log10(error)


def check_certified(model: pc.Model, data: Certified) -> None:
    mean, variance = normal(model, "nist", "x")
    mean_in_full = model.parameters["gaussian_full"]["mean"][0].as_py()[0]
    for actual in (mean, mean_in_full):
        assert digits(actual, data.mean) >= 15.0
    for actual in (variance, covariance(model, "nist")[0, 0]):
        assert digits(math.sqrt(actual), data.deviation) >= data.digits


def summaries(full_table: pa.Table, cuts: Sequence[int]) -> list[Statistics]:
    """Statistics of the parts between the cuts; a part may be empty."""
    ends = [0, *sorted(cuts), full_table.num_rows]
    return [
        pc.summarize(full_table.slice(start, end - start), SPEC)
        for start, end in itertools.pairwise(ends)
    ]


def in_sequence(parts: Sequence[Statistics]) -> Statistics:
    return functools.reduce(lambda left, right: pc.merge([left, right]), parts)


def in_a_tree(parts: Sequence[Statistics]) -> Statistics:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return pc.merge([in_a_tree(parts[:middle]), in_a_tree(parts[middle:])])


Merge = Callable[[Sequence[Statistics]], Statistics]
MERGES: list[Merge] = [pc.merge, in_sequence, in_a_tree]


@pytest.mark.parametrize("name", NIST)
def test_nist_digits_of_all_rows_at_once(name: str) -> None:
    check_certified(pc.fit(table(NIST[name].values), SPEC), NIST[name])


@pytest.mark.parametrize("name", NIST)
@given(data=st.data())
def test_nist_digits_for_any_order_split_and_merge(name: str, data: st.DataObject) -> None:
    """Shuffled rows with random cuts: the digits do not depend on a favorable order."""
    full_table = table(NIST[name].values)
    order = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).permutation(
        full_table.num_rows
    )
    cuts = data.draw(st.lists(st.integers(0, full_table.num_rows), max_size=12))
    merge = data.draw(st.sampled_from(MERGES))
    check_certified(pc.finalize(merge(summaries(full_table.take(order), cuts))), NIST[name])


@pytest.mark.parametrize("name", NIST)
@given(seed=st.integers(0, 2**32 - 1))
def test_nist_digits_of_rows_split_by_fractional_weights(name: str, seed: int) -> None:
    """Each row twice, with weights that sum to 1 and are not binary fractions."""
    values = NIST[name].values
    share = np.random.default_rng(seed).uniform(0.1, 0.9, len(values))
    weighted = table([*values, *values], [*share, *(1.0 - share)])
    check_certified(pc.fit(weighted, SPEC), NIST[name])


@given(
    values=st.lists(
        st.floats(-1e9, 1e9, allow_subnormal=False), min_size=2, max_size=40, unique=True
    ),
    cut=st.integers(0, 40),
)
def test_moments_of_any_values_agree_with_exact_fractions(values: list[float], cut: int) -> None:
    """The expected mean and variance are computed in rational arithmetic."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
    full_table = table(values)
    model = pc.finalize(pc.merge(summaries(full_table, [min(cut, full_table.num_rows)])))
    found_mean, found_variance = normal(model, "nist", "x")
    largest = Fraction(max(map(abs, values)))
    assert abs(Fraction(found_mean) - mean) <= Fraction(1e-15) * largest
    # Rounding the mean changes deviations by one ulp of it; squares below 1e-300 underflow.
    allowed = Fraction(1e-13) * variance + (Fraction(1e-15) * largest) ** 2 + Fraction(1e-300)
    assert abs(Fraction(found_variance) - variance) <= allowed
