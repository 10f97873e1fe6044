"""A histogram depends only on its rows, to the last bit, not on how they are split and merged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.estimation.histogram import histogram
from probclass_core.testing.trial import LABEL

LARGEST = float(np.finfo(np.float64).max)
DENORMAL = 5e-324

SCALES = st.sampled_from([DENORMAL, 1e-310, 1e-160, 1e-3, 1.0, 1e6, 1e150, 1e300])
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-20, 20).map(float),
    st.builds(lambda scale, step: scale * step, SCALES, st.integers(-40, 40)),
    st.sampled_from([0.0, -0.0, DENORMAL, -DENORMAL, LARGEST, -LARGEST, 2.0**1023, -(2.0**1023)]),
)


@st.composite
def columns(draw: st.DrawFn) -> list[float]:
    """Up to 40 numbers, on one scale or on all of them."""
    cell = draw(st.sampled_from([NUMBERS, st.floats(0, 1), st.floats(-1, 1).map(math.cbrt)]))
    return draw(st.lists(cell, min_size=1, max_size=40))


def spec(cells: int) -> pc.ModelSpec:
    return pc.ModelSpec(LABEL, [pc.Block("discretized", ["x"], cells=cells)])


def table(values: Sequence[float], labels: Sequence[str]) -> pa.Table:
    return pa.table({LABEL: pa.array(labels, pa.string()), "x": pa.array(values, pa.float64())})


def cell_of(value: float, exponent: int) -> int:
    """⌊x / 2^e⌋ in exact arithmetic."""
    return math.floor(Fraction(value) / Fraction(2) ** exponent)


@given(data=st.data(), values=columns(), cells=st.integers(4, 12))
def test_any_split_merged_in_any_order_gives_the_same_bits(
    data: st.DataObject, values: list[float], cells: int
) -> None:
    labels = data.draw(st.lists(st.sampled_from("abc"), min_size=len(values), max_size=len(values)))
    rows = list(zip(values, labels, strict=True))
    whole = pc.summarize(table(values, labels), spec(cells))
    parts = []
    while rows:
        size = data.draw(st.integers(1, len(rows)))
        parts.append(pc.summarize(table(*zip(*rows[:size], strict=True)), spec(cells)))
        rows = rows[size:]
    while len(parts) > 1:
        left = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        right = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts.append(pc.merge([left, right]))
    merged = pc.merge(parts).blocks["discretized"]
    assert merged.equals(pc.merge([whole]).blocks["discretized"])


ROWS = 120_000

MANY: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.normal(size=ROWS),
    "ascending": lambda rng: np.sort(rng.normal(size=ROWS)),
    "rounded": lambda rng: np.round(rng.normal(size=ROWS), 1),
    "rounded, rarely far": lambda rng: np.round(rng.standard_cauchy(ROWS), 2),
    "first few values, then many": lambda rng: np.append(
        np.zeros(ROWS // 2), rng.random(ROWS // 2)
    ),
    "on all scales": lambda rng: np.exp(rng.normal(0.0, 100.0, ROWS)),
    "far from zero": lambda rng: rng.normal(1e12, 1.0, ROWS),
    "near the largest": lambda rng: rng.uniform(-1.0, 1.0, ROWS) * LARGEST,
    "denormal": lambda rng: rng.integers(-9999, 9999, ROWS) * DENORMAL,
}


@pytest.mark.parametrize("classes", [1, 5])
@pytest.mark.parametrize("name", MANY)
def test_merged_histograms_of_many_rows_are_that_of_all(name: str, classes: int) -> None:
    rng = np.random.default_rng(1)
    values, group = MANY[name](rng) + 0.0, rng.integers(0, classes, ROWS)
    parts = []
    for start in range(0, ROWS, 7_000):
        rows = slice(start, start + 7_000)
        parts.append(histogram(values[rows], 0.0, group[rows], None, classes, 512))
    cells = [np.nonzero(part.counts) for part in parts]
    merged = histogram(
        np.concatenate([part.values[of] for part, (_, of) in zip(parts, cells, strict=True)]),
        max(part.width for part in parts),
        np.concatenate([label for label, _ in cells]),
        np.concatenate([part.counts[of] for part, of in zip(parts, cells, strict=True)]),
        classes,
        512,
    )
    expected = histogram(values, 0.0, group, None, classes, 512)
    assert merged.width == expected.width
    assert np.array_equal(merged.values, expected.values)
    assert np.array_equal(merged.counts, expected.counts)


@given(values=columns(), cells=st.integers(4, 12))
def test_the_grid_is_the_finest_with_few_enough_cells(values: list[float], cells: int) -> None:
    labels = ["ab"[row % 2] for row in range(len(values))]
    statistics = pc.summarize(table(values, labels), spec(cells)).blocks["discretized"]
    edges = sorted({edge for edges in statistics["values"].to_pylist() for edge in edges})
    (width,) = set(statistics["width"].to_pylist())
    assert sum(map(sum, statistics["counts"].to_pylist())) == len(values)
    assert len(edges) <= cells
    if not width:
        assert edges == sorted(set(values))
        return
    exponent = math.frexp(width)[1] - 1
    assert width == math.ldexp(1.0, exponent)
    exact = {cell_of(value, exponent) * Fraction(2) ** exponent for value in values}
    assert [max(Fraction(-LARGEST), edge) for edge in sorted(exact)] == list(map(Fraction, edges))
    assert len({cell_of(value, exponent - 1) for value in values}) > cells


def test_negative_zero_is_counted_as_zero() -> None:
    statistics = pc.summarize(table([0.0, -0.0, 1.0], ["a", "a", "b"]), spec(4))
    first, second = statistics.blocks["discretized"].select(["values", "counts"]).to_pylist()
    assert first == {"values": [0.0], "counts": [2.0]}
    assert second == {"values": [1.0], "counts": [1.0]}
    assert math.copysign(1.0, first["values"][0]) == 1.0
