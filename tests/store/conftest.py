"""A table of one file a day, and a store for its statistics."""

from __future__ import annotations

from pathlib import Path

import pytest
from daily_lake import DAYS, rows_of, write_day


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A table of one file a day."""
    for seed, day in enumerate(DAYS):
        write_day(tmp_path / "lake", day, rows_of(seed))
    return tmp_path / "lake"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "models"
