"""A table of one file a day, a model, and an empty store."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from daily_lake import DAYS, rows_of
from lakes import write_rows
from naive import naive_spec

import probclass_core as pc


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A table of one file a day."""
    for seed, day in enumerate(DAYS):
        write_rows(tmp_path / "lake" / f"day={day}", rows_of(seed))
    return tmp_path / "lake"


@pytest.fixture
def store(tmp_path: Path) -> pc.ModelStore:
    return pc.ModelStore(tmp_path / "models")


@pytest.fixture
def model(iris: pa.Table) -> pc.Model:
    return pc.fit(iris, naive_spec(iris.schema, "species"))
