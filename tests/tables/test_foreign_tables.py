"""Tables that other libraries wrote: rows, types, nulls, partition values, and the model."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from every_type import ROWS, SPEC, TABLE, columns_of
from reading import read_rows

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.open import open_table


def by_duckdb(root: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("given", TABLE)
        options = "(format parquet, partition_by (month, hour))"
        connection.execute(f"copy (select * from given) to '{root}' {options}")


def by_polars(root: Path) -> None:
    pl.from_arrow(TABLE).write_parquet(root, partition_by=["month", "hour"])


def by_pandas(root: Path) -> None:
    """Write an index that is not a range, which pandas stores in an extra column."""
    frame = TABLE.to_pandas(types_mapper=pd.ArrowDtype).sample(frac=1.0, random_state=0)
    frame.to_parquet(root, partition_cols=["month", "hour"])


def by_pyarrow(root: Path) -> None:
    options = ds.partitioning(pa.schema([TABLE.field(n) for n in ("month", "hour")]), flavor="hive")
    ds.write_dataset(TABLE, root, format="parquet", partitioning=options)


def by_delta_rs(root: Path) -> None:
    write_deltalake(root, TABLE, partition_by=["month", "hour"])


def by_polars_to_delta(root: Path) -> None:
    frame = pl.from_arrow(TABLE)
    assert isinstance(frame, pl.DataFrame)
    frame.write_delta(root, delta_write_options={"partition_by": ["month", "hour"]})


WRITERS = (by_duckdb, by_polars, by_pandas, by_pyarrow, by_delta_rs, by_polars_to_delta)


@pytest.fixture(params=WRITERS, ids=lambda writer: writer.__name__)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    request.param(tmp_path / "lake")
    return tmp_path / "lake"


def test_rows_types_nulls_and_partition_values_are_read(lake: Path) -> None:
    table = pc.open_table(lake)
    assert list(table.partition_columns) == ["month", "hour"]
    assert {**table.partitions()[0]}.keys() == {"month", "hour"}
    plan = table.plan()
    rows = pa.Table.from_batches(plan.batches(), plan.schema)
    assert rows.num_rows == plan.rows == ROWS
    assert columns_of(rows.select(TABLE.column_names)) == columns_of(TABLE)
    for name in ("small", "single", "double", "flag", "day"):
        assert rows.schema.field(name).type == TABLE.schema.field(name).type
    one_partition = table.plan(["id"], partition={"month": "2014 02/ä", "hour": 2})
    ids = pa.Table.from_batches(one_partition.batches())["id"].to_pylist()
    assert sorted(ids) == list(range(1, ROWS, 3))
    assert pc.inspect_table(lake).models == []


def test_the_same_model_is_trained_and_rows_are_scored(lake: Path) -> None:
    model = pc.fit(TABLE, SPEC)
    assert pc.fit(lake, SPEC).predict_proba(TABLE) == pytest.approx(model.predict_proba(TABLE))
    report = pc.score(
        model, lake, lake.parent / "scored", options={"columns": ["id", "month", "hour"]}
    )
    assert (report.rows, len(report.partitions)) == (ROWS, 3)
    scored = read_rows(lake.parent / "scored", columns=["id", "month", "p_p"]).sort_by("id")
    assert scored["month"].to_pylist() == TABLE["month"].to_pylist()
    assert scored["p_p"].to_pylist() == pytest.approx(model.predict_proba(TABLE)[:, 0].tolist())


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_text_in_delta_encodings_is_read(tmp_path: Path, encoding: str) -> None:
    table = pa.table({"wind": ["N", "S", "W"] * 20, "air": ["good", "bad"] * 30})
    encodings = dict.fromkeys(table.column_names, encoding)
    path = tmp_path / "rows.parquet"
    options = {"use_dictionary": False, "column_encoding": encodings}
    pq.write_table(table, path, row_group_size=25, **options)
    plan = open_table(path).plan(["wind", "air"], allow_dictionaries=True)
    (unit,) = plan.units
    assert pa.Table.from_batches(unit.read()).cast(table.schema) == table
    spec = pc.ModelSpec("air", {"categorical": ["wind"]})
    assert pc.fit(path, spec).id == pc.fit(table, spec).id


@pytest.mark.parametrize("dictionary", [False, True])
def test_text_that_is_not_utf8_is_an_error_that_names_the_column(
    tmp_path: Path, *, dictionary: bool
) -> None:
    cities = pa.array([b"Krak\xf3w", b"Paris"]).view(pa.string())
    table = pa.table({"city": cities, "air": ["good", "bad"]})
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, use_dictionary=dictionary)
    message = r"cannot read column 'city' of \S+rows\.parquet: .*Invalid UTF8 .*; write the file"
    with pytest.raises(TableError, match=message):
        pc.fit(path, pc.ModelSpec("air", {"categorical": ["city"]}))
