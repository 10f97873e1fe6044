"""The lake that statistics are kept of, and the store that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cached_lakes import DAYS, rows_of, write_day


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """One file a day."""
    for seed, day in enumerate(DAYS):
        write_day(tmp_path / "lake", day, rows_of(seed))
    return tmp_path / "lake"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "models"
