"""A model as SQL on Spark gives the table of `predict_table`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sql_cases import BLOCKS, check_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.services, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(
    ("case", "tables"), [*((case, None) for case in BLOCKS), ("mixed", "numbers")]
)
def test_spark_scores_as_in_python(spark: SparkSession, case: str, tables: str | None) -> None:
    def run(rows: pa.Table, query: str, statements: Sequence[str]) -> pa.Table:
        spark.createDataFrame(rows).createOrReplaceTempView("rows")
        for statement in statements:
            spark.sql(statement)
        return spark.sql(query).toArrow()

    check_case(case, "spark", run, tables)
