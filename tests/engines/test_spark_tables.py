"""Tables written by Spark, and scored tables read by Spark, have the same values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from every_type import ROWS, SPEC, TABLE, columns_of

import probclass_core as pc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


@pytest.fixture(params=["TIMESTAMP_MICROS", "INT96"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path:
    """A table written by Spark."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", request.param)
    frame = spark.createDataFrame(TABLE)
    frame.repartition(2).write.partitionBy("month", "hour").parquet(str(tmp_path / "lake"))
    return tmp_path / "lake"


def test_a_table_written_by_spark_is_read(lake: Path) -> None:
    names = {path.name for path in lake.rglob("*") if path.is_file()}
    assert "_SUCCESS" in names
    assert any(name.startswith(".") and name.endswith(".crc") for name in names)
    source = pc.open_table(lake)
    assert list(source.partition_columns) == ["month", "hour"]
    assert len(source.partitions()) == 3
    plan = source.plan(TABLE.column_names)
    table = pa.Table.from_batches(plan.batches(), plan.schema)
    assert table.num_rows == plan.rows == ROWS
    kind = table.schema.field("at").type
    if kind.tz is None:  # INT96 has no time zone
        at = table["at"].cast(pa.timestamp("us")).cast(TABLE["at"].type)
        table = table.set_column(table.schema.get_field_index("at"), "at", at)
    assert columns_of(table) == columns_of(TABLE)
    for name in ("id", "small", "whole", "single", "double", "flag", "day", "price", "bytes"):
        assert table.schema.field(name).type == TABLE.schema.field(name).type, name
    selected = source.plan(["id"], partition={"month": "2014 02/ä", "hour": 2})
    ids = pa.Table.from_batches(selected.batches())["id"].to_pylist()
    assert sorted(ids) == list(range(1, ROWS, 3))
    model = pc.fit(TABLE, SPEC)
    assert pc.fit(lake, SPEC).predict_proba(TABLE) == pytest.approx(model.predict_proba(TABLE))


def test_spark_reads_a_scored_table(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    coded = TABLE.append_column("coded", TABLE["text"].combine_chunks().dictionary_encode())
    options = ds.partitioning(pa.schema([TABLE.field(n) for n in ("month", "hour")]), flavor="hive")
    ds.write_dataset(coded, tmp_path / "lake", format="parquet", partitioning=options)
    model = pc.fit(TABLE, SPEC)
    report = pc.score(model, tmp_path / "lake", tmp_path / "scored")
    frame = spark.read.parquet(str(tmp_path / "scored"))
    assert frame.count() == report.rows == ROWS
    expected = pc.open_table(tmp_path / "scored").schema
    assert {field.name: field.dataType for field in frame.schema} == {
        field.name: from_arrow_type(field.type) for field in expected
    }
    columns = columns_of(frame.toArrow())
    for name, cells in columns_of(coded).items():
        assert columns[name] == cells, name
    assert columns["p_p"] == model.predict_proba(TABLE)[:, 0].tolist()
    assert columns["prediction"] == model.predict(TABLE).to_pylist()
    assert frame.where("month is null").count() == ROWS // 3
    assert frame.where("month = '2014-01' and hour = 1").count() == ROWS // 3
