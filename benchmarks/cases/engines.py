"""Train by threads, by processes and by Spark: what it costs to have others read.

Spark ML is the peer: its rows go through Spark's own readers.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import probclass_core as pc
from benchmarks.case import OURS, Case, Outcome
from benchmarks.cases.train_gaussian import SCAN, scan, spark_ml, told
from benchmarks.lake import LABEL, Lake, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = 2

engines: Case[Lake] = Case(
    name="engines",
    title="train gaussian_diagonal by threads, processes and Spark",
    rows=4_000_000,
    prepare=numbers,
    reference=OURS,
)
CASES = (engines,)

engines.contestant(SCAN, is_floor=True)(scan)


@engines.contestant(OURS)
def by_threads(lake: Lake) -> Outcome:
    """fit, two threads."""
    return _fitted(lake, None)


@engines.contestant("processes, ready")
def by_processes(lake: Lake) -> Outcome:
    """fit with an executor of two processes, started before."""
    return _fitted(lake, _pool())


@engines.contestant("processes, new")
def by_new_processes(lake: Lake) -> Outcome:
    """fit with engine='processes', the start of the two included."""
    return _fitted(lake, "processes")


@engines.contestant("Spark")
def by_spark(lake: Lake) -> Outcome:
    """fit with a session in local mode, two workers, started before."""
    return _fitted(lake, _session())


@engines.contestant("Spark ML")
def by_spark_ml(lake: Lake) -> Outcome:
    """NaiveBayes of gaussian type, in the same session."""
    _session()
    found: Outcome = spark_ml(lake)
    return found


def _fitted(lake: Lake, engine: Any) -> Outcome:
    block = pc.Block("gaussian_diagonal", list(lake.features))
    spec = pc.ModelSpec(label=LABEL, blocks=[block])
    model = pc.fit(lake.path, spec, engine=engine, workers=WORKERS)
    return told(model)


@functools.cache
def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))


@functools.cache
def _session() -> SparkSession:
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{WORKERS}]").config("spark.driver.memory", "4g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    return builder.config("spark.log.level", "ERROR").getOrCreate()
