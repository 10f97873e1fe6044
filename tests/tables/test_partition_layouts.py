"""Files outside the partition folders of a table: every row is scored, or nothing is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from fault_report import record

import probclass_core as pc
from probclass_core.errors import TableError

LAYOUTS = {
    "next to the folders": ("k=1/a", "extra"),
    "before the folders": ("k=1/a", "a"),
    "another case": ("k=2/a", "K=1/a"),
    "another column": ("k=1/a", "j=1/a"),
    "a plain folder": ("k=1/a", "sub/a"),
    "one level less": ("k=1/j=1/a", "k=2/a"),
}


def write(folder: Path, name: str, suffix: str) -> None:
    path = folder / f"{name}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"x": np.linspace(-1, 1, 240), "y": ["a", "b"] * 120})
    if suffix == "csv":
        pa.csv.write_csv(rows, path)
    else:
        pq.write_table(rows, path)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("names", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_a_file_in_no_partition_is_an_error_before_anything_is_scored(
    tmp_path: Path, names: tuple[str, str], suffix: str
) -> None:
    lake, sink = tmp_path / "lake", tmp_path / "scored"
    for name in names:
        write(lake, name, suffix)
    model = pc.fit(lake, pc.ModelSpec("y", {"gaussian_diagonal": ["x"]}))
    assert model.training["rows"] == 480
    outside = rf"({names[0]}|{names[1]})\.{suffix} is in no folder \w=….*move it into one"
    with pytest.raises(TableError, match=outside):
        pc.score(model, lake, sink)
    assert not sink.exists()
    fault = f"a file {names[0]} next to {names[1]}"
    record(fault, suffix, "refused, nothing written", "240 of 480 rows")


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(lake, "k=1/a", "parquet")
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, "a", "parquet")
    (lake / "k=2").symlink_to(elsewhere)
    assert pc.open_table(lake).plan().rows == 480
    (lake / "k=3").symlink_to(lake)
    with pytest.raises(TableError, match=r"k=3 is a link to .*lake, which contains it"):
        pc.open_table(lake)
