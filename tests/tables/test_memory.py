"""Nobody holds the table: many times the rows, the same memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parent / "memory_of_a_run.py"
FILLED = 1_000_000
"""Rows from which a scoring writes one full row group while the next fills; below, its memory
depends on them."""


@pytest.mark.parametrize(
    ("what", "rows", "times"),
    [("fit", 200_000, 10), ("bins", 1_000_000, 4), ("score", FILLED, 5)],
)
def test_peak_memory_does_not_grow_with_the_rows(
    tmp_path: Path, what: str, rows: int, times: int
) -> None:
    peaks = []
    for size in (rows, times * rows):
        run = subprocess.run(
            [sys.executable, RUN, what, str(size), tmp_path / str(size)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        peaks.append(float(run.stdout))
    assert peaks[1] < 1.15 * peaks[0], peaks
