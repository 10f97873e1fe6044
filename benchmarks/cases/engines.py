"""Train by threads, by processes and by Spark: what it costs to have others read.

Spark ML's Gaussian naive Bayes is the peer: it takes rows, not fragments, through its own readers.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.dataset as ds

import probclass_core as pc
from benchmarks.case import Case, Outcome
from benchmarks.lake import CLASSES, LABEL, Lake, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = 2

engines: Case[Lake] = Case(
    name="engines",
    title="train gaussian_diagonal by threads, processes and Spark",
    rows=4_000_000,
    prepare=numbers,
    reference="threads",
    tolerance=1e-6,  # Spark ML subtracts the square of the mean from the mean of the squares
)
CASES = (engines,)


@engines.contestant("bare scan", is_floor=True)
def scan(lake: Lake) -> Outcome:
    """pyarrow.dataset to batches, all threads, every batch let go."""
    batches = ds.dataset(lake.path).to_batches(columns=lake.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


@engines.contestant("threads")
def by_threads(lake: Lake) -> Outcome:
    """fit."""
    return _fitted(lake, None)


@engines.contestant("processes, ready")
def by_processes(lake: Lake) -> Outcome:
    """fit with an executor whose processes were started before."""
    return _fitted(lake, _pool())


@engines.contestant("processes, new")
def by_new_processes(lake: Lake) -> Outcome:
    """fit with engine='processes', their start included."""
    return _fitted(lake, "processes")


@engines.contestant("Spark")
def by_spark(lake: Lake) -> Outcome:
    """fit with a session of two local workers, started before."""
    return _fitted(lake, _session())


@engines.contestant("Spark ML GaussianNB")
def by_spark_ml(lake: Lake) -> Outcome:
    """VectorAssembler and NaiveBayes(modelType='gaussian') in the same session."""
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import StringIndexer, VectorAssembler

    frame = _session().read.parquet(lake.path)
    indexer = StringIndexer(
        inputCol=LABEL, outputCol="code", stringOrderType="alphabetAsc"
    ).setHandleInvalid("error")
    coded = indexer.fit(frame).transform(frame)
    rows = VectorAssembler(inputCols=list(lake.features), outputCol="x").transform(coded)
    model = NaiveBayes(modelType="gaussian", featuresCol="x", labelCol="code").fit(rows)
    return {
        "mean": model.theta.toArray().ravel(),
        "variance": model.sigma.toArray().ravel(),
        "priors": np.exp(model.pi.toArray()),
    }


def _fitted(lake: Lake, engine: Any) -> Outcome:
    blocks = [pc.Block("gaussian_diagonal", list(lake.features))]
    spec = pc.ModelSpec(label=LABEL, blocks=blocks)
    model = pc.fit(lake.path, spec, engine=engine, workers=WORKERS)
    parameters = model.parameters["gaussian_diagonal"]
    assert len(model.classes) == len(CLASSES)
    return {
        "mean": parameters["mean"].to_numpy(),
        "variance": parameters["variance"].to_numpy(),
        "priors": model.priors["prior"].to_numpy(),
    }


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
