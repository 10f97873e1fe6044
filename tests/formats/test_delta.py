"""What Delta tables have to themselves; what they share with Iceberg is in test_logged.py."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from logged_lakes import DeltaLake, by_month, rows, spec

import probclass_core as pc


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    lake = DeltaLake(tmp_path)
    lake.write("lake", rows("2014-01"), ["month"])
    lake.write("lake", rows("2014-02"), ["month"])
    return lake


def test_a_table_is_known_by_its_log_and_by_its_prefix(lake: DeltaLake, tmp_path: Path) -> None:
    source = str(tmp_path / "lake")
    model = pc.fit(source, spec())
    assert model.training["version"] == 1
    pc.score(model, source, f"delta+file://{tmp_path}/scored")
    assert pc.score(model, source, str(tmp_path / "scored")).skipped == 2
    assert by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}


def test_duckdb_agrees(lake: DeltaLake, tmp_path: Path) -> None:
    pc.score(pc.fit(lake.ref("lake"), spec()), lake.ref("lake"), lake.ref("scored"))
    dataset = DeltaTable(str(tmp_path / "scored")).to_pyarrow_dataset()
    counts = duckdb.from_arrow(dataset).aggregate("month, count(*)", "month").order("month")
    assert counts.fetchall() == [("2014-01", 40), ("2014-02", 40)]
