"""Tables that Spark writes are read here, and scored tables are read by Spark, value for value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import probclass_core as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

ROWS = 12
NOON = dt.datetime(2014, 1, 1, 12, 0, 0, 5, tzinfo=dt.UTC)
SPEC = pc.ModelSpec(
    "label",
    [
        pc.Block("gaussian_diagonal", ["double", "small", "price"]),
        pc.Block("categorical", ["text", "month", "hour"]),
    ],
)


def every_third_null(values: list[Any], kind: pa.DataType) -> pa.Array:
    cells = [None if row % 3 == 2 else values[row % len(values)] for row in range(ROWS)]
    return pa.array(cells, kind)


TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "small": every_third_null([1, -1, 2, 5], pa.int8()),
        "whole": every_third_null([2**31 - 1, 0], pa.int32()),
        "single": every_third_null([0.5, -0.25], pa.float32()),
        "double": every_third_null([0.1, 1e10, 3.5, -4.0], pa.float64()),
        "flag": every_third_null([True, False], pa.bool_()),
        "text": every_third_null(["", "ß ☃", "a,b\n"], pa.string()),
        "at": every_third_null([NOON], pa.timestamp("us", "UTC")),
        "day": every_third_null([NOON.date()], pa.date32()),
        "price": every_third_null([Decimal("1.25"), Decimal("-7.50")], pa.decimal128(9, 2)),
        "vector": every_third_null([[0.5, None], []], pa.list_(pa.float64())),
        "bytes": every_third_null([b"\x00\xff"], pa.binary()),
        "label": pa.array(["p", "q"] * (ROWS // 2)),
        "month": pa.array(["2014-01", "2014 02/ä", None] * (ROWS // 3)),
        "hour": pa.array([1, 2, 23] * (ROWS // 3), pa.int32()),
    }
)


TYPES = {
    "id": "bigint",
    "small": "tinyint",
    "whole": "int",
    "single": "float",
    "double": "double",
    "flag": "boolean",
    "text": "string",
    "at": "timestamp",
    "day": "date",
    "price": "decimal(9,2)",
    "vector": "array<double>",
    "bytes": "binary",
    "label": "string",
    "coded": "string",
    "prediction": "string",
    "probability": "double",
    "p_p": "double",
    "p_q": "double",
    "log_density": "double",
    "model_id": "string",
    "month": "string",
    "hour": "int",
}
"""What Spark takes the columns of the scored table for."""


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    """Plain values by column, in order of the ids."""
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    return {name: [row[name] for row in rows] for name in table.column_names}


@pytest.fixture(params=["TIMESTAMP_MICROS", "INT96"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path:
    """Written by Spark."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", request.param)
    frame = spark.createDataFrame(TABLE)
    frame.repartition(2).write.partitionBy("month", "hour").parquet(str(tmp_path / "lake"))
    return tmp_path / "lake"


def test_what_spark_wrote_is_read(lake: Path) -> None:
    names = {path.name for path in lake.rglob("*") if path.is_file()}
    assert "_SUCCESS" in names
    assert any(name.startswith(".") and name.endswith(".crc") for name in names)
    table = pc.open_table(lake)
    assert list(table.partition_columns) == ["month", "hour"]
    assert len(table.partitions()) == 3
    plan = table.plan(TABLE.column_names)
    found = pa.Table.from_batches(plan.batches(), plan.schema)
    assert found.num_rows == plan.rows == ROWS
    kind = found.schema.field("at").type
    if kind.tz is None:  # as Parquet has INT96: nobody says that it is UTC
        found = found.set_column(
            7, "at", found["at"].cast(pa.timestamp("us")).cast(TABLE["at"].type)
        )
    assert columns_of(found) == columns_of(TABLE)
    for name in ("id", "small", "whole", "single", "double", "flag", "day", "price", "bytes"):
        assert found.schema.field(name).type == TABLE.schema.field(name).type, name
    chosen = table.plan(["id"], partition={"month": "2014 02/ä", "hour": 2})
    ids = pa.Table.from_batches(chosen.batches())["id"].to_pylist()
    assert sorted(ids) == list(range(1, ROWS, 3))
    model = pc.fit(TABLE, SPEC)
    assert pc.fit(lake, SPEC).predict_proba(TABLE) == pytest.approx(model.predict_proba(TABLE))


def types_of(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema}


def test_spark_reads_what_was_scored(spark: SparkSession, tmp_path: Path) -> None:
    coded = TABLE.append_column("coded", TABLE["text"].combine_chunks().dictionary_encode())
    options = ds.partitioning(pa.schema([TABLE.field(n) for n in ("month", "hour")]), flavor="hive")
    ds.write_dataset(coded, tmp_path / "lake", format="parquet", partitioning=options)
    model = pc.fit(TABLE, SPEC)
    report = pc.score(model, tmp_path / "lake", tmp_path / "scored")
    frame = spark.read.parquet(str(tmp_path / "scored"))
    assert frame.count() == report.rows == ROWS
    assert types_of(frame) == TYPES
    found = columns_of(frame.toArrow())
    for name, cells in columns_of(coded).items():
        assert found[name] == cells, name
    assert found["p_p"] == model.predict_proba(TABLE)[:, 0].tolist()
    assert found["prediction"] == model.predict(TABLE).to_pylist()
    assert frame.where("month is null").count() == ROWS // 3
    assert frame.where("month = '2014-01' and hour = 1").count() == ROWS // 3
