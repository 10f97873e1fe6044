"""Other tools read the same rows, types, nulls and partition values from a scored table."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import probclass_core as pc

ROWS = 9


def every_third_null(values: list[object], kind: pa.DataType) -> pa.Array:
    cells = [None if row % 3 == 2 else values[row % len(values)] for row in range(ROWS)]
    return pa.array(cells, kind)


NOON = datetime.datetime(2014, 1, 1, 12, tzinfo=datetime.UTC)
COLUMNS = {
    "id": pa.array(range(ROWS)),
    "small": every_third_null([1, -1], pa.int8()),
    "unsigned": every_third_null([1, 2**63], pa.uint64()),
    "single": every_third_null([0.5, -0.25], pa.float32()),
    "double": every_third_null([0.1, 1e100], pa.float64()),
    "flag": every_third_null([True, False], pa.bool_()),
    "text": every_third_null(["", "ß ☃", "a,b\n"], pa.string()),
    "large": every_third_null(["x", "y"], pa.large_string()),
    "coded": every_third_null(["p", "q"], pa.string()).dictionary_encode(),
    "at": every_third_null([NOON], pa.timestamp("us", "UTC")),
    "day": every_third_null([NOON.date()], pa.date32()),
    "price": every_third_null([Decimal("1.25")], pa.decimal128(9, 2)),
    "bytes": every_third_null([b"\x00\xff"], pa.binary()),
    "vector": every_third_null([[0.5, 1.5], []], pa.list_(pa.float64())),
    "nothing": pa.nulls(ROWS, pa.float64()),
    "month": pa.array(["2014-01", "2014-02", None] * 3),
    "hour": pa.array([1, 2, 23] * 3),
}


@pytest.fixture(scope="module")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("back")
    labels = pa.array([[True, False, None][row % 3] for row in range(ROWS)])
    table = pa.table({**COLUMNS, "label": labels})
    spec = pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["double", "small"])])
    model = pc.fit(table, spec)
    pq.write_to_dataset(table, root / "lake", partition_cols=["month", "hour"])
    pc.score(model, root / "lake", root / "flat", posterior="list")
    pc.score(model, root / "lake", root / "scored")
    return root / "scored"


def with_pyarrow(sink: Path) -> pa.Table:
    return ds.dataset(sink, partitioning="hive").to_table()


def with_duckdb(sink: Path) -> pa.Table:
    with duckdb.connect() as connection:
        query = "select * from read_parquet($1, hive_partitioning = true)"
        return connection.sql(query, params=[f"{sink}/**/*.parquet"]).to_arrow_table()


def with_polars(sink: Path) -> pa.Table:
    return pl.read_parquet(sink, hive_partitioning=True).to_arrow()


def with_pandas(sink: Path) -> pa.Table:
    frame = pd.read_parquet(sink, dtype_backend="pyarrow")
    return pa.Table.from_pandas(frame, preserve_index=False)


OTHERS = (with_duckdb, with_polars, with_pandas)


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    """Return the values of each column, in the order of the ids."""
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    return {name: [row[name] for row in rows] for name in table.column_names}


@pytest.mark.parametrize("read", OTHERS)
def test_another_tool_reads_the_same(sink: Path, read: Callable[[Path], pa.Table]) -> None:
    expected = columns_of(with_pyarrow(sink))
    for name, column in COLUMNS.items():
        assert expected[name] == column.to_pylist(), name
    found = columns_of(read(sink))
    assert found.keys() == expected.keys()
    for name, cells in expected.items():
        assert found[name] == cells, name


def test_scored_columns_have_types_that_all_tools_read(sink: Path) -> None:
    schema = pq.read_schema(next(sink.rglob("*.parquet")))
    kinds = {name: schema.field(name).type for name in schema.names if name not in COLUMNS}
    assert kinds == {
        "label": pa.bool_(),
        "prediction": pa.bool_(),
        "probability": pa.float64(),
        "p_false": pa.float64(),
        "p_true": pa.float64(),
        "log_density": pa.float64(),
        "model_id": pa.string(),
    }


def test_a_posterior_list_is_read_by_all_tools(sink: Path) -> None:
    flat = sink.parent / "flat"
    posterior = columns_of(with_pyarrow(flat))["posterior"]
    assert [sum(row) for row in posterior] == pytest.approx([1.0] * ROWS)
    for read in OTHERS:
        assert columns_of(read(flat))["posterior"] == posterior


def test_other_tools_prune_partitions(sink: Path) -> None:
    path = f"{sink}/**/*.parquet"
    with duckdb.connect() as connection:
        query = "select count(*) from read_parquet($1, hive_partitioning = true) where hour = 23"
        assert connection.sql(query, params=[path]).fetchall() == [(3,)]
    frame = pl.scan_parquet(sink, hive_partitioning=True).filter(pl.col("month") == "2014-02")
    assert frame.collect().height == 3
    assert len(pd.read_parquet(sink, filters=[("hour", "==", 1)])) == 3


def test_categories_of_many_files_are_read_back_from_one_file(tmp_path: Path) -> None:
    # pandas encodes up to 127 categories in 8 bits; the two days together have more.
    (tmp_path / "lake").mkdir()
    days = []
    for day in ("monday", "tuesday"):
        stations = [f"{day} {number}" for number in range(100)]
        frame = pd.DataFrame({"station": pd.Categorical(stations), "x": range(100)})
        days.append(frame.assign(label=frame["x"] % 2 == 0))
        days[-1].to_parquet(tmp_path / "lake" / f"{day}.parquet", index=False)
    written = [name for day in days for name in day["station"]]
    together = pa.concat_tables([pa.table(day) for day in days])
    model = pc.fit(tmp_path / "lake", pc.ModelSpec("label", [pc.Block("categorical", ["station"])]))
    assert pc.fit(together, model.spec).classes == model.classes
    sources = {"files": tmp_path / "lake", "memory": together, "reader": together.to_reader()}
    for name, source in sources.items():
        pc.score(model, source, tmp_path / name)
        for read in (with_pyarrow, with_pandas):
            assert read(tmp_path / name)["station"].to_pylist() == written, (name, read)
        assert pc.score(model, tmp_path / name, tmp_path / "again", columns=["x"]).rows == 200
