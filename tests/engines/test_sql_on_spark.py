"""A model as SQL on Spark gives the table of `predict_table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pac
import pytest
from sql_cases import compare, fitted, hard_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.services, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("case", "tables"), [("gaussian_diagonal", None), ("mixed", None), ("mixed", "numbers")]
)
def test_spark_scores_as_in_python(spark: SparkSession, case: str, tables: str | None) -> None:
    rows, model = hard_rows(), fitted(case)
    spark.createDataFrame(rows).createOrReplaceTempView("rows")
    if tables is not None:
        for statement in model.to_sql_tables(dialect="spark", tables=tables):
            spark.sql(statement)
    query = model.to_sql(dialect="spark", source="rows", columns="key", tables=tables)
    result = spark.sql(query).toArrow()
    expected = model.predict_table(rows, columns=["key"])
    compare(expected, result.take(pac.sort_indices(result["key"])))
