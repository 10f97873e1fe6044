"""Spark replaces lost workers, and its Connect gives the same ids and bytes as threads."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import workloads
from lakes import digests
from model_values import digest_of
from python_processes import output_of_python
from workloads import SPEC, FaultyTable

import probclass_core as pc
from probclass_core.errors import TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


def test_a_lost_worker_is_replaced_and_a_unit_that_kills_every_worker_is_named(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    once = FaultyTable(lake, 2, workloads.kill_worker_once, tmp_path / "flag")
    assert pc.fit(once, SPEC, engine=spark).id == pc.fit(lake, SPEC).id
    always = FaultyTable(lake, 1, workloads.kill_worker, tmp_path / "flag")
    with pytest.raises(TableError, match=r"month=01/0\.parquet .*: its worker was lost 3 times"):
        pc.fit(always, SPEC, engine=spark)


def test_partitions_are_scored_in_parallel_and_a_lost_one_again(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    model = pc.fit(lake, SPEC)
    pc.score(model, lake, tmp_path / "threads")
    once = FaultyTable(lake, 0, workloads.kill_worker_once, tmp_path / "flag")
    assert pc.score(model, once, tmp_path / "spark", engine=spark).rows == 600
    assert (tmp_path / "flag").exists()
    assert digests(tmp_path / "threads") == digests(tmp_path / "spark")


def test_a_session_of_connect_gives_the_same_results(lake: Path, tmp_path: Path) -> None:
    script, workers = (
        Path(__file__).with_name("spark_connect.py"),
        {"PYSPARK_PYTHON": sys.executable},
    )
    output = output_of_python(script, lake, tmp_path, env=workers)
    results = json.loads(output.splitlines()[-1])
    assert results["session"] == "pyspark.sql.connect.session"
    model = pc.fit(lake, SPEC)
    assert results["model"] == model.id
    assert results["statistics"] == digest_of(pc.summarize(lake, SPEC))
    assert results["log_loss"] == pc.evaluate(model, lake).log_loss
    pc.score(model, lake, tmp_path / "threads")
    assert results["rows"] == 600
    assert results["digests"] == digests(tmp_path / "threads")
