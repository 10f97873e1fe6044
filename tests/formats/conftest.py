"""The backends, a model, and files of new rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import BACKENDS, Arrives, Backend
from delta_and_iceberg import rows, spec

import probclass_core as pc


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def model() -> pc.Model:
    return pc.fit(rows("2014-01"), spec())


@pytest.fixture
def arrives(tmp_path: Path) -> Arrives:
    """Write a file of rows of one month, whose x counts up from ``start``."""

    def write(name: str, month: str = "2014-01", start: float = 0.0, size: int = 40) -> Path:
        table = rows(month, size)
        x = pa.array([start + value for value in table["x"].to_pylist()])
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.set_column(0, "x", x), path)
        return path

    return write
