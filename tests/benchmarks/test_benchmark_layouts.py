"""The layouts of the benchmarks: files as they are described, and answers on which all agree."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import figures
from benchmarks.__main__ import main
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


@pytest.mark.nightly
def test_all_agree_on_a_sample_of_the_layouts(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each work once, and each kind of table that is read in another way."""
    names = [
        "layout_gaussian_diagonal.nulls",
        "layout_discretized.delta_rs",
        "layout_score.files_8",
        "layout_categorical.nulls",
    ]
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    options = ["--rows", str(ROWS), "--repeats", "1", "--record", "--cache", str(cache)]
    assert main([*names, *options]) == 0
    for name in names:
        record = json.loads((tmp_path / "cases" / f"{name}.json").read_text())
        assert all("figures" in entry for entry in record["implementations"].values())
    assert not list(cache.glob("scored.*")), "implementations remove their files"
