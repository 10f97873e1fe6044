"""A model as SQL on Spark gives the table of `predict_table`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sql_cases import BLOCKS, check_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.services, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("case", BLOCKS)
def test_spark_scores_as_in_python(spark: SparkSession, case: str) -> None:
    def run(rows: pa.Table, query: str) -> pa.Table:
        spark.createDataFrame(rows).createOrReplaceTempView("rows")
        return spark.sql(query).toArrow()

    check_case(case, "spark", run)
