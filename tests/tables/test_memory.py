"""Memory does not grow with the number of rows: no step has the whole table in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from python_processes import output_of_python

RUN = Path(__file__).parent / "memory_of_a_run.py"
TWO_ROW_GROUPS = 2_000_000
"""Rows from which scoring writes one full row group while it fills the next. With fewer rows, the
memory of scoring grows with them."""


@pytest.mark.parametrize(
    ("command", "rows", "factor"),
    [
        ("fit", 200_000, 15),
        pytest.param("bins", 1_000_000, 4, marks=pytest.mark.nightly),
        pytest.param("score", TWO_ROW_GROUPS, 4, marks=pytest.mark.nightly),
    ],
)
def test_peak_memory_does_not_grow_with_the_rows(
    tmp_path: Path, command: str, rows: int, factor: int
) -> None:
    sizes = rows, factor * rows
    peaks = [float(output_of_python(RUN, command, size, tmp_path / str(size))) for size in sizes]
    # Two runs on the same rows differ by up to 15 %; columns that are kept would add far more.
    assert peaks[1] < 1.2 * peaks[0], peaks
