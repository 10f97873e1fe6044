"""Where rows are added, the model that scores them, and the files that they come in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from additions import Arrives
from homes import HOMES, Home
from logged_lakes import rows, spec

import probclass_core as pc


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return HOMES[request.param](tmp_path)


@pytest.fixture
def model() -> pc.Model:
    return pc.fit(rows("2014-01"), spec())


@pytest.fixture
def arrives(tmp_path: Path) -> Arrives:
    """A file of rows that came in: those of a month whose x begins somewhere."""

    def write(name: str, month: str = "2014-01", start: float = 0.0, size: int = 40) -> Path:
        table = rows(month, size)
        moved = pa.array([start + x for x in table["x"].to_pylist()])
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.set_column(0, "x", moved), path)
        return path

    return write
