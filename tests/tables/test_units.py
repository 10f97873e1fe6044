"""Units: which files and row groups are summarized and cached together."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.io.open import open_table

SPEC = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["x"])])


def write(path: Path, rows: int, seed: int = 0, **options: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed)
    table = pa.table({"x": noise.normal(size=rows), "label": noise.choice(["a", "b"], rows)})
    pq.write_table(table, path, **options)


def rows_of_units(table: Path) -> list[int]:
    return list(open_table(table).plan().unit_rows)


def digests(table: Path) -> list[str | None]:
    return [unit.digest for unit in open_table(table).plan().units]


def new_units(before: Iterable[str | None], after: Iterable[str | None]) -> int:
    return sum((Counter(after) - Counter(before)).values())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A table of many small files without partitions."""
    for number in range(200):
        write(tmp_path / "lake" / f"{number:03d}.parquet", 5, number)
    return tmp_path / "lake"


def test_the_small_files_of_a_partition_are_one_unit(tmp_path: Path) -> None:
    for day, count in (("1", 40), ("2", 1), ("3", 3)):
        for number in range(count):
            write(tmp_path / "lake" / f"day={day}" / f"{number}.parquet", 10)
    assert rows_of_units(tmp_path / "lake") == [400, 10, 30]


def test_many_rows_of_a_partition_are_several_units(tmp_path: Path) -> None:
    for number in range(60):
        write(tmp_path / "lake" / "day=1" / f"{number}.parquet", 5_000)
    sizes = rows_of_units(tmp_path / "lake")
    assert sum(sizes) == 300_000
    assert 2 <= len(sizes) <= 20


def test_large_files_are_cut_by_row_groups_and_join_no_others(tmp_path: Path) -> None:
    write(tmp_path / "lake" / "day=1" / "0.parquet", 10)
    write(tmp_path / "lake" / "day=1" / "1.parquet", 600_000, row_group_size=150_000)
    write(tmp_path / "lake" / "day=1" / "2.parquet", 20)
    assert rows_of_units(tmp_path / "lake") == [10, *[150_000] * 4, 20]


def test_rows_are_read_in_the_order_of_the_files(files: Path) -> None:
    plan = open_table(files).plan()
    assert 4 <= len(plan.units) <= 40
    expected = pa.concat_tables([pq.read_table(path) for path in sorted(files.iterdir())])
    assert pa.Table.from_batches(plan.batches()) == expected


def test_a_window_keeps_its_units(files: Path) -> None:
    before = digests(files)
    for number in range(30):
        (files / f"{number:03d}.parquet").unlink()
        write(files / f"{200 + number}.parquet", 5, number)
    after = digests(files)
    assert len(set(before) & set(after)) >= len(before) / 2
    (files / "115.parquet").unlink()
    assert new_units(after, digests(files)) <= 1


def test_a_changed_file_makes_only_its_unit_new(files: Path) -> None:
    before = digests(files)
    write(files / "100.parquet", 50, 1000)
    after = digests(files)
    assert len(before) == len(after)
    assert new_units(before, after) == 1


def test_a_copy_of_a_table_has_the_same_units_and_model(files: Path, tmp_path: Path) -> None:
    shutil.copytree(files, tmp_path / "copy")
    assert rows_of_units(tmp_path / "copy") == rows_of_units(files)
    assert pc.fit(tmp_path / "copy", SPEC).id == pc.fit(files, SPEC).id


def test_files_read_ahead_of_a_filter_are_filtered(files: Path) -> None:
    rows = pq.read_table(files)
    plan = open_table(files).plan(where=[("x", ">", 0.5)])
    kept = rows.filter(pa.compute.greater(rows["x"], 0.5))
    assert pa.Table.from_batches(plan.batches()) == kept
