"""Bins of numbers, compared with a binary search."""

from __future__ import annotations

import numpy as np
import pytest

from probclass_core.arrow.rows import bins_of

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324

CUTS = {
    "even": np.linspace(-2.0, 2.0, 60).tolist(),
    "skewed": np.exp(np.linspace(-20.0, 20.0, 90)).tolist(),
    "outlying": [-1e12, *np.linspace(0.0, 1.0, 30).tolist(), 1e12],
    "neighbors": [1.0, float(np.nextafter(1.0, 2.0))],
    "subnormal": [0.0, SMALLEST, 2 * SMALLEST],
    "largest": [-LARGEST, 0.0, LARGEST],
    "one": [0.5],
    "many in one place": [*np.linspace(0.0, 1e-9, 100).tolist(), 1.0, 2.0],
    "none": [],
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("rows", [100, 40_000])
def test_the_bin_is_the_number_of_cuts_that_are_not_above(name: str, rows: int) -> None:
    cuts = CUTS[name]
    rng = np.random.default_rng(0)
    at_cuts = np.array([*cuts, 0.0])
    with np.errstate(over="ignore"):
        around = [at_cuts, np.nextafter(at_cuts, -np.inf), np.nextafter(at_cuts, np.inf)]
    around = np.clip(np.concatenate(around), -LARGEST, LARGEST)
    ends = [SMALLEST, -SMALLEST, LARGEST, -LARGEST]
    values = rng.choice(np.concatenate([around, ends, rng.normal(size=50)]), rows)
    expected = np.searchsorted(np.array(cuts), values, side="right")
    np.testing.assert_array_equal(bins_of(values, cuts), expected)


def test_nan_has_a_bin_too() -> None:
    bins = bins_of(np.full(5000, np.nan), [0.0, 1.0])
    assert set(bins.tolist()) <= {0, 1, 2}
