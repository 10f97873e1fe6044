"""Files outside the partition folders of a table: every row is scored, or nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.errors import DataError, TableError

LAYOUTS = {
    "next to the folders": ("k=1/a", "extra"),
    "before the folders": ("k=1/a", "a"),
    "another case": ("k=2/a", "K=1/a"),
    "another column": ("k=1/a", "j=1/a"),
    "a plain folder": ("k=1/a", "sub/a"),
    "one level less": ("k=1/j=1/a", "k=2/a"),
}


def write(folder: Path, name: str, suffix: str, **columns: Any) -> None:
    path = folder / f"{name}.{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"x": np.linspace(-1, 1, 240), "y": ["a", "b"] * 120, **columns})
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


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_folder_counts_if_files_have_the_partition_column_too(
    tmp_path: Path, suffix: str
) -> None:
    write(tmp_path / "lake", "k=north/a", suffix, k=["west"] * 240)
    write(tmp_path / "lake", "k=south/a", suffix, k=["north", "south"] * 120)
    model = pc.fit(tmp_path / "lake", pc.ModelSpec("y", {"categorical": "k"}))
    values = model.parameters["categorical"].select(["value", "count"]).to_pylist()
    assert {(row["value"], row["count"]) for row in values} == {("north", 120), ("south", 120)}
    found = [
        pc.evaluate(model, tmp_path / "lake", **rows).rows
        for rows in ({"where": "k = north"}, {"partition": {"k": "north"}})
    ]
    assert found == [240, 240]
    assert pc.score(model, tmp_path / "lake", tmp_path / "scored").rows == 480


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


@pytest.mark.parametrize(
    ("folders", "partition"),
    [
        (["day=7", "day=07", "day=8"], {"day": "7"}),
        (["town=a%2Fb", "town=c"], {"town": "a/b"}),
        (["y=1/m=1", "y=1/m=2", "y=2/m=1"], {"m": 1, "y": 1}),
        (["y=1/m=1", "y=1/m=2", "y=2/m=1"], {"m": 1}),
    ],
)
def test_a_partition_is_the_same_whether_or_not_the_others_are_listed(
    tmp_path: Path, folders: list[str], partition: dict[str, Any]
) -> None:
    for folder in folders:
        write(tmp_path, f"{folder}/a", "parquet")
    model = pc.fit(tmp_path, pc.ModelSpec("y", {"gaussian_diagonal": ["x"]}))
    expected = pc.evaluate(model, pc.open_table(str(tmp_path)), partition=partition)
    measured = pc.evaluate(model, str(tmp_path), partition=partition)
    assert measured.to_dict() == expected.to_dict()


def test_the_new_name_of_a_column_is_none_that_the_model_reads(tmp_path: Path) -> None:
    rows = {"amount": [1.0, 2.0], "country": [3.0, 4.0], "y": ["a", "b"]}
    model = pc.fit(rows, pc.ModelSpec("y", {"gaussian_diagonal": ["amount", "country"]}))
    renamed = pa.table(rows).rename_columns(["amount_eur", "country", "y"])
    for name, table in (("k=1", pa.table(rows)), ("k=2", renamed)):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "0.parquet")
    with pytest.raises(DataError, match="k=2: no file has column 'amount' of the model") as caught:
        pc.evaluate(model, str(tmp_path), partition={"k": 2})
    assert "'country'" not in str(caught.value)


def test_a_column_that_only_another_partition_has_is_missing(tmp_path: Path) -> None:
    write(tmp_path, "k=1/a", "parquet")
    rows = pq.read_table(tmp_path / "k=1" / "a.parquet", partitioning=None)
    (tmp_path / "k=2").mkdir()
    pq.write_table(rows.append_column("z", rows["x"]), tmp_path / "k=2" / "a.parquet")
    spec = pc.ModelSpec("y", {"gaussian_diagonal": ["x", "z"]})
    model, whole = pc.fit(tmp_path, spec, partition={"k": 2}), pc.open_table(str(tmp_path))
    with pytest.raises(DataError, match="no file has column 'z' of the model"):
        pc.evaluate(model, tmp_path, partition={"k": 1})
    warned: dict[str, Any] = {"partition": {"k": 1}, "missing_columns": "warn"}
    found, expected = (pc.evaluate(model, of, **warned) for of in (tmp_path, whole))
    assert found.to_dict() == expected.to_dict()
    with pytest.raises(TableError, match=r"has no partition with .*; it has 2: 'k=1', 'k=2'"):
        pc.evaluate(model, tmp_path, partition={"k": 3})
    with pytest.raises(TableError, match="which has no versions"):
        pc.evaluate(model, pc.TableRef(str(tmp_path), version=1), partition={"k": 2})
