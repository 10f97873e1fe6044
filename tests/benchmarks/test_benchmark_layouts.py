"""The layouts of the benchmarks: files as they are described."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.cases.layouts import OF_NUMBERS, stored

ROWS = 2_000


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    ("name", "kind", "compression", "files"),
    [
        ("base", pa.float64(), "SNAPPY", 1),
        ("polars", pa.float64(), "ZSTD", 1),
        ("files_8", pa.float64(), "SNAPPY", 8),
        ("decimal", pa.decimal128(12, 2), "SNAPPY", 1),
        ("rounded", pa.float64(), "SNAPPY", 1),
        ("nulls", pa.float64(), "SNAPPY", 1),
    ],
)
def test_files_are_as_described(
    cache: Path, name: str, kind: pa.DataType, compression: str, files: int
) -> None:
    layout = next(layout for layout in OF_NUMBERS if layout.name == name)
    data = stored("numbers", layout, cache, ROWS)
    assert len(data.files) == files
    column = pq.ParquetFile(data.files[0]).metadata.row_group(0).column(5)
    assert column.compression == compression
    table = data.arrow().to_table()
    assert table.schema.field("x0").type == kind
    assert table.num_rows == data.rows == ROWS
    share = table["x0"].null_count / data.rows
    assert (0.05 < share < 0.15) if layout.nulls else share == 0.0
    distinct = len(table["x0"].unique())
    assert distinct < 100 if layout.values == "rounded" else distinct > data.rows / 4
    assert stored("numbers", layout, cache, ROWS) == data
