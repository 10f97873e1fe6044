"""The statistics cache on Iceberg tables whose rows are deleted or columns renamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from delta_and_iceberg import IcebergLake
from iceberg_deletes import delete_rows

import probclass_core as pc

SPEC = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = IcebergLake(tmp_path)
    noise = np.random.default_rng(0)
    columns = {"x": noise.normal(size=80), "z": noise.normal(5.0, size=80)}
    columns |= {"y": ["a", "b"] * 40, "month": ["2014-01", "2014-02"] * 40}
    lake.write("lake", pa.table(columns), ["month"])
    return lake


def reused_fragments(lake: IcebergLake, store: Path) -> int:
    """Fit with the cache, check the model against a fit without it, and count reused fragments."""
    model = pc.fit(lake.ref("lake"), SPEC, cache=store)
    assert model.id == pc.fit(lake.ref("lake"), SPEC).id
    count = model.training["cache"]["reused"]
    assert isinstance(count, int)
    return count


def test_files_that_lost_rows_are_read_again(lake: IcebergLake, tmp_path: Path) -> None:
    store = tmp_path / "models"
    assert [reused_fragments(lake, store) for _ in range(2)] == [0, 2]
    for positions in ([0, 7], [8]):
        delete_rows(lake.table("lake"), "month == '2014-01'", positions)
        assert [reused_fragments(lake, store) for _ in range(2)] == [1, 2]


def test_files_whose_columns_swapped_names_are_read_again(
    lake: IcebergLake, tmp_path: Path
) -> None:
    store = tmp_path / "models"
    assert reused_fragments(lake, store) == 0
    for old, new in (("x", "was x"), ("z", "x"), ("was x", "z")):
        with lake.table("lake").update_schema() as change:
            change.rename_column(old, new)
    assert [reused_fragments(lake, store) for _ in range(2)] == [0, 2]
