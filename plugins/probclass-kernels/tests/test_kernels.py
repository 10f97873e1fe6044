"""Every loop gives the bits of a NumPy expression."""

from __future__ import annotations

from typing import Any

import numpy as np
import probclass_kernels as kernels
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

CLASSES = 5

settings.register_profile("probclass-kernels", deadline=None, derandomize=True)
settings.load_profile("probclass-kernels")

# Sums have another rounding at 8 and at 128 values, and at their multiples.
sizes = st.one_of(st.integers(1, 20), st.integers(110, 300), st.integers(1000, 3000))
numbers = st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, 1e300, -1e300, 5e-324])


@st.composite
def columns(draw: st.DrawFn, elements: st.SearchStrategy[float] = numbers) -> tuple[Any, Any]:
    """Values, and a class for each of them."""
    size = draw(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.normal(draw(st.sampled_from([0.0, 1e6])), 1.0, size)
    some = draw(arrays(np.float64, st.integers(0, min(size, 30)), elements=elements))
    values[rng.permutation(size)[: len(some)]] = some
    return values, rng.integers(0, draw(st.integers(1, CLASSES)), size).astype(np.int32)


def by_class(values: Any, codes: Any) -> list[Any]:
    return [values[codes == label] for label in range(CLASSES)]


def total(terms: Any) -> float:
    return float(np.add.reduceat(terms, [0])[0]) if len(terms) else 0.0


def extremes(values: Any) -> tuple[float, float, int]:
    known = values[~np.isnan(values)]
    ends = (known.min(), known.max()) if len(known) else (np.nan, np.nan)
    return *ends, len(values) - len(known)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found) + 0.0, np.asarray(expected) + 0.0)


@given(columns(numbers | st.just(np.nan)), st.booleans(), st.integers(0, 99))
def test_sums_are_those_of_reduceat(column: tuple[Any, Any], weighted: bool, seed: int) -> None:
    values, codes = column
    weights = np.random.default_rng(seed).integers(0, 4, len(values)) / 3.0 if weighted else None
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes, minlength=CLASSES)
    other = values[::-1].copy()
    (sums, found), ends = kernels.sums_by_class([other, values], order, counts, weights)
    same(ends, [extremes(values)] * 2)
    (alone,), _ = kernels.sums_by_class([other], order, counts, weights)
    same(sums, alone)
    with np.errstate(over="ignore", invalid="ignore"):
        for label, x in enumerate(by_class(values, codes)):
            known = ~np.isnan(x)
            w = np.ones(len(x)) if weights is None else weights[codes == label]
            x, w = x[known], w[known]
            mean = total(x * w) / (total(w) or 1.0)
            deviation = x - mean
            expected = [
                total(w),
                total(x * w),
                total(deviation * w),
                total(deviation * deviation * w),
            ]
            same(found[:, label], expected)


@given(columns(numbers | st.just(np.nan)))
def test_columns_are_centered_on_the_means_of_their_classes(column: tuple[Any, Any]) -> None:
    values, codes = column
    codes = np.unique(codes, return_inverse=True)[1].astype(np.int32)
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    both = np.empty((2, len(values)))
    other = values[::-1].copy()
    _, _, ends = kernels.center_by_class([other, values], order, counts, both)
    same(ends, [extremes(values)] * 2)
    alone = np.empty((1, len(values)))
    (means,), (rest,), _ = kernels.center_by_class([values], order, counts, alone)
    centered = both[1]
    same(centered, alone[0])
    start = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for label, rows in enumerate(counts):
            x = values[codes == label]
            mean = total(x) / rows
            expected = x if np.isnan(mean) else x - mean
            same(centered[start : start + rows], expected)
            same([means[label], rest[label]], [mean, total(expected) / rows])
            start += rows


@given(st.integers(0, 2**32), sizes, st.integers(1, 50) | st.integers(2000, 3000))
def test_codes_are_counted_by_class_null_first(seed: int, rows: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, CLASSES, rows).astype(np.int32)
    codes = rng.integers(-1, size, rows).astype(np.int32)
    expected = np.zeros((CLASSES, 1 + size), np.int64)
    np.add.at(expected, (group, codes + 1), 1)
    same(kernels.count_codes(group, codes, CLASSES, size), expected)


@given(st.integers(0, 2**32), sizes, st.integers(1, 12), st.integers(1, CLASSES))
def test_squares_are_added_in_the_order_of_the_columns(
    seed: int, rows: int, columns: int, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    block = rng.normal(size=(columns, rows))
    block[rng.random(block.shape) < 0.1] = np.nan
    mean, precision = rng.normal(size=(2, classes, columns))
    result = rng.normal(size=(classes, 2 * rows))
    expected = result.copy()
    for label, row in enumerate(expected):
        total = np.zeros(rows)
        for x, center, scale in zip(block, mean[label], precision[label], strict=True):
            deviation = np.where(np.isnan(x), 0.0, (x - center) * scale)
            total += deviation * deviation
        row[rows:] -= 0.5 * total
    kernels.subtract_half_squares(block, mean, precision, result[:, rows:])
    same(result, expected)


@pytest.mark.parametrize("invalid", [-1, CLASSES, 2**31 - 1, -(2**31)])
def test_a_class_that_does_not_exist_is_refused(invalid: int) -> None:
    codes = np.zeros(3000, np.int32)
    codes[2500] = invalid
    with pytest.raises(IndexError, match="number"):
        kernels.count_codes(codes, np.zeros(3000, np.int32), CLASSES, 4)


@pytest.mark.parametrize("invalid", [-2, 4, 2**31 - 1, -(2**31)])
def test_a_code_that_does_not_exist_is_refused(invalid: int) -> None:
    codes = np.zeros(3000, np.int32)
    codes[2500] = invalid
    with pytest.raises(IndexError, match="number"):
        kernels.count_codes(np.zeros(3000, np.int32), codes, CLASSES, 4)


def test_an_array_that_is_not_contiguous_or_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="float64, got float32"):
        kernels.address_of(np.zeros(4, np.float32), np.float64)
    with pytest.raises(TypeError, match="contiguous"):
        kernels.address_of(np.zeros(8)[::2], np.float64)
