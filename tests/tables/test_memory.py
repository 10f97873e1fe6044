"""Memory does not grow with the number of rows: no step has the whole table in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    peaks = []
    for size in (rows, factor * rows):
        run = subprocess.run(
            [sys.executable, RUN, command, str(size), tmp_path / str(size)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        peaks.append(float(run.stdout))
    # Two runs on the same rows differ by up to 15 %; columns that are kept would add far more.
    assert peaks[1] < 1.2 * peaks[0], peaks
